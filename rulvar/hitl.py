"""Asking people; re-exports the machines and tools of ``rulvar.machines.hitl``."""

from rulvar.machines.hitl import (
    HITL,
    AskUser,
    ConfirmUser,
    ExploreTask,
    RequestSecrets,
    ask_clarification,
    ask_for_approval,
    explore_task,
    request_secrets,
)

__all__ = [
    "HITL",
    "AskUser",
    "ConfirmUser",
    "ExploreTask",
    "RequestSecrets",
    "ask_clarification",
    "ask_for_approval",
    "explore_task",
    "request_secrets",
]

"""rulvar: durable LLM-agent workflows that never pay twice.

A workflow is an async function over ``ctx``. It re-runs from the top after every crash, edit or human
answer, and every finished call is served from its journal.

This module re-exports the public names and nothing else. A name's module is loaded when the name is
first used, so that ``import rulvar`` costs next to nothing in tools that only look.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rulvar.contracts.capabilities import ModelCaps as ModelCaps
    from rulvar.contracts.capabilities import ModelPricing as ModelPricing
    from rulvar.contracts.events import Event as Event
    from rulvar.contracts.messages import (
        ChatRequest as ChatRequest,
    )
    from rulvar.contracts.messages import (
        Msg as Msg,
    )
    from rulvar.contracts.messages import (
        TextPart as TextPart,
    )
    from rulvar.contracts.messages import (
        ToolContract as ToolContract,
    )
    from rulvar.contracts.outcome import (
        CostReport as CostReport,
    )
    from rulvar.contracts.outcome import (
        Dropped as Dropped,
    )
    from rulvar.contracts.outcome import (
        Outcome as Outcome,
    )
    from rulvar.contracts.outcome import (
        Pending as Pending,
    )
    from rulvar.contracts.outcome import (
        Preview as Preview,
    )
    from rulvar.contracts.outcome import (
        Settled as Settled,
    )
    from rulvar.contracts.ports.provider import Adapter as Adapter
    from rulvar.contracts.stream import (
        ChatEvent as ChatEvent,
    )
    from rulvar.contracts.stream import (
        Finish as Finish,
    )
    from rulvar.contracts.stream import (
        FinishInfo as FinishInfo,
    )
    from rulvar.contracts.stream import (
        PartialUsage as PartialUsage,
    )
    from rulvar.contracts.stream import (
        ReasoningDelta as ReasoningDelta,
    )
    from rulvar.contracts.stream import (
        StreamError as StreamError,
    )
    from rulvar.contracts.stream import (
        TextDelta as TextDelta,
    )
    from rulvar.contracts.stream import (
        ToolCallDelta as ToolCallDelta,
    )
    from rulvar.contracts.stream import (
        ToolCallEnd as ToolCallEnd,
    )
    from rulvar.contracts.stream import (
        ToolCallStart as ToolCallStart,
    )
    from rulvar.contracts.stream import (
        UsageUpdate as UsageUpdate,
    )
    from rulvar.contracts.stream import (
        WireError as WireError,
    )
    from rulvar.contracts.usage import Usage as Usage
    from rulvar.engine.ctx import Ctx as Ctx
    from rulvar.engine.engine import Engine as Engine
    from rulvar.engine.handle import ResumeHandle as ResumeHandle
    from rulvar.engine.handle import RunHandle as RunHandle
    from rulvar.engine.workflow import (
        Workflow as Workflow,
    )
    from rulvar.engine.workflow import (
        define_workflow as define_workflow,
    )
    from rulvar.engine.workflow import (
        workflow as workflow,
    )
    from rulvar.runtime.agent import AgentProfile as AgentProfile
    from rulvar.runtime.agent import AgentResult as AgentResult
    from rulvar.runtime.limits import UsageLimits as UsageLimits
    from rulvar.runtime.retry import Backoff as Backoff
    from rulvar.runtime.retry import RetryPolicy as RetryPolicy
    from rulvar.stores.jsonl import JsonlFileStore as JsonlFileStore
    from rulvar.stores.memory import InMemoryStore as InMemoryStore
    from rulvar.stores.transcripts import FileTranscriptStore as FileTranscriptStore
    from rulvar.tools.gate import evaluate_permission as evaluate_permission
    from rulvar.tools.permissions import Decision as Decision
    from rulvar.tools.permissions import Permissions as Permissions
    from rulvar.tools.permissions import ToolRequest as ToolRequest
    from rulvar.tools.tool import (
        ModelRetry as ModelRetry,
    )
    from rulvar.tools.tool import (
        Tool as Tool,
    )
    from rulvar.tools.tool import (
        ToolRefusal as ToolRefusal,
    )
    from rulvar.tools.tool import (
        tool as tool,
    )

_HOMES = {
    "Adapter": "rulvar.contracts.ports.provider",
    "AgentProfile": "rulvar.runtime.agent",
    "AgentResult": "rulvar.runtime.agent",
    "Backoff": "rulvar.runtime.retry",
    "ChatEvent": "rulvar.contracts.stream",
    "ChatRequest": "rulvar.contracts.messages",
    "CostReport": "rulvar.contracts.outcome",
    "Ctx": "rulvar.engine.ctx",
    "Decision": "rulvar.tools.permissions",
    "Dropped": "rulvar.contracts.outcome",
    "Engine": "rulvar.engine.engine",
    "Event": "rulvar.contracts.events",
    "FileTranscriptStore": "rulvar.stores.transcripts",
    "Finish": "rulvar.contracts.stream",
    "FinishInfo": "rulvar.contracts.stream",
    "InMemoryStore": "rulvar.stores.memory",
    "JsonlFileStore": "rulvar.stores.jsonl",
    "ModelCaps": "rulvar.contracts.capabilities",
    "ModelPricing": "rulvar.contracts.capabilities",
    "ModelRetry": "rulvar.tools.tool",
    "Msg": "rulvar.contracts.messages",
    "Outcome": "rulvar.contracts.outcome",
    "PartialUsage": "rulvar.contracts.stream",
    "Pending": "rulvar.contracts.outcome",
    "Permissions": "rulvar.tools.permissions",
    "Preview": "rulvar.contracts.outcome",
    "ReasoningDelta": "rulvar.contracts.stream",
    "ResumeHandle": "rulvar.engine.handle",
    "RetryPolicy": "rulvar.runtime.retry",
    "RunHandle": "rulvar.engine.handle",
    "Settled": "rulvar.contracts.outcome",
    "StreamError": "rulvar.contracts.stream",
    "TextDelta": "rulvar.contracts.stream",
    "TextPart": "rulvar.contracts.messages",
    "Tool": "rulvar.tools.tool",
    "ToolCallDelta": "rulvar.contracts.stream",
    "ToolCallEnd": "rulvar.contracts.stream",
    "ToolCallStart": "rulvar.contracts.stream",
    "ToolContract": "rulvar.contracts.messages",
    "ToolRefusal": "rulvar.tools.tool",
    "ToolRequest": "rulvar.tools.permissions",
    "Usage": "rulvar.contracts.usage",
    "UsageLimits": "rulvar.runtime.limits",
    "UsageUpdate": "rulvar.contracts.stream",
    "WireError": "rulvar.contracts.stream",
    "Workflow": "rulvar.engine.workflow",
    "define_workflow": "rulvar.engine.workflow",
    "evaluate_permission": "rulvar.tools.gate",
    "tool": "rulvar.tools.tool",
    "workflow": "rulvar.engine.workflow",
}

__all__ = [
    "Adapter",
    "AgentProfile",
    "AgentResult",
    "Backoff",
    "ChatEvent",
    "ChatRequest",
    "CostReport",
    "Ctx",
    "Decision",
    "Dropped",
    "Engine",
    "Event",
    "FileTranscriptStore",
    "Finish",
    "FinishInfo",
    "InMemoryStore",
    "JsonlFileStore",
    "ModelCaps",
    "ModelPricing",
    "ModelRetry",
    "Msg",
    "Outcome",
    "PartialUsage",
    "Pending",
    "Permissions",
    "Preview",
    "ReasoningDelta",
    "ResumeHandle",
    "RetryPolicy",
    "RunHandle",
    "Settled",
    "StreamError",
    "TextDelta",
    "TextPart",
    "Tool",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolContract",
    "ToolRefusal",
    "ToolRequest",
    "Usage",
    "UsageLimits",
    "UsageUpdate",
    "WireError",
    "Workflow",
    "define_workflow",
    "evaluate_permission",
    "tool",
    "workflow",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'rulvar' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

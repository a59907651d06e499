"""rulvar: durable LLM-agent workflows that never pay twice.

A workflow is an async function over ``ctx``. It re-runs from the top after every crash, edit or human
answer, and every finished call is served from its journal. Re-exports only.
"""

from rulvar.contracts.capabilities import ModelCaps, ModelPricing
from rulvar.contracts.events import Event
from rulvar.contracts.messages import ChatRequest, Msg, TextPart, ToolContract
from rulvar.contracts.outcome import CostReport, Dropped, Outcome, Pending, Preview, Settled
from rulvar.contracts.ports.provider import Adapter
from rulvar.contracts.stream import (
    ChatEvent,
    Finish,
    FinishInfo,
    ReasoningDelta,
    StreamError,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
    WireError,
)
from rulvar.contracts.usage import Usage
from rulvar.engine.ctx import Ctx
from rulvar.engine.engine import Engine
from rulvar.engine.handle import ResumeHandle, RunHandle
from rulvar.engine.workflow import Workflow, define_workflow, workflow
from rulvar.runtime.agent import AgentProfile, AgentResult
from rulvar.runtime.limits import UsageLimits
from rulvar.runtime.retry import Backoff, RetryPolicy
from rulvar.stores.jsonl import JsonlFileStore
from rulvar.stores.memory import InMemoryStore
from rulvar.stores.transcripts import FileTranscriptStore
from rulvar.tools.gate import Permissions
from rulvar.tools.tool import ModelRetry, Tool, ToolRefusal, tool

__all__ = [
    "Adapter",
    "AgentProfile",
    "AgentResult",
    "Backoff",
    "ChatEvent",
    "ChatRequest",
    "CostReport",
    "Ctx",
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
    "Usage",
    "UsageLimits",
    "UsageUpdate",
    "WireError",
    "Workflow",
    "define_workflow",
    "tool",
    "workflow",
]

"""rulvar: durable LLM-agent workflows that never pay twice.

A workflow is an async function over ``ctx``. It re-runs from the top after every crash, edit or human
answer, and every finished call is served from its journal.

This module re-exports the public names and nothing else. A name's module is loaded when the name is
first used, so that ``import rulvar`` costs next to nothing in tools that only look.
"""

from typing import TYPE_CHECKING

from rulvar.lazy_names import lazy_names

if TYPE_CHECKING:
    from rulvar.agents.agent import Agent as Agent
    from rulvar.agents.agent import check_agent as check_agent
    from rulvar.agents.delegate import agent_as_tool as agent_as_tool
    from rulvar.agents.delegate import with_preflight as with_preflight
    from rulvar.agents.guards import AgentGuards as AgentGuards
    from rulvar.agents.guards import Rewrite as Rewrite
    from rulvar.agents.hooks import Hook as Hook
    from rulvar.agents.limits import Limits as Limits
    from rulvar.agents.stream import StreamPolicy as StreamPolicy
    from rulvar.contracts.capabilities import ModelCaps as ModelCaps
    from rulvar.contracts.capabilities import ModelPricing as ModelPricing
    from rulvar.contracts.envelope import DeclaredDocument as DeclaredDocument
    from rulvar.contracts.envelope import Receipt as Receipt
    from rulvar.contracts.envelope import ToolEnvelope as ToolEnvelope
    from rulvar.contracts.envelope import ToolResult as ToolResult
    from rulvar.contracts.events import Event as Event
    from rulvar.contracts.messages import ChatRequest as ChatRequest
    from rulvar.contracts.messages import Msg as Msg
    from rulvar.contracts.messages import TextPart as TextPart
    from rulvar.contracts.messages import ToolContract as ToolContract
    from rulvar.contracts.outcome import CostReport as CostReport
    from rulvar.contracts.outcome import Dropped as Dropped
    from rulvar.contracts.outcome import Outcome as Outcome
    from rulvar.contracts.outcome import Pending as Pending
    from rulvar.contracts.outcome import Preview as Preview
    from rulvar.contracts.outcome import Raised as Raised
    from rulvar.contracts.outcome import Settled as Settled
    from rulvar.contracts.ports.provider import Adapter as Adapter
    from rulvar.contracts.stream import ChatEvent as ChatEvent
    from rulvar.contracts.stream import Finish as Finish
    from rulvar.contracts.stream import FinishInfo as FinishInfo
    from rulvar.contracts.stream import PartialUsage as PartialUsage
    from rulvar.contracts.stream import ReasoningDelta as ReasoningDelta
    from rulvar.contracts.stream import StreamError as StreamError
    from rulvar.contracts.stream import TextDelta as TextDelta
    from rulvar.contracts.stream import ToolCallDelta as ToolCallDelta
    from rulvar.contracts.stream import ToolCallEnd as ToolCallEnd
    from rulvar.contracts.stream import ToolCallStart as ToolCallStart
    from rulvar.contracts.stream import UsageUpdate as UsageUpdate
    from rulvar.contracts.stream import WireError as WireError
    from rulvar.contracts.strictness import strict_schema as strict_schema
    from rulvar.contracts.usage import Usage as Usage
    from rulvar.engine.ctx import Ctx as Ctx
    from rulvar.engine.engine import Engine as Engine
    from rulvar.engine.handle import ResumeHandle as ResumeHandle
    from rulvar.engine.handle import RunHandle as RunHandle
    from rulvar.engine.inspection import RunInspection as RunInspection
    from rulvar.engine.workflow import Workflow as Workflow
    from rulvar.engine.workflow import define_workflow as define_workflow
    from rulvar.engine.workflow import workflow as workflow
    from rulvar.machines.answer import Input as Input
    from rulvar.machines.app import App as App
    from rulvar.machines.context import MachineCtx as MachineCtx
    from rulvar.machines.definition import Retry as Retry
    from rulvar.machines.definition import transition as transition
    from rulvar.machines.document import Widget as Widget
    from rulvar.machines.document import document as document
    from rulvar.machines.fan_out import FanOut as FanOut
    from rulvar.machines.fan_out import Sequence as Sequence
    from rulvar.machines.machine import StateMachine as StateMachine
    from rulvar.machines.park_view import ParkView as ParkView
    from rulvar.machines.park_view import park_view as park_view
    from rulvar.machines.view import RunView as RunView
    from rulvar.runtime.agent import AgentProfile as AgentProfile
    from rulvar.runtime.agent import AgentResult as AgentResult
    from rulvar.runtime.limits import UsageLimits as UsageLimits
    from rulvar.runtime.retry import Backoff as Backoff
    from rulvar.runtime.retry import RetryPolicy as RetryPolicy
    from rulvar.stores.jsonl import JsonlFileStore as JsonlFileStore
    from rulvar.stores.memory import InMemoryStore as InMemoryStore
    from rulvar.stores.postgres import PostgresStore as PostgresStore
    from rulvar.stores.sqlite import SqliteStore as SqliteStore
    from rulvar.stores.transcripts import FileTranscriptStore as FileTranscriptStore
    from rulvar.tools.gate import evaluate_permission as evaluate_permission
    from rulvar.tools.grants import tool_grants as tool_grants
    from rulvar.tools.injection import ToolContext as ToolContext
    from rulvar.tools.injection import inject as inject
    from rulvar.tools.pending import ChildOutcome as ChildOutcome
    from rulvar.tools.pending import from_child as from_child
    from rulvar.tools.permissions import Decision as Decision
    from rulvar.tools.permissions import Permissions as Permissions
    from rulvar.tools.permissions import ToolRequest as ToolRequest
    from rulvar.tools.tool import ModelRetry as ModelRetry
    from rulvar.tools.tool import Tool as Tool
    from rulvar.tools.tool import ToolGuards as ToolGuards
    from rulvar.tools.tool import ToolRefusal as ToolRefusal
    from rulvar.tools.tool import tool as tool

_HOMES = {
    "Adapter": "rulvar.contracts.ports.provider",
    "Agent": "rulvar.agents.agent",
    "AgentGuards": "rulvar.agents.guards",
    "AgentProfile": "rulvar.runtime.agent",
    "AgentResult": "rulvar.runtime.agent",
    "App": "rulvar.machines.app",
    "Backoff": "rulvar.runtime.retry",
    "ChatEvent": "rulvar.contracts.stream",
    "ChatRequest": "rulvar.contracts.messages",
    "ChildOutcome": "rulvar.tools.pending",
    "CostReport": "rulvar.contracts.outcome",
    "Ctx": "rulvar.engine.ctx",
    "Decision": "rulvar.tools.permissions",
    "DeclaredDocument": "rulvar.contracts.envelope",
    "Dropped": "rulvar.contracts.outcome",
    "Engine": "rulvar.engine.engine",
    "Event": "rulvar.contracts.events",
    "FanOut": "rulvar.machines.fan_out",
    "FileTranscriptStore": "rulvar.stores.transcripts",
    "Finish": "rulvar.contracts.stream",
    "FinishInfo": "rulvar.contracts.stream",
    "Hook": "rulvar.agents.hooks",
    "InMemoryStore": "rulvar.stores.memory",
    "Input": "rulvar.machines.answer",
    "JsonlFileStore": "rulvar.stores.jsonl",
    "Limits": "rulvar.agents.limits",
    "MachineCtx": "rulvar.machines.context",
    "ModelCaps": "rulvar.contracts.capabilities",
    "ModelPricing": "rulvar.contracts.capabilities",
    "ModelRetry": "rulvar.tools.tool",
    "Msg": "rulvar.contracts.messages",
    "Outcome": "rulvar.contracts.outcome",
    "ParkView": "rulvar.machines.park_view",
    "PartialUsage": "rulvar.contracts.stream",
    "Pending": "rulvar.contracts.outcome",
    "Permissions": "rulvar.tools.permissions",
    "PostgresStore": "rulvar.stores.postgres",
    "Preview": "rulvar.contracts.outcome",
    "Raised": "rulvar.contracts.outcome",
    "ReasoningDelta": "rulvar.contracts.stream",
    "Receipt": "rulvar.contracts.envelope",
    "ResumeHandle": "rulvar.engine.handle",
    "Retry": "rulvar.machines.definition",
    "RetryPolicy": "rulvar.runtime.retry",
    "Rewrite": "rulvar.agents.guards",
    "RunHandle": "rulvar.engine.handle",
    "RunInspection": "rulvar.engine.inspection",
    "RunView": "rulvar.machines.view",
    "Sequence": "rulvar.machines.fan_out",
    "Settled": "rulvar.contracts.outcome",
    "SqliteStore": "rulvar.stores.sqlite",
    "StateMachine": "rulvar.machines.machine",
    "StreamError": "rulvar.contracts.stream",
    "StreamPolicy": "rulvar.agents.stream",
    "TextDelta": "rulvar.contracts.stream",
    "TextPart": "rulvar.contracts.messages",
    "Tool": "rulvar.tools.tool",
    "ToolCallDelta": "rulvar.contracts.stream",
    "ToolCallEnd": "rulvar.contracts.stream",
    "ToolCallStart": "rulvar.contracts.stream",
    "ToolContext": "rulvar.tools.injection",
    "ToolContract": "rulvar.contracts.messages",
    "ToolEnvelope": "rulvar.contracts.envelope",
    "ToolGuards": "rulvar.tools.tool",
    "ToolRefusal": "rulvar.tools.tool",
    "ToolRequest": "rulvar.tools.permissions",
    "ToolResult": "rulvar.contracts.envelope",
    "Usage": "rulvar.contracts.usage",
    "UsageLimits": "rulvar.runtime.limits",
    "UsageUpdate": "rulvar.contracts.stream",
    "Widget": "rulvar.machines.document",
    "WireError": "rulvar.contracts.stream",
    "Workflow": "rulvar.engine.workflow",
    "agent_as_tool": "rulvar.agents.delegate",
    "check_agent": "rulvar.agents.agent",
    "define_workflow": "rulvar.engine.workflow",
    "document": "rulvar.machines.document",
    "evaluate_permission": "rulvar.tools.gate",
    "from_child": "rulvar.tools.pending",
    "inject": "rulvar.tools.injection",
    "park_view": "rulvar.machines.park_view",
    "strict_schema": "rulvar.contracts.strictness",
    "tool": "rulvar.tools.tool",
    "tool_grants": "rulvar.tools.grants",
    "transition": "rulvar.machines.definition",
    "with_preflight": "rulvar.agents.delegate",
    "workflow": "rulvar.engine.workflow",
}

__all__ = [
    "Adapter",
    "Agent",
    "AgentGuards",
    "AgentProfile",
    "AgentResult",
    "App",
    "Backoff",
    "ChatEvent",
    "ChatRequest",
    "ChildOutcome",
    "CostReport",
    "Ctx",
    "Decision",
    "DeclaredDocument",
    "Dropped",
    "Engine",
    "Event",
    "FanOut",
    "FileTranscriptStore",
    "Finish",
    "FinishInfo",
    "Hook",
    "InMemoryStore",
    "Input",
    "JsonlFileStore",
    "Limits",
    "MachineCtx",
    "ModelCaps",
    "ModelPricing",
    "ModelRetry",
    "Msg",
    "Outcome",
    "ParkView",
    "PartialUsage",
    "Pending",
    "Permissions",
    "PostgresStore",
    "Preview",
    "Raised",
    "ReasoningDelta",
    "Receipt",
    "ResumeHandle",
    "Retry",
    "RetryPolicy",
    "Rewrite",
    "RunHandle",
    "RunInspection",
    "RunView",
    "Sequence",
    "Settled",
    "SqliteStore",
    "StateMachine",
    "StreamError",
    "StreamPolicy",
    "TextDelta",
    "TextPart",
    "Tool",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolContext",
    "ToolContract",
    "ToolEnvelope",
    "ToolGuards",
    "ToolRefusal",
    "ToolRequest",
    "ToolResult",
    "Usage",
    "UsageLimits",
    "UsageUpdate",
    "Widget",
    "WireError",
    "Workflow",
    "agent_as_tool",
    "check_agent",
    "define_workflow",
    "document",
    "evaluate_permission",
    "from_child",
    "inject",
    "park_view",
    "strict_schema",
    "tool",
    "tool_grants",
    "transition",
    "with_preflight",
    "workflow",
]

__getattr__, __dir__ = lazy_names(globals(), _HOMES)

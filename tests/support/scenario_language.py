"""The small workflow language of the interop scenarios, over the public surface of rulvar."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from rulvar import Ctx, Engine, ModelPricing, Tool, Workflow, define_workflow, tool
from rulvar.contracts.outcome import Settled
from rulvar.errors import AgentCallError, RulvarError
from rulvar.stores import InMemoryStore
from rulvar.testing.engine import fake_routing
from rulvar.testing.fake import FakeAdapter, fake_tool_calls, fake_wire_error

TEMPLATE = re.compile(r"\{\{([^}]+)\}\}")
AGENT_OPTIONS = {
    "agentType": "agent_type",
    "schema": "schema",
    "label": "label",
    "key": "key",
    "effort": "effort",
    "routing": "routing",
    "role": "role",
    "result": "result",
    "onError": "on_error",
    "memoizeOutcome": "memoize_outcome",
    "replay": "replay",
    "isolation": "isolation",
    "estCost": "est_cost",
    "stream": "stream",
}
LIMITS = {
    "maxTurns": "max_turns",
    "maxToolCalls": "max_tool_calls",
    "maxOutputTokensPerTurn": "max_output_tokens_per_turn",
}
RUN_OPTIONS = {
    "budgetUsd": "budget_usd",
    "configFingerprint": "config_fingerprint",
    "name": "name",
    "tags": "tags",
    "scope": "scope",
}
DEFAULTS = {"maxDepth": "max_depth", "flatReserveUsd": "flat_reserve_usd"}
PROFILE_OPTIONS = {
    "model": "model",
    "effort": "effort",
    "system": "system",
    "description": "description",
    "schema": "schema",
    "routing": "routing",
    "fallback": "fallback",
    "estCost": "est_cost",
}
CAPS = {
    "structuredOutput": "structured_output",
    "supportsTemperature": "supports_temperature",
    "supportsParallelTools": "supports_parallel_tools",
    "reasoningEfforts": "reasoning_efforts",
    "contextWindow": "context_window",
    "maxOutputTokens": "max_output_tokens",
    "minOutputTokensPerTurn": "min_output_tokens_per_turn",
    "promptCaching": "prompt_caching",
    "pricing": "pricing",
}
OPS: dict[str, set[str]] = {
    "agent": {"opts", "full_fields"},
    "step": {"deps", "key", "value", "value_nan", "value_undefined", "throws", "delay_ms"},
    "parallel": {"settle", "abortSiblings"},
    "pipeline": {"stages", "onItemError"},
    "workflow": {"args", "key"},
    "now": set(),
    "random": set(),
    "uuid": set(),
    "awaitExternal": {"opts"},
    "phase": {"body"},
    "log": {"msg", "data"},
    "brief": set(),
    "try": {"catch"},
    "if": {"then", "else"},
    "repeat": {"body"},
    "budget": set(),
    "sleep": set(),
    "throw": set(),
    "return": set(),
}
"""Every operation of the language, and the fields that it may have beside its own name and ``as``."""

AGENT_FIELDS = {*AGENT_OPTIONS, "tools", "limits", "retry", "model", "fallback"}
REPLIES = {"text", "value", "tool_calls", "wire_error", "throw", "hang", "delay_ms"}
TOOL_FIELDS = {"behavior", "description", "needsApproval", "parameters", "risk", "version"}
WORKFLOW_FIELDS = {"name", "body", "args_schema", "model", "effort", "routing"}
SCENARIO_FIELDS = {
    "name",
    "what",
    "args",
    "args_schema",
    "agents",
    "tools",
    "profiles",
    "caps",
    "wf",
    "segments",
}
SCENARIO_FIELDS |= {
    "budgetDefaults",
    "run_opts",
    "approvals",
    "externals",
    "cancel_after_ms",
    "strict_replay",
}
SCENARIO_FIELDS |= {"adapter_calls", "files", "entry_summary", "entries"}
SEGMENT_FIELDS = {"kind", "approvals", "externals", "resolve_after", "live_calls", "outcome"}
BACKOFF = {"initialMs": "initial_ms", "factor": "factor", "maxMs": "max_ms", "jitter": "jitter"}
NAMES = {"RuntimeError": "Error", "Exception": "Error"}


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


def substitute(value: Any, env: Mapping[str, Any]) -> Any:
    """Fill templates: a string that is exactly one becomes the raw value."""
    if isinstance(value, str):
        whole = TEMPLATE.fullmatch(value)
        if whole:
            return look_up(whole.group(1), env)
        return TEMPLATE.sub(lambda match: _text(look_up(match.group(1), env)), value)
    if isinstance(value, list):
        return [substitute(item, env) for item in value]
    if isinstance(value, dict):
        return {key: substitute(item, env) for key, item in value.items()}
    return value


def look_up(path: str, env: Mapping[str, Any]) -> Any:
    here: Any = env
    for name in path.strip().split("."):
        if isinstance(here, Mapping):
            here = here.get(name)
        elif isinstance(here, list) and name.isdigit():
            here = here[int(name)]
        else:
            return None
    return here


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class UnknownWord(AssertionError):
    """A scenario says something that this reading of the language does not know."""


def check_words(where: str, found: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse fields that nothing here reads: what they ask for would silently not happen.

    Raises:
        UnknownWord: names the place, the field and what is known there.
    """
    for name in found:
        if name not in known:
            raise UnknownWord(f"{where}: unknown field {name!r}; known are {', '.join(sorted(known))}")


def op_name(op: Mapping[str, Any]) -> str:
    """Return which operation an object is; ``as`` and its other fields are known.

    Raises:
        UnknownWord: no operation of the language, or a field that it does not have.
    """
    name = next((word for word in op if word in OPS), None)
    if name is None:
        raise UnknownWord(f"unknown operation {json.dumps(op)[:200]}; known are {', '.join(sorted(OPS))}")
    check_words(f"operation {name!r}", op, {name, "as", *OPS[name]})
    return name


def check_scenario(scenario: Mapping[str, Any]) -> None:
    """Refuse a scenario that says what nothing here reads.

    Raises:
        UnknownWord: names the place and the word.
    """
    where = f"scenario {scenario['name']!r}"
    check_words(where, scenario, SCENARIO_FIELDS)
    check_definition(where, scenario["wf"])
    check_words(f"{where}: run_opts", scenario.get("run_opts", {}), RUN_OPTIONS)
    check_words(f"{where}: budgetDefaults", scenario.get("budgetDefaults", {}), DEFAULTS)
    check_words(f"{where}: caps", scenario.get("caps") or {}, CAPS)
    for name, facts in (scenario.get("tools") or {}).items():
        check_words(f"{where}: tool {name!r}", facts, TOOL_FIELDS)
        check_words(f"{where}: tool {name!r}: behavior", facts.get("behavior", {}), {"value", "throws"})
    for pattern, replies in scenario["agents"].items():
        for reply in replies:
            check_words(f"{where}: reply of {pattern!r}", reply, REPLIES)
    for segment in scenario["segments"]:
        check_words(f"{where}: segment", segment, SEGMENT_FIELDS)
        if segment["kind"] not in ("run", "resume"):
            raise UnknownWord(f"{where}: unknown kind of segment {segment['kind']!r}")


def check_definition(where: str, definition: Mapping[str, Any]) -> None:
    """Refuse a workflow that says what nothing here reads, also in blocks that its run does not reach."""
    check_words(f"{where}: workflow {definition.get('name')!r}", definition, WORKFLOW_FIELDS)
    for op in definition["body"]:
        check_op(where, op)


def check_op(where: str, op: Mapping[str, Any]) -> None:
    """Refuse an operation that says what nothing here reads."""
    name = op_name(op)
    blocks = [op[key] for key in ("body", "try", "catch", "then", "else") if key in op]
    blocks += op.get("stages", []) if name == "pipeline" else []
    blocks += op["parallel"] if name == "parallel" else []
    for block in blocks:
        for inner in block:
            check_op(where, inner)
    if name == "agent":
        check_words(f"{where}: options of an agent", op.get("opts", {}), AGENT_FIELDS)
        check_words(f"{where}: limits of an agent", op.get("opts", {}).get("limits", {}), LIMITS)
    if name == "awaitExternal":
        check_words(f"{where}: options of awaitExternal", op.get("opts", {}), {"prompt", "schema"})
    if name == "workflow" and isinstance(op["workflow"], Mapping):
        check_definition(where, op["workflow"])


class ScenarioWorkflow:
    """Interprets one scenario's workflow."""

    def __init__(self, scenario: Mapping[str, Any], tools: Mapping[str, Tool]) -> None:
        self.scenario = scenario
        self.tools = tools

    def build(self, definition: Mapping[str, Any]) -> Workflow[Any]:
        async def body(ctx: Ctx, args: Any) -> Any:
            return await self.block(ctx, definition["body"], {"args": args})

        return define_workflow(
            definition["name"],
            body,
            args=definition.get("args_schema") or (self.scenario.get("args_schema")),
            model=definition.get("model"),
            effort=definition.get("effort"),
            routing=definition.get("routing"),
        )

    async def block(self, ctx: Ctx, body: list[Mapping[str, Any]], env: dict[str, Any]) -> Any:
        try:
            await self.ops(ctx, body, env)
        except _Return as returned:
            return returned.value
        return None

    async def ops(self, ctx: Ctx, body: list[Mapping[str, Any]], env: dict[str, Any]) -> None:
        for op in body:
            value = await self.op(ctx, op, env)
            if "as" in op:
                env[op["as"]] = value

    async def op(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        return await getattr(self, f"op_{op_name(op)}")(ctx, op, env)

    async def op_agent(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        opts = substitute(op.get("opts", {}), env)
        options = agent_options(opts, self.tools)
        result = await ctx.agent(substitute(op["agent"], env), **options)
        if options.get("result") == "full":
            full = {
                "status": result.status,
                "output": result.output,
                "error": None
                if result.error is None
                else {"kind": (result.error.data or {}).get("kind"), "retryable": result.error.retryable},
            }
            return {name: full.get(name) for name in op.get("full_fields", full)}
        return result

    async def op_step(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        async def run() -> Any:
            if "delay_ms" in op:
                await asyncio.sleep(op["delay_ms"] / 1000)
            if "throws" in op:
                raise RuntimeError(substitute(op["throws"], env))
            if op.get("value_nan"):
                return float("nan")
            return substitute(op.get("value"), env)

        return await ctx.step(
            substitute(op["step"], env), run, deps=substitute(op.get("deps", []), env), key=op.get("key")
        )

    async def op_parallel(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        thunks = [
            lambda number=number, body=body: self.block(ctx, body, {**env, "i": number})
            for number, body in enumerate(op["parallel"])
        ]
        settle = op.get("settle", False)
        results = await ctx.parallel(thunks, settle=settle, abort_siblings=op.get("abortSiblings", True))
        return [settled_json(result) for result in results] if settle else results

    async def op_pipeline(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        stages = [
            lambda item, body=body: self.block(ctx, body, {**env, "item": item}) for body in op["stages"]
        ]
        items = substitute(op["pipeline"], env)
        mode = op.get("onItemError", "drop")
        result = await ctx.pipeline(items, *stages, on_item_error=mode)
        if mode == "collect":
            return {"results": result.results, "dropped": [item.to_wire() for item in result.dropped]}
        return result

    async def op_workflow(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        child = op["workflow"]
        target: Any = child if isinstance(child, str) else self.build(child)
        return await ctx.workflow(target, substitute(op.get("args"), env), key=op.get("key"))

    async def op_now(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        return round(ctx.time() * 1000)

    async def op_random(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        return ctx.random(op["random"]) if op["random"] else ctx.random()

    async def op_uuid(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        return ctx.uuid()

    async def op_awaitExternal(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        return await ctx.await_external(substitute(op["awaitExternal"], env), **op.get("opts", {}))

    async def op_phase(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        async with ctx.phase(op["phase"]):
            return await self.ops(ctx, op["body"], env)

    async def op_log(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        ctx.log(op["log"], substitute(op.get("msg", ""), env), substitute(op.get("data"), env))

    async def op_brief(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        return await ctx.brief(**substitute(op["brief"], env))

    async def op_budget(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        return getattr(ctx.budget, op["budget"])().to_wire()

    async def op_try(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        try:
            return await self.ops(ctx, op["try"], env)
        except _Return:
            raise
        except Exception as error:
            env["error"] = error_json(error)
            return await self.ops(ctx, op["catch"], env)

    async def op_if(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        left, right = substitute(op["if"], env)
        return await self.ops(ctx, op["then"] if left == right else op.get("else", []), env)

    async def op_repeat(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        for number in range(op["repeat"]):
            env["i"] = number
            await self.ops(ctx, op["body"], env)

    async def op_sleep(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        await asyncio.sleep(op["sleep"] / 1000)

    async def op_throw(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        raise RuntimeError(substitute(op["throw"], env))

    async def op_return(self, ctx: Ctx, op: Mapping[str, Any], env: dict[str, Any]) -> Any:
        raise _Return(substitute(op["return"], env))


def agent_options(opts: Mapping[str, Any], tools: Mapping[str, Tool]) -> dict[str, Any]:
    """Return the keyword arguments of ``ctx.agent`` that a call's options mean."""
    check_words("options of an agent", opts, AGENT_FIELDS)
    options: dict[str, Any] = {AGENT_OPTIONS[k]: v for k, v in opts.items() if k in AGENT_OPTIONS}
    options.update(shared_options(opts, tools))
    if "model" in opts:
        options["model"] = model_of(opts["model"])
    if "fallback" in opts:
        options["fallback"] = opts["fallback"]
    return options


def shared_options(opts: Mapping[str, Any], tools: Mapping[str, Tool]) -> dict[str, Any]:
    """Return those options, of a call or a profile, whose values have names of their own."""
    options: dict[str, Any] = {}
    if "tools" in opts:
        options["tools"] = [tools[name] for name in opts["tools"]]
    if "limits" in opts:
        check_words("limits of an agent", opts["limits"], LIMITS)
        options["limits"] = {LIMITS[k]: v for k, v in opts["limits"].items()}
    if "retry" in opts:
        check_words("retry of an agent", opts["retry"], ("attempts", "backoff"))
        check_words("backoff of an agent", opts["retry"].get("backoff", {}), BACKOFF)
        backoff = {BACKOFF[k]: v for k, v in opts["retry"].get("backoff", {}).items()}
        options["retry"] = {"attempts": opts["retry"]["attempts"], "backoff": backoff}
    return options


def profiles_of(
    profiles: Mapping[str, Mapping[str, Any]] | None, tools: Mapping[str, Tool]
) -> dict[str, dict[str, Any]]:
    """Return the profiles of an engine that a scenario's profiles mean."""
    made: dict[str, dict[str, Any]] = {}
    for name, facts in (profiles or {}).items():
        check_words(f"profile {name!r}", facts, {*PROFILE_OPTIONS, "tools", "limits", "retry"})
        made[name] = {PROFILE_OPTIONS[k]: v for k, v in facts.items() if k in PROFILE_OPTIONS}
        made[name].update(shared_options(facts, tools))
        if "model" in facts:
            made[name]["model"] = model_of(facts["model"])
    return made


def model_of(model: Any) -> Any:
    if not isinstance(model, Mapping):
        return model
    renamed = {"providerOptions": "provider_options"}
    return {renamed.get(name, name): value for name, value in model.items()}


def error_json(error: Exception) -> dict[str, Any]:
    """What a workflow of the language sees of an exception."""
    name = type(error).__name__
    seen: dict[str, Any] = {"name": NAMES.get(name, name), "message": str(error)}
    if isinstance(error, RulvarError):
        seen["code"] = error.code
    if isinstance(error, AgentCallError):
        seen["kind"] = error.kind
    return seen


def settled_json(settled: Settled) -> dict[str, Any]:
    seen: dict[str, Any] = {"status": settled.status}
    if settled.status == "ok":
        seen["value"] = settled.value
    if settled.error is not None:
        seen["error"] = settled.error.to_wire()
    if settled.result is not None:
        seen["result_status"] = settled.result.status
    return seen


class ScriptedAgents:
    """Replies used in order, per pattern; the position counts across the segments of a scenario."""

    def __init__(self, scenario: Mapping[str, Any], counts: Mapping[str, int] | None = None) -> None:
        self.positions: dict[str, int] = dict(counts or {})
        self.replies = scenario["agents"]

    def responders(self) -> dict[str, Any]:
        return {pattern: self._responder(pattern) for pattern in self.replies}

    def _responder(self, pattern: str) -> Any:
        async def respond(call: Any) -> Any:
            replies = self.replies[pattern]
            position = self.positions.get(pattern, 0)
            self.positions[pattern] = position + 1
            reply = replies[min(position, len(replies) - 1)]
            if "delay_ms" in reply:
                await asyncio.sleep(reply["delay_ms"] / 1000)
            return await self._answer(reply)

        return respond

    @staticmethod
    async def _answer(reply: Mapping[str, Any]) -> Any:
        if reply.get("hang"):
            await asyncio.Event().wait()
        if "throw" in reply:
            raise RuntimeError(reply["throw"])
        if "wire_error" in reply:
            return fake_wire_error(**reply["wire_error"])
        if "tool_calls" in reply:
            return fake_tool_calls(*reply["tool_calls"])
        return reply["text"] if "text" in reply else reply["value"]


def scenario_tools(scenario: Mapping[str, Any]) -> dict[str, Tool]:
    made: dict[str, Tool] = {}
    for name, facts in (scenario.get("tools") or {}).items():
        made[name] = tool(
            _behaving(facts.get("behavior", {})),
            name=name,
            description=facts["description"],
            parameters=facts["parameters"],
            risk=facts.get("risk"),
            needs_approval=facts.get("needsApproval", False),
            version=facts.get("version"),
        )
    return made


def _behaving(behavior: Mapping[str, Any]) -> Any:
    def run(**args: Any) -> Any:
        if "throws" in behavior:
            raise RuntimeError(behavior["throws"])
        return behavior.get("value")

    return run


def budget_defaults(scenario: Mapping[str, Any]) -> dict[str, Any]:
    return {DEFAULTS[name]: value for name, value in (scenario.get("budgetDefaults") or {}).items()}


def scenario_engine(
    scenario: Mapping[str, Any], store: InMemoryStore, agents: ScriptedAgents, routing: Mapping[str, Any]
) -> tuple[Engine, FakeAdapter]:
    caps = {CAPS[name]: value for name, value in (scenario.get("caps") or {}).items()}
    if "pricing" in caps:
        caps["pricing"] = ModelPricing.from_wire(caps["pricing"])
    fake = FakeAdapter(agents=agents.responders(), caps_overrides=caps or None)
    engine = Engine(
        adapters=[fake],
        journal=store,
        routing=routing or fake_routing(),
        profiles=profiles_of(scenario.get("profiles"), scenario_tools(scenario)),
        budget_defaults=budget_defaults(scenario) or None,
    )
    return engine, fake


def run_options(scenario: Mapping[str, Any]) -> dict[str, Any]:
    return {RUN_OPTIONS[name]: value for name, value in scenario.get("run_opts", {}).items()}


def answer_approvals(handle: Any, approvals: list[Any]) -> None:
    """Answer as soon as something waits for approval."""
    answers = iter(approvals)
    tasks: set[Any] = set()

    def answer(event: Any) -> None:
        given = next(answers, None)
        if given is not None:
            task = asyncio.ensure_future(handle.resolve_external(f"approval:{event['entryRef']}", given))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    handle.on("approval:pending", answer)

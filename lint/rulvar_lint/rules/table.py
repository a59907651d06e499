"""The rules in one table: code, name, severity, best fix, and what to do instead."""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """One rule; `advice` ends the message of each finding."""

    code: str
    name: str
    severity: str
    fix: str
    advice: str
    default_on: bool = True


ROWS: Final = (
    Row("RLV001", "syntax-error", "error", "none", "fix the syntax"),
    Row("RLV002", "unused-suppression", "warning", "safe", "remove it"),
    Row("RLV003", "unknown-rule-in-suppression", "warning", "manual", "correct the code"),
    Row("RLV101", "wall-clock", "error", "safe", "use `ctx.now()` or `ctx.time()`, or read it once in a step"),
    Row("RLV102", "randomness", "error", "safe", 'use `ctx.random("key")`, or seed a `random.Random` of your own'),
    Row("RLV103", "random-uuid", "error", "safe", "use `ctx.uuid()`"),
    Row("RLV104", "sleep-in-replay", "error", "manual", "put the wait into a step, or suspend with `ctx.await_external`"),
    Row("RLV105", "external-io", "error", "manual", "put it into `ctx.step(label, fn, deps)` or a tool"),
    Row("RLV106", "inline-model-call", "error", "manual", "use `ctx.agent`, which is journaled and budgeted"),
    Row("RLV107", "file-io", "error", "manual", "put it into `ctx.step`"),
    Row("RLV108", "host-environment", "error", "manual", "pass it in through args, or journal the read with `ctx.step`"),
    Row("RLV109", "process-spawn", "error", "manual", "put it into `ctx.step`"),
    Row("RLV110", "thread-offload", "error", "none", "put the work into `ctx.step`, or fan out with `ctx.parallel`"),
    Row("RLV111", "dynamic-code", "error", "none", "name the code that runs"),
    Row("RLV112", "interactive-input", "error", "manual", "use `ctx.await_external(key)`, which suspends the run"),
    Row("RLV113", "print-or-log", "warning", "unsafe", "use `ctx.log(level, message, data)`"),
    Row("RLV114", "opaque-await", "warning", "manual", "wrap it in `ctx.step`"),
    Row("RLV201", "unordered-iteration", "error", "unsafe", "use `sorted(...)`, or `dict.fromkeys(...)` to remove duplicates"),
    Row("RLV202", "identity-hash", "error", "none", "use `hashlib`, or name the fields that matter"),
    Row("RLV203", "import-time-capture", "error", "none", "pass it in through args, or journal the read"),
    Row("RLV204", "impure-default-factory", "error", "unsafe", "pass the field, with a value from ctx"),
    Row("RLV205", "module-mutable-state", "error", "none", "use args and return values"),
    Row("RLV206", "host-locale-format", "warning", "unsafe", "pass a time zone and a fixed format"),
    Row("RLV207", "unsorted-json-in-identity", "warning", "unsafe", "pass `sort_keys=True`", False),
    Row("RLV208", "traceback-in-identity", "warning", "none", "use the message of the error, which is journaled"),
    Row("RLV301", "missing-await", "error", "safe", "await it"),
    Row("RLV302", "asyncio-over-ctx", "error", "unsafe", "use `ctx.parallel([...])`"),
    Row("RLV303", "timeout-over-ctx", "error", "none", "set a deadline on the run or limits on the call"),
    Row("RLV304", "ctx-escape", "error", "none", "keep ctx in the workflow and pass it as an argument"),
    Row("RLV305", "nested-ctx-in-step", "error", "none", "move it out of the step"),
    Row("RLV306", "step-mutates-outer", "error", "none", "return the value from the step"),
    Row("RLV307", "swallowed-suspension", "error", "safe", "re-raise, or catch `Exception`"),
    Row("RLV308", "retry-wrapper-over-ctx", "warning", "none", "use the `retry` option of the call"),
    Row("RLV309", "late-binding-thunk", "error", "safe", "bind it with a default: `lambda x=x: ...`"),
    Row("RLV310", "eager-step-call", "error", "safe", "pass the function: `lambda: ...`"),
    Row("RLV311", "workflow-signature", "error", "unsafe", "write `async def workflow(ctx, args)`"),
    Row("RLV401", "duplicate-identical-call", "warning", "unsafe", "give each a distinct `key`"),
    Row("RLV402", "constant-identity-in-loop", "warning", "unsafe", "let `key`, label or deps vary with the iteration"),
    Row("RLV403", "incomplete-deps", "warning", "unsafe", "list it in `deps`"),
    Row("RLV404", "step-without-deps", "warning", "unsafe", "list them in `deps`", False),
    Row("RLV405", "non-serializable-result", "error", "none", "return plain JSON data"),
    Row("RLV501", "cassette-secret", "error", "none", "revoke it and record again with redaction"),
    Row("RLV502", "cassette-header", "error", "none", "record the cassette again"),
    Row("RLV503", "cassette-hash-window", "error", "none", "record the cassette again, deliberately"),
    Row("RLV504", "cassette-passthrough", "warning", "unsafe", 'use `on_miss="throw"` in committed tests'),
    Row("RLV505", "cassette-row", "error", "none", "record the cassette again"),
)

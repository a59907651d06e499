"""Minimizes a recorded run: the smallest journal that still comes to the same end, fit to be shown to others.

What a replay does not read is dropped. What looks like a secret is masked in what is left, and calls
whose prompts held it get the keys that they have without it. On request every text is masked that the
course of the run does not depend on. The result is replayed before it is handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.entries import JournalEntry
from rulvar.contracts.jsonable import journal_form
from rulvar.contracts.redaction import Redactor
from rulvar.engine.engine import Engine
from rulvar.engine.workflow import Workflow
from rulvar.errors import ConfigError
from rulvar.kernel.keys import hash_args
from rulvar.runtime.agent import AgentProfile
from rulvar.stores.bundle import KEPT_ARGS, Bundle
from rulvar.testing.journal_replay import replay_engine
from rulvar.testing.minimize.consumption import consumed_operations, entries_read, slim
from rulvar.testing.minimize.masking import MaskedEntry, blanked, has_payload, masked
from rulvar.testing.minimize.rekeying import PlaceMatching, rekeyed
from rulvar.testing.recorded_run import Journal, kept_args, recorded_run
from rulvar.testing.shake.trace import RecordedSegment, Trace, trace_replay

__all__ = ["MinimizedRun", "minimize_run", "minimize_with"]

_META = ("runId", "status", "segments", "workflowName", "workflowHash", "budgetUsd", "execKeyDerivation")


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimizedRun:
    """A minimized run, replayed to the same end.

    Attributes:
        run: as it can be exported; its arguments are kept with it.
        entries_before: how many entries the journal had.
        masked: what was masked because it looks like a secret.
        blanked: seqs of the entries whose texts were masked because nothing depends on them.
        rekeyed: how many calls have another key, since an answer in their prompts was masked.
        status: how the run ends; ``missed`` when it ends at a call that is not in the journal.
        error: message of the error that it ends with.
    """

    run: Bundle
    entries_before: int
    masked: tuple[MaskedEntry, ...]
    blanked: tuple[int, ...]
    rekeyed: int
    status: str
    error: str | None


async def minimize_run(
    wf: Workflow[Any],
    args: Any = None,
    *,
    journal: Journal,
    redact: Callable[[str], str] | None = None,
    blank: bool = False,
    profiles: Mapping[str, AgentProfile | Mapping[str, Any]] | None = None,
    routing: Mapping[str, Any] | None = None,
    adapters: Iterable[Any] | None = None,
    **options: Any,
) -> MinimizedRun:
    """Minimize a recorded run; arguments beside these are those of :func:`replay_run`.

    Args:
        redact: masks what only the project knows; the built-in policy follows it.
        blank: mask every text of answers, results and payloads on which the course of the run does
            not depend.

    Raises:
        ConfigError: an option is wrong, the run cannot be replayed, or a mask would change its course.
        JournalOrderViolation: the journal is damaged.
    """
    run = await recorded_run(journal)
    given = kept_args(run) if args is None else args
    async with replay_engine(profiles=profiles, routing=routing, adapters=adapters, **options) as engine:
        return minimize_with(engine, engine.workflow_of(wf), run, given, redact=redact, blank=blank)


def minimize_with(
    engine: Engine,
    wf: Workflow[Any],
    run: Bundle,
    args: Any = None,
    *,
    redact: Callable[[str], str] | None = None,
    blank: bool = False,
) -> MinimizedRun:
    """Minimize a run with an engine whose profiles and routing are those of the recorded one.

    Raises:
        ConfigError: as for :func:`minimize_run`.
    """
    return _Minimization(engine, wf, run, args, Redactor(redact)).minimize(blank=blank)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A masked journal that takes the recorded course."""

    entries: list[JournalEntry]
    rekeyed: int
    trace: Trace


class _Minimization:
    def __init__(self, engine: Engine, wf: Workflow[Any], run: Bundle, args: Any, redactor: Redactor) -> None:
        self._engine = engine
        self._workflow = wf
        self._run = run
        self._args = None if args is None else decode_json(journal_form(args, "args"))
        self._redactor = redactor
        _check_args(run, self._args)
        self._recorded = self._replay(run.entries, self._args)
        if not self._recorded.finished:
            raise ConfigError(
                f"run {run.run_id!r}: its replay waits for something that is not in the journal",
                data={"runId": run.run_id},
            )

        if self._recorded.error_code == ConfigError.code and self._is_cut_short():
            raise ConfigError(
                f"run {run.run_id!r}: its replay ends before calls that it recorded: {self._recorded.error}; give it "
                "the engine that it ran with (its routing, profiles and adapters)",
                data={"runId": run.run_id},
            )

    def _is_cut_short(self) -> bool:
        """Whether finished calls of the workflow's body stand in the journal that its replay does not reach."""
        claims = self._recorded.claims
        operations = consumed_operations(self._run.entries, claims)
        reached = {o.terminal.seq for o in operations if o is not None and o.terminal is not None}
        return any(
            entry.ref is not None
            and entry.scope == ""
            and entry.kind in ("agent", "step", "child")
            and entry.seq not in reached
            for entry in self._run.entries
        )

    def minimize(self, *, blank: bool) -> MinimizedRun:
        entries = self._smallest()
        args, notes = self._args, list[MaskedEntry]()
        if args is not None:
            redaction = self._redactor.redact(args, "args")
            args = redaction.value
            notes += [MaskedEntry(-1, item.path, item.rule) for item in redaction.masked]
        hidden: list[JournalEntry] = []
        for entry in entries:
            changed, found = masked(entry, self._redactor)
            hidden.append(changed)
            notes += found
        attempt = self._keyed(hidden, args)
        if attempt is None:
            raise ConfigError(self._conflict(notes), data={"runId": self._run.run_id})
        blanks: list[int] = []
        if blank:
            attempt, blanks = self._blank(hidden, args, attempt)
        entries = [_with_output(entry, attempt.trace.output_hash) for entry in attempt.entries]
        return MinimizedRun(
            run=Bundle(self._run.run_id, self._meta(args), entries, _kept(args)),
            entries_before=len(self._run.entries),
            masked=tuple(notes),
            blanked=tuple(blanks),
            rekeyed=attempt.rekeyed,
            status="missed" if attempt.trace.stopped else attempt.trace.status,
            error=attempt.trace.error,
        )

    # -- smaller -------------------------------------------------------------------------

    def _smallest(self) -> list[JournalEntry]:
        """Return the fewest entries with which the replay is the same in every respect."""
        claims = self._recorded.claims
        read = entries_read(self._run.entries, claims, consumed_operations(self._run.entries, claims))
        spent = {entry.seq for entry in read}
        costs = [entry for entry in self._run.entries if entry.seq in spent or b'"usage"' in entry.line]
        for entries in ([slim(entry) for entry in read], [slim(entry) for entry in costs]):
            if _is_same(self._recorded, self._replay(entries, self._args)):
                return entries
        return list(self._run.entries)

    # -- masks ---------------------------------------------------------------------------

    def _keyed(self, entries: Sequence[JournalEntry], args: Any) -> _Attempt | None:
        """Return entries with the keys that their calls have now; None when the run takes another course."""
        claims = self._recorded.claims
        matching = PlaceMatching(claims)
        trace = self._replay(entries, args, matching)
        if not _is_same_course(self._recorded, trace):
            return None
        result = rekeyed(entries, consumed_operations(entries, claims), matching.identities)
        trace = self._replay(result, args)
        if not _is_same_course(self._recorded, trace):
            return None
        return _Attempt(result, len(matching.identities), trace)

    def _blank(self, entries: list[JournalEntry], args: Any, attempt: _Attempt) -> tuple[_Attempt, list[int]]:
        """Blank as many entries as the course of the run bears, by halves."""
        done: set[int] = set()
        todo = [[entry.seq for entry in entries if has_payload(entry)]]
        while todo:
            part = todo.pop(0)
            if not part:
                continue
            chosen = done | set(part)
            candidate = [blanked(entry) if entry.seq in chosen else entry for entry in entries]
            keyed = self._keyed(candidate, args)
            if keyed is not None:
                done, attempt = chosen, keyed
            elif len(part) > 1:
                half = len(part) // 2
                todo += [part[:half], part[half:]]
        return attempt, sorted(done)

    def _conflict(self, notes: Sequence[MaskedEntry]) -> str:
        places = ", ".join(
            f"{'args' if note.seq < 0 else f'entry {note.seq}'} {note.path} ({note.rule})"
            for note in notes[:5]
        )
        return (
            f"run {self._run.run_id!r} takes another course once its secrets are masked: {places or 'none was found'}; "
            "let the workflow not depend on them, or export it without minimizing"
        )

    # -- replays -------------------------------------------------------------------------

    def _replay(
        self, entries: Sequence[JournalEntry], args: Any, matching: PlaceMatching | None = None
    ) -> Trace:
        budget = self._run.meta.get("budgetUsd")
        recorded = RecordedSegment(
            run_id=self._run.run_id,
            workflow=self._workflow.name,
            args=None if args is None else journal_form(args, "args"),
            journal=tuple(entries),
            budget_usd=budget if isinstance(budget, (int, float)) else None,
            trace=Trace(claims=()),
        )
        attach = None if matching is None else matching.attach
        return trace_replay(self._engine, self._workflow, recorded, on_run=attach)

    def _meta(self, args: Any) -> dict[str, Any]:
        known = {name: self._run.meta[name] for name in _META if name in self._run.meta}
        meta = {"runId": self._run.run_id, "workflowName": self._workflow.name, **known}
        meta["argsProvided"] = args is not None
        if args is not None:
            meta["argsHash"] = hash_args(args)
        return meta


def _check_args(run: Bundle, args: Any) -> None:
    """Refuse other arguments than those whose hash is in the meta row."""
    recorded, salt = run.meta.get("argsHash"), run.meta.get("argsSalt")
    if recorded is not None and hash_args(args, salt if isinstance(salt, str) else None) != recorded:
        raise ConfigError(
            f"run {run.run_id!r}: args are not those that the run was started with; pass the same",
            data={"field": "args", "runId": run.run_id},
        )


def _with_output(entry: JournalEntry, output_hash: str | None) -> JournalEntry:
    """Return a settle entry with the hash of the output that there is now, and any other entry as it is."""
    if entry.kind != "decision" or b'"outputHash"' not in entry.line or output_hash is None:
        return entry
    wire = entry.to_wire()
    return JournalEntry.from_wire({**wire, "value": {**wire["value"], "outputHash": output_hash}})


def _kept(args: Any) -> dict[str, bytes]:
    return {} if args is None else {KEPT_ARGS: journal_form(args, "args")}


def _is_same(recorded: Trace, other: Trace) -> bool:
    """Whether two replays are the same in everything that can be seen of them."""
    return replace(recorded, claims=(), children=()) == replace(other, claims=(), children=()) and [
        (claim.scope, claim.key, claim.action) for claim in recorded.claims
    ] == [(claim.scope, claim.key, claim.action) for claim in other.claims]


def _is_same_course(recorded: Trace, other: Trace) -> bool:
    """Whether two replays make the same calls at the same places and end in the same way."""
    return (
        other.finished
        and (recorded.status, recorded.stopped, recorded.error_code)
        == (other.status, other.stopped, other.error_code)
        and _course(recorded) == _course(other)
    )


def _course(trace: Trace) -> list[tuple[Any, ...]]:
    return [(claim.scope, claim.identity["kind"], claim.action, claim.site) for claim in trace.claims]

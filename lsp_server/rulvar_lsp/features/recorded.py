"""Words for what a test run recorded at a call: the short label, the long explanation, the diff.

The label is what stands beside the call (`hit 3f9ac2 #0`, `miss 81b0d4`, `3 hits`); the explanation
is Markdown that also reads well as plain text.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import quote

from rulvar_lsp.features.sites import PlacedSite
from rulvar_lsp.snapshot import RecordedCall, RecordedTest

if TYPE_CHECKING:
    from rulvar_lsp.report import Call, Difference

# worst first: what a reader has to know comes first
SERVED_ORDER = ("miss", "exhausted", "passthrough", "live", "hit", "journal", "fake")
_PLURAL = {"hit": "hits", "miss": "misses"}
_MEANING = {
    "hit": "served from the cassette",
    "miss": "no recorded row has this request",
    "exhausted": "every recorded occurrence of this request was used up",
    "passthrough": "not recorded, sent to the live adapter",
    "live": "answered by the live adapter",
    "fake": "answered by the fake adapter",
    "journal": "served from the journal",
}
_SHOWN_CALLS = 6
_SHOWN_DIFFERENCES = 8


def short_hash(value: str | None) -> str:
    """The first six characters of a hash, without the name of its algorithm."""
    return (value or "").rpartition(":")[2][:6]


def call_label(call: Call) -> str:
    """Label of one call: `hit 3f9ac2 #0`."""
    if call.kind != "agent":
        return "ran" if call.served == "live" else call.served
    parts = [call.served, short_hash(call.request_hash)]
    if call.served == "hit" and call.occurrence is not None:
        parts.append(f"#{call.occurrence}")
    return " ".join(part for part in parts if part)


def site_label(placed: PlacedSite) -> str:
    """Label of a call site over all tests that ran through it."""
    by_served: defaultdict[str, list[Call]] = defaultdict(list)
    for recorded in placed.calls:
        by_served[recorded.call.served].append(recorded.call)
    parts = []
    for served in SERVED_ORDER:
        labels = {call_label(call) for call in by_served[served]}
        if len(labels) == 1:
            times = len(by_served[served])
            parts.append(labels.pop() + (f" ×{times}" if times > 1 else ""))
        elif labels:
            parts.append(f"{len(by_served[served])} {_PLURAL.get(served, served)}")
    label = ", ".join(parts)
    return f"stale: {label}" if placed.stale else label


def miss_sentence(call: Call) -> str:
    """One line on a call that was not served: `miss 81b0d4: nearest is row 3, which differs in model`."""
    if call.served == "exhausted":
        return f"{call_label(call)}: every recorded occurrence of this request was used up"
    if call.nearest is None:
        return f"{call_label(call)}: {call.message or 'no recorded row is like it'}"
    fields = [difference.path for difference in call.nearest.differences]
    more = f" and {len(fields) - 3} more" if len(fields) > 3 else ""
    which = f", which differs in {', '.join(fields[:3])}{more}" if fields else ""
    return f"{call_label(call)}: nearest is row {call.nearest.row}{which}"


def counts(calls: Iterable[Call]) -> str:
    """Counted words: `5 hits, 1 miss`; empty for no calls."""
    number: defaultdict[str, int] = defaultdict(int)
    for call in calls:
        if call.kind == "agent":
            number[call.served] += 1
    return ", ".join(
        f"{n} {_PLURAL.get(served, served) if n > 1 else served}"
        for served in sorted(number, key=lambda s: (s != "hit", SERVED_ORDER.index(s)))
        if (n := number[served])
    )


def site_markdown(placed: PlacedSite) -> str:
    """Everything known about a call site."""
    blocks = []
    if placed.stale:
        blocks.append(
            "**stale**: this call or its cassette has changed since the run below. Run replay-strict again."
        )
    shown = sorted(placed.newest, key=lambda c: SERVED_ORDER.index(c.call.served))
    blocks += [call_markdown(recorded) for recorded in shown[:_SHOWN_CALLS]]
    if len(shown) > _SHOWN_CALLS:
        blocks.append(f"and {len(shown) - _SHOWN_CALLS} more calls")
    return "\n\n---\n\n".join(blocks)


def call_markdown(recorded: RecordedCall) -> str:
    """One call: what served it, from where, for how much; on a miss the nearest row."""
    call = recorded.call
    meaning = _MEANING[call.served] if call.divergence is None else "not in the journal"
    lines = [f"**{call_label(call)}**: {meaning}"]
    if call.nearest is not None:
        lines += ["", *_nearest_lines(recorded), ""]
    elif call.served in ("miss", "exhausted") and call.message:
        lines += ["", call.message, ""]
    if call.divergence is not None and call.divergence.differences:
        lines += [diff_block(call.divergence.differences), ""]
    if call.cassette and call.row:
        row = _row_link(recorded.test, call.cassette, call.row)
        of = f", occurrence {call.occurrence}" if call.occurrence is not None else ""
        of += f" of {call.occurrences}" if of and call.occurrences is not None else ""
        lines.append(f"- {row}{of}")
    model = ":".join(part for part in (call.adapter, call.model) if part)
    facts = {
        "in": recorded.test.name,
        "model": model,
        "agent": call.agent_type,
        "label": call.label,
        "turn": call.turn if (call.turn or 0) > 1 else None,
        "scope": call.scope,
        "request": call.request_hash,
    }
    lines += [f"- {name} {code(str(value))}" for name, value in facts.items() if value]
    if spent := _spent(call):
        lines.append(f"- {spent}")
    lines.append(f"- run {recorded.test.created_at}")
    return "\n".join(lines)


def _nearest_lines(recorded: RecordedCall) -> list[str]:
    nearest = recorded.call.nearest
    assert nearest is not None
    distance = "" if nearest.distance is None else f", distance {nearest.distance:g}"
    where = _row_link(recorded.test, nearest.cassette or recorded.call.cassette, nearest.row)
    return [
        f"nearest is {where} {code(short_hash(nearest.request_hash))}{distance}",
        "",
        diff_block(nearest.differences),
    ]


def diff_block(differences: Sequence[Difference]) -> str:
    """The differing fields as a fenced diff."""
    body = []
    for difference in differences[:_SHOWN_DIFFERENCES]:
        body.append(f"  {difference.path}")
        body.append(f"- {_side(difference.recorded)}")
        body.append(f"+ {_side(difference.actual)}")
    if len(differences) > _SHOWN_DIFFERENCES:
        body.append(f"  and {len(differences) - _SHOWN_DIFFERENCES} more fields")
    text = "\n".join(body)
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}diff\n{text}\n{fence}"


def sides(placed: PlacedSite) -> dict[str, str] | None:
    """Both sides of the newest miss at a site, field by field, for a diff view; None without a miss."""
    recorded = next((c for c in placed.newest if c.call.nearest is not None), None)
    if recorded is None or recorded.call.nearest is None:
        return None
    nearest = recorded.call.nearest
    row = f"row {nearest.row} ({short_hash(nearest.request_hash)})"
    return {
        "title": f"{row} and {call_label(recorded.call)}",
        "recorded": _side_text((d.path, d.recorded) for d in nearest.differences),
        "actual": _side_text((d.path, d.actual) for d in nearest.differences),
    }


def _side_text(fields: Iterable[tuple[str, str | None]]) -> str:
    return "\n".join(f"# {path}\n{'(no such field)' if v is None else v}\n" for path, v in fields)


def difference_line(difference: Difference) -> str:
    """One differing field on one line."""
    return f"{difference.path}: recorded {_side(difference.recorded)}, now {_side(difference.actual)}"


def _side(value: str | None) -> str:
    return "(no such field)" if value is None else json.dumps(value, ensure_ascii=False)


def code(text: str) -> str:
    """Text as Markdown code, whatever it holds."""
    text = " ".join(text.split())
    if not text:
        return ""
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _row_link(test: RecordedTest, cassette: str | None, row: int) -> str:
    if cassette is None:
        return f"row {row}"
    path = test.absolute(cassette)
    return f"[row {row} of {PurePosixPath(path).name}]({file_link(path)}#L{row})"


def file_link(path: str) -> str:
    """A file URI of an absolute POSIX path."""
    return "file://" + quote(path)


def _spent(call: Call) -> str:
    usage = call.usage or {}
    tokens = [
        f"{usage[key]:,} {name}"
        for key, name in (
            ("inputTokens", "in"),
            ("outputTokens", "out"),
            ("cacheReadTokens", "cache read"),
            ("cacheWriteTokens", "cache write"),
        )
        if usage.get(key)
    ]
    parts = [f"tokens: {', '.join(tokens)}"] if tokens else []
    if call.cost_usd:
        parts.append(f"cost ${call.cost_usd:.6f}".rstrip("0").rstrip("."))
    return ", ".join(parts)

"""Structured answers: how a model is asked for JSON, and how its answer is read.

Three tiers: ``native`` (the provider enforces the schema), ``forced-tool`` (the model must call one
tool whose parameters are the schema) and ``prompt`` (the schema is written into the prompt). The
native tier is used for closed schemas only: providers refuse open ones in strict mode.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.jsonable import journal_form
from rulvar.contracts.messages import ToolCallPart, ToolContract
from rulvar.contracts.schema import SchemaContract, SchemaIssue
from rulvar.contracts.strictness import is_strict_compatible
from rulvar.errors import NonSerializableValueError

__all__ = [
    "RESULT_TOOL",
    "WHITE_SPACE",
    "Candidate",
    "Tier",
    "answer_issues",
    "extract_candidate",
    "is_strict_compatible",
    "reprompt_text",
    "result_tool",
    "schema_instruction",
    "select_tier",
]

Tier = Literal["native", "forced-tool", "prompt"]
RESULT_TOOL = "emit_result"
WHITE_SPACE = " \t\n\r\v\f\u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What stands around an answer and is no part of it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A JSON value found in an answer."""

    raw: Any


def select_tier(structured_output: Tier, schema: Any) -> Tier:
    """Return the tier for a model and a canonical schema."""
    if structured_output == "native" and not is_strict_compatible(schema):
        return "forced-tool"
    return structured_output


def result_tool(schema: SchemaContract) -> ToolContract:
    """Return the contract of the tool that a model must call with its answer."""
    parameters = schema.canonical if isinstance(schema.canonical, dict) else {}
    return ToolContract(
        name=RESULT_TOOL, description="Deliver the final answer as arguments.", parameters=parameters
    )


def schema_instruction(schema: SchemaContract) -> str:
    """Return the text that asks for JSON in the prompt tier."""
    text = json.dumps(schema.canonical, ensure_ascii=False, sort_keys=True)
    return f"Answer with one JSON value and nothing else. It must fit this JSON Schema:\n{text}"


def reprompt_text(issues: Iterable[SchemaIssue]) -> str:
    """Return the text that asks for another answer after one that did not fit."""
    lines = [f"- {_where(issue)}: {issue.message}" for issue in issues]
    return "The answer does not fit the required schema:\n" + "\n".join(lines) + "\nAnswer again, in full."


def extract_candidate(text: str, tool_calls: Iterable[ToolCallPart], tier: Tier) -> Candidate | None:
    """Return the JSON value of an answer, or None when there is none.

    In the tier of the forced tool the answer is its arguments, and nothing else; otherwise the whole text
    is read, then the first bracketed value in it.
    """
    if tier == "forced-tool":
        found = (call for call in tool_calls if call.name == RESULT_TOOL)
        return next((Candidate(call.args) for call in found), None)
    stripped = text.strip(WHITE_SPACE)
    if not stripped:
        return None
    whole = _parse(stripped)
    if whole is not None:
        return whole
    bracketed = _first_bracketed(stripped)
    return None if bracketed is None else _parse(bracketed)


def answer_issues(found: Candidate | None, schema: SchemaContract) -> list[SchemaIssue]:
    """Return what is wrong with an answer; nothing when it fits.

    An answer that no journal can hold fits no schema: ``1e400`` is JSON, and no number of any double.
    """
    if found is None:
        return [SchemaIssue("no JSON value in the answer", ())]
    try:
        journal_form(found.raw, "the answer")
    except NonSerializableValueError as refused:
        return [SchemaIssue(refused.message, ())]
    return schema.issues(found.raw)


def _parse(text: str) -> Candidate | None:
    try:
        value = decode_json(text)
    except ValueError:
        return None
    if isinstance(value, float) and value - value != 0:
        value = None  # an overflowing number is no number
    return Candidate(value)


def _first_bracketed(text: str) -> str | None:
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return None
    depth, quoted, escaped = 0, False, False
    for at in range(start, len(text)):
        character = text[at]
        if quoted:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                quoted = False
        elif character == '"':
            quoted = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
            if depth == 0:
                return text[start : at + 1]
    return None


def _where(issue: SchemaIssue) -> str:
    return (
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in issue.path).lstrip(".")
        or "answer"
    )

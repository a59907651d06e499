"""A miss names the recorded row that the request came from, and the first field that was edited."""

import copy
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rulvar.contracts.messages import ChatRequest
from rulvar.contracts.redaction import Redactor
from rulvar.contracts.request_hash import request_hash
from rulvar.testing.cassette import Cassette, parse_cassette
from rulvar.testing.diagnose import MissDiagnosis, diagnose_miss

HEADER = {"v": 1, "kind": "rulvar-vcr", "hashVersion": 2, "recordedAt": "2026-01-02T03:04:05.678Z"}
CAPS = {
    "structuredOutput": "native", "supportsTemperature": True, "supportsParallelTools": True,
    "reasoningEfforts": ["low"], "contextWindow": 1000, "maxOutputTokens": 100,
}  # fmt: skip
EVENTS = [{"type": "error", "error": {"code": "agent", "message": "x", "retryable": False}}]


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def message(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def search(description: str = "Search the archive for passages.") -> dict[str, Any]:
    properties = {
        "query": {"type": "string", "description": "what to look for"},
        "limit": {"type": "integer"},
    }
    parameters = {"type": "object", "properties": properties, "required": ["query"]}
    return {"name": "search", "description": description, "parameters": parameters}


FETCH = {"name": "fetch", "description": "Fetch a page.", "parameters": {"type": "object", "properties": {}}}
VERDICT = {
    "type": "object",
    "properties": {"verdict": {"type": "string"}, "score": {"type": "number"}},
    "required": ["verdict", "score"],
    "additionalProperties": False,
}
SYSTEM = message("system", text("You are a careful reviewer of code. Answer briefly and name the line."))
CALL = {"type": "tool-call", "id": "01A", "name": "search", "args": {"query": "owls", "limit": 3}}
RESULT = {"type": "tool-result", "id": "01A", "name": "search", "result": {"hits": ["barn owl", "snowy owl"]}}

REVIEW = {
    "model": "model-large",
    "messages": [
        SYSTEM,
        message("user", text("Review the diff of café.py carefully and say what is wrong.")),
    ],
    "schema": VERDICT,
    "effort": "low",
    "maxOutputTokens": 512,
    "providerOptions": {"tiny": {"temperature": 0.2, "seed": 7}},
}
RESEARCH = {
    "model": "model-large",
    "messages": [
        SYSTEM,
        message("user", text("Find out which owls live in the far north, and list them.")),
        message("assistant", text("I will search."), CALL),
        message("tool", RESULT),
    ],
    "tools": [search(), FETCH],
    "toolChoice": "auto",
    "stopSequences": ["END", "STOP"],
}
SUMMARY = {
    "model": "model-small",
    "messages": [message("user", text("Summarize the findings in one sentence."))],
}
POEM = {"model": "model-small", "messages": [message("user", text("Write a poem about the sea at night."))]}
RECORDED = {"review": REVIEW, "research": RESEARCH, "summary": SUMMARY, "poem": POEM}
LINES = {name: number for number, name in enumerate(RECORDED, 2)}


def row(request: dict[str, Any], adapter_id: str = "tiny", occurrence: int = 0) -> dict[str, Any]:
    return {
        "adapterId": adapter_id,
        "occurrence": occurrence,
        "requestHash": request_hash(request),
        "request": Redactor().redact(request).value,
        "events": EVENTS,
        "caps": CAPS,
        "model": request["model"],
    }


def tape(*rows: dict[str, Any]) -> Cassette:
    lines = [json.dumps(line) for line in (HEADER, *rows)]
    return parse_cassette("tape.jsonl", ("\n".join(lines) + "\n").encode())


@pytest.fixture(scope="module")
def recorded() -> Cassette:
    return tape(*map(row, RECORDED.values()))


def put(path: str, value: Any) -> Callable[[Any], None]:
    """An edit that sets the field at a path like ``messages.1.parts.0.text``."""

    def edit(request: Any) -> None:
        *owners, last = path.split(".")
        for key in owners:
            request = request[int(key) if isinstance(request, list) else key]
        request[int(last) if isinstance(request, list) else last] = value

    return edit


def drop(path: str) -> Callable[[Any], None]:
    def edit(request: Any) -> None:
        *owners, last = path.split(".")
        for key in owners:
            request = request[int(key) if isinstance(request, list) else key]
        del request[int(last) if isinstance(request, list) else last]

    return edit


def insert(path: str, index: int, value: Any) -> Callable[[Any], None]:
    def edit(request: Any) -> None:
        for key in path.split("."):
            request = request[int(key) if isinstance(request, list) else key]
        request.insert(index, value)

    return edit


def change_text(path: str, change: Callable[[str], str]) -> Callable[[Any], None]:
    def edit(request: Any) -> None:
        owner = request
        for key in path.split("."):
            owner = owner[int(key) if isinstance(owner, list) else key]
        owner["text"] = change(owner["text"])

    return edit


ASK = "messages.1.parts.0"
ASKED = "messages[1].parts[0].text"
EDITS: list[tuple[str, str, Callable[[Any], None], str]] = [
    ("a word of the prompt", "review", change_text(ASK, lambda t: t.replace("carefully", "quickly")), ASKED),
    ("a word more", "review", change_text(ASK, lambda t: "Please: " + t), ASKED),
    ("a sentence at the end", "research", change_text(ASK, lambda t: t + " Cite sources."), ASKED),
    ("a prompt cut short", "review", change_text(ASK, lambda t: t[:20]), ASKED),
    ("upper case", "summary", change_text("messages.0.parts.0", str.upper), "messages[0].parts[0].text"),
    ("a trailing space", "review", change_text(ASK, lambda t: t + " "), ASKED),
    ("two spaces", "review", change_text(ASK, lambda t: t.replace(" ", "  ", 1)), ASKED),
    ("a line break", "review", change_text(ASK, lambda t: t.replace(" ", "\n", 1)), ASKED),
    ("a tab", "poem", change_text("messages.0.parts.0", lambda t: t.replace(" ", "\t", 1)), "messages[0].parts[0].text"),
    ("another Unicode form", "review", change_text(ASK, lambda t: unicodedata.normalize("NFD", t)), ASKED),
    ("a no-break space", "review", change_text(ASK, lambda t: t.replace(" ", "\xa0", 1)), ASKED),
    ("an invisible character", "review", change_text(ASK, lambda t: t + "\u200b"), ASKED),
    ("curly quotes", "poem", change_text("messages.0.parts.0", lambda t: t + "\u201d"), "messages[0].parts[0].text"),
    ("the system prompt", "review", change_text("messages.0.parts.0", lambda t: t.replace("briefly", "at length")),
     "messages[0].parts[0].text"),
    ("a message more at the end", "review", insert("messages", 2, message("user", text("And now?"))), "messages[2]"),
    ("a message more in the middle", "research", insert("messages", 2, message("user", text("Hurry."))), "messages[2]"),
    ("a message less", "research", drop("messages.3"), "messages[3]"),
    ("no system prompt", "review", drop("messages.0"), "messages[0]"),
    ("a system prompt more", "summary", insert("messages", 0, SYSTEM), "messages[0]"),
    ("another role", "review", put("messages.1.role", "assistant"), "messages[1].role"),
    ("a part more", "research", insert("messages.2.parts", 2, text("Go.")), "messages[2].parts[2]"),
    ("a part less", "research", drop("messages.2.parts.0"), "messages[2].parts[0]"),
    ("another kind of part", "research", put("messages.3.parts.0", text("hits")), "messages[3].parts[0].type"),
    ("the arguments of a tool call", "research", put("messages.2.parts.1.args.limit", 5), "messages[2].parts[1].args.limit"),
    ("the result of a tool", "research", put("messages.3.parts.0.result.hits.1", "eagle owl"),
     "messages[3].parts[0].result.hits[1]"),
    ("an error of a tool", "research", put("messages.3.parts.0.isError", True), "messages[3].parts[0].isError"),
    ("a tool's description", "research", put("tools.0.description", "Search the web."), "tools[0].description"),
    ("a tool's parameter", "research", put("tools.0.parameters.properties.limit.type", "number"),
     "tools[0].parameters.properties.limit.type"),
    ("a parameter more", "research", put("tools.0.parameters.properties.page", {"type": "integer"}),
     "tools[0].parameters.properties.page"),
    ("a required parameter", "research", put("tools.0.parameters.required", ["query", "limit"]),
     "tools[0].parameters.required[1]"),
    ("a tool more", "research", insert("tools", 2, {**FETCH, "name": "post"}), "tools[2]"),
    ("a tool less", "research", drop("tools.1"), "tools[1]"),
    ("tools in another order", "research", put("tools", [FETCH, search()]), "tools[0].name"),
    ("no tools", "research", drop("tools"), "tools"),
    ("the tool choice", "research", put("toolChoice", {"name": "search"}), "toolChoice"),
    ("a field of the schema", "review", put("schema.properties.score.type", "integer"), "schema.properties.score.type"),
    ("a schema field more", "review", put("schema.properties.reason", {"type": "string"}), "schema.properties.reason"),
    ("no schema", "review", drop("schema"), "schema"),
    ("a schema more", "summary", put("schema", VERDICT), "schema"),
    ("another model", "poem", put("model", "model-large"), "model"),
    ("another effort", "review", put("effort", "high"), "effort"),
    ("no effort", "review", drop("effort"), "effort"),
    ("another limit", "review", put("maxOutputTokens", 1024), "maxOutputTokens"),
    ("another temperature", "review", put("providerOptions.tiny.temperature", 0.7), "providerOptions.tiny.temperature"),
    ("options of another provider", "poem", put("providerOptions", {"openai": {"user": "u"}}), "providerOptions"),
    ("another stop sequence", "research", put("stopSequences.1", "HALT"), "stopSequences[1]"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "origin", "edit", "path"), EDITS, ids=[edit[0] for edit in EDITS])
def test_an_edit_is_traced_to_its_row_and_field(
    recorded: Cassette, what: str, origin: str, edit: Callable[[Any], None], path: str
) -> None:
    request = copy.deepcopy(RECORDED[origin])
    edit(request)
    diagnosis = diagnose_miss(recorded, request, "tiny")
    assert diagnosis.nearest is not None
    assert (diagnosis.row, diagnosis.differences[0].path) == (LINES[origin], path)
    check_texts(diagnosis)


def check_texts(diagnosis: MissDiagnosis) -> None:
    assert (diagnosis.distance or 0) > 0
    assert "\n" not in diagnosis.message
    assert len(diagnosis.explanation.splitlines()) == 3
    assert diagnosis.request_hash in diagnosis.explanation
    for difference in diagnosis.differences:
        assert difference.recorded != difference.actual
        for shown in (difference.recorded, difference.actual):
            assert shown is None or (len(shown) <= 80 and "\n" not in shown)


def test_every_edit_keeps_its_row_among_thousands() -> None:
    words = ["owl", "sea", "night", "diff", "north", "line", "poem", "archive", "review", "list"]

    def filler(number: int) -> dict[str, Any]:
        picked = " ".join(words[(number // 10**k) % 10] for k in range(4))
        prompt = f"Task {number}: write about {picked}, briefly. {picked[::-1]}"
        return {"model": "model-large", "messages": [SYSTEM, message("user", text(prompt))]}

    crowd = tape(*map(row, RECORDED.values()), *(row(filler(number)) for number in range(2000)))
    for what, origin, edit, path in EDITS:
        request = copy.deepcopy(RECORDED[origin])
        edit(request)
        diagnosis = diagnose_miss(crowd, request, "tiny")
        assert diagnosis.row == LINES[origin], what
        assert diagnosis.differences[0].path == path, what


def test_differences_are_shown_around_the_first_one(recorded: Cassette) -> None:
    request = copy.deepcopy(REVIEW)
    request["messages"][1]["parts"][0]["text"] = "Review the diff of café.py quickly and say what is wrong."
    [difference] = diagnose_miss(recorded, request, "tiny").differences
    assert difference.recorded is not None
    assert "carefully" in difference.recorded
    assert difference.actual is not None
    assert "quickly" in difference.actual


def test_invisible_differences_are_shown_as_escapes(recorded: Cassette) -> None:
    request = copy.deepcopy(REVIEW)
    request["messages"][1]["parts"][0]["text"] = unicodedata.normalize(
        "NFD", REVIEW["messages"][1]["parts"][0]["text"]
    )  # type: ignore[index]
    [difference] = diagnose_miss(recorded, request, "tiny").differences
    assert "\\u00e9" in (difference.recorded or "")
    assert "\\u0301" in (difference.actual or "")


def test_an_absent_side_is_none(recorded: Cassette) -> None:
    request = {**SUMMARY, "effort": "high"}
    [difference] = diagnose_miss(recorded, request, "tiny").differences
    assert (difference.path, difference.recorded, difference.actual) == ("effort", None, "high")


def test_secrets_in_the_request_are_not_shown(recorded: Cassette) -> None:
    request = copy.deepcopy(SUMMARY)
    request["messages"][0]["parts"][0]["text"] = "Summarize sk-FAKEFAKEFAKE in one sentence."  # type: ignore[index]
    diagnosis = diagnose_miss(recorded, request, "tiny")
    assert "FAKE" not in repr(diagnosis)


def test_a_request_that_differs_only_in_its_secret_is_said_to() -> None:
    secret = {"model": "m", "messages": [message("user", text("use sk-FAKEFAKEFAKE1 here"))]}
    other = {"model": "m", "messages": [message("user", text("use sk-FAKEFAKEFAKE2 here"))]}
    diagnosis = diagnose_miss(tape(row(secret)), other, "tiny")
    assert (diagnosis.reason, diagnosis.distance, diagnosis.differences) == ("redacted", 0, ())
    assert "redacted" in diagnosis.message


def test_a_used_up_request_is_said_to_be_exhausted() -> None:
    diagnosis = diagnose_miss(tape(row(POEM), row(POEM, occurrence=1)), ChatRequest.from_wire(POEM), "tiny")
    assert (diagnosis.reason, diagnosis.recorded_occurrences, diagnosis.distance) == ("exhausted", 2, 0)
    assert "recorded 2 times (lines 2, 3)" in diagnosis.message


def test_telemetry_and_cache_hints_are_never_the_difference(recorded: Cassette) -> None:
    request = {**POEM, "cacheHint": {"breakpoints": []}, "providerOptions": {"rulvar": {"label": "x"}}}
    assert diagnose_miss(recorded, request, "tiny").reason == "exhausted"


def test_another_adapter_is_named(recorded: Cassette) -> None:
    diagnosis = diagnose_miss(recorded, POEM, "other")
    assert (diagnosis.reason, diagnosis.nearest) == ("unknown-adapter", None)
    assert 'recorded for adapter "tiny"' in diagnosis.message
    assert '"tiny"' in diagnose_miss(recorded, {**POEM, "model": "x"}, "other").message


def test_another_model_is_named(recorded: Cassette) -> None:
    diagnosis = diagnose_miss(recorded, {**POEM, "model": "model-large"}, "tiny")
    assert diagnosis.reason == "model"
    assert "recorded for another model: model-small, not model-large" in diagnosis.message


def test_the_tool_whose_contract_drifted_is_named(recorded: Cassette) -> None:
    request = copy.deepcopy(RESEARCH)
    request["tools"][0]["description"] = "Search the web."  # type: ignore[index]
    diagnosis = diagnose_miss(recorded, request, "tiny")
    assert diagnosis.reason == "tools"
    assert 'tool "search"' in diagnosis.message


def test_an_empty_cassette_has_no_nearest_row() -> None:
    diagnosis = diagnose_miss(tape(), POEM, "tiny")
    assert diagnosis.nearest is None
    assert diagnosis.to_wire()["nearest"] is None


def test_a_cassette_may_be_given_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in (HEADER, row(POEM))), "utf-8")
    diagnosis = diagnose_miss(path, {**POEM, "effort": "low"}, "tiny")
    assert diagnosis.nearest is not None
    assert diagnosis.nearest.cassette == str(path)
    assert diagnosis.to_wire()["nearest"]["differences"] == [
        {"path": "effort", "recorded": None, "actual": "low"}
    ]

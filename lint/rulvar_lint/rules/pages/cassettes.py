"""Committed cassettes: the rules as people read them."""

from __future__ import annotations

from typing import Final

from rulvar_lint.core.rule import RuleInfo

TITLE: Final = "Committed cassettes"
INTRO: Final = """\
Cassettes are fixtures that other people's builds depend on. These rules read
`**/cassettes/**/*.jsonl` and `**/*.cassette.jsonl` (see `cassettes` in the configuration), and
the tests that replay them."""

RULES: Final = (
    RuleInfo(
        code="RLV501",
        name="cassette-secret",
        severity="error",
        fix="none",
        family="cassettes",
        summary="A cassette holds something that looks like a secret.",
        advice="revoke it and record again with redaction",
        why=(
            "Everybody who can read the repository can use it. Key shapes of the common "
            "providers, bearer tokens, authorization values, JSON web tokens and private "
            "keys are recognised; `[REDACTED]`, digests and placeholders are not reported."
        ),
        bad=(
            '{"v":1,"kind":"rulvar-vcr","hashVersion":2,"recordedAt":"2026-05-04T10:00:00.000Z"}\n'
            '{"adapterId":"anthropic","requestHash":"aaaa","occurrence":0,"model":"m",'
            '"request":{"messages":[{"role":"user","parts":[{"type":"text",'
            '"text":"Use sk-ant-api03-Zx9Zx9Zx9Zx9Zx9Zx9Zx9Zx9 to call"}]}]},"caps":{},'
            '"events":[{"type":"text-delta","text":"ok"},{"type":"finish"}]}\n'
        ),
        good=(
            '{"v":1,"kind":"rulvar-vcr","hashVersion":2,"recordedAt":"2026-05-04T10:00:00.000Z"}\n'
            '{"adapterId":"anthropic","requestHash":"aaaa","occurrence":0,"model":"m",'
            '"request":{"messages":[{"role":"user","parts":[{"type":"text",'
            '"text":"Use [REDACTED] to call"}]}]},"caps":{},"events":[{"type":"text-delta",'
            '"text":"ok"},{"type":"finish"}]}\n'
        ),
        suppress="When the text is an invented example; prefer one that nobody can mistake.",
        language="jsonl",
    ),
    RuleInfo(
        code="RLV502",
        name="cassette-header",
        severity="error",
        fix="none",
        family="cassettes",
        summary="The first line of a cassette is not its header.",
        advice="record the cassette again",
        why="A cassette without kind, version, hash version and time cannot be replayed.",
        bad=(
            '{"kind":"rulvar-vcr","hashVersion":2}\n'
            '{"adapterId":"anthropic","requestHash":"aaaa","occurrence":0,"model":"m",'
            '"request":{"messages":[{"role":"user","parts":[{"type":"text","text":"x"}]}]},'
            '"caps":{},"events":[{"type":"text-delta","text":"ok"},{"type":"finish"}]}\n'
        ),
        good=(
            '{"v":1,"kind":"rulvar-vcr","hashVersion":2,"recordedAt":"2026-05-04T10:00:00.000Z"}\n'
            '{"adapterId":"anthropic","requestHash":"aaaa","occurrence":0,"model":"m",'
            '"request":{"messages":[{"role":"user","parts":[{"type":"text","text":"x"}]}]},'
            '"caps":{},"events":[{"type":"text-delta","text":"ok"},{"type":"finish"}]}\n'
        ),
        suppress="Never.",
        language="jsonl",
    ),
    RuleInfo(
        code="RLV503",
        name="cassette-hash-window",
        severity="error",
        fix="none",
        family="cassettes",
        summary="A cassette was recorded with an unsupported hash version.",
        advice="record the cassette again, deliberately",
        why="Request hashes of that version are not computed any more: nothing would match.",
        bad=(
            '{"v":1,"kind":"rulvar-vcr","hashVersion":99,"recordedAt":"2026-05-04T10:00:00.000Z"}\n'
            '{"adapterId":"anthropic","requestHash":"aaaa","occurrence":0,"model":"m",'
            '"request":{"messages":[{"role":"user","parts":[{"type":"text","text":"x"}]}]},'
            '"caps":{},"events":[{"type":"text-delta","text":"ok"},{"type":"finish"}]}\n'
        ),
        good=(
            '{"v":1,"kind":"rulvar-vcr","hashVersion":2,"recordedAt":"2026-05-04T10:00:00.000Z"}\n'
            '{"adapterId":"anthropic","requestHash":"aaaa","occurrence":0,"model":"m",'
            '"request":{"messages":[{"role":"user","parts":[{"type":"text","text":"x"}]}]},'
            '"caps":{},"events":[{"type":"text-delta","text":"ok"},{"type":"finish"}]}\n'
        ),
        suppress="Never.",
        language="jsonl",
    ),
    RuleInfo(
        code="RLV504",
        name="cassette-passthrough",
        severity="warning",
        fix="unsafe",
        family="cassettes",
        summary="A committed test lets a miss go live.",
        advice='use `on_miss="throw"` in committed tests',
        why=(
            "A changed prompt then calls the provider in CI: the test needs credentials, "
            "costs money and is no longer repeatable."
        ),
        bad="""\
from rulvar.testing import replay


def adapters():
    return replay(cassette="tests/cassettes/a.jsonl", on_miss="passthrough")  # RLV504
""",
        good="""\
from rulvar.testing import replay


def adapters():
    return replay(cassette="tests/cassettes/a.jsonl", on_miss="throw")
""",
        suppress="In a test that is meant to go live and is not part of CI.",
        language="python-test",
    ),
    RuleInfo(
        code="RLV505",
        name="cassette-row",
        severity="error",
        fix="none",
        family="cassettes",
        summary="A row of a cassette cannot be replayed.",
        advice="record the cassette again",
        why=(
            "Each row is one completed exchange: exactly one terminal event, as the last "
            "one, and one row per occurrence of a request."
        ),
        bad=(
            '{"v":1,"kind":"rulvar-vcr","hashVersion":2,"recordedAt":"2026-05-04T10:00:00.000Z"}\n'
            '{"adapterId":"anthropic","requestHash":"aaaa","occurrence":0,"model":"m",'
            '"request":{"messages":[{"role":"user","parts":[{"type":"text","text":"a"}]}]},'
            '"caps":{},"events":[{"type":"text-delta","text":"cut"}]}\n'
        ),
        good=(
            '{"v":1,"kind":"rulvar-vcr","hashVersion":2,"recordedAt":"2026-05-04T10:00:00.000Z"}\n'
            '{"adapterId":"anthropic","requestHash":"aaaa","occurrence":0,"model":"m",'
            '"request":{"messages":[{"role":"user","parts":[{"type":"text","text":"a"}]}]},'
            '"caps":{},"events":[{"type":"text-delta","text":"ok"},{"type":"finish"}]}\n'
        ),
        suppress="Never.",
        language="jsonl",
    ),
)

"""Record the session that the tests replay: `python record_cassette.py`.

The model here is scripted, so that recording needs no key. A real provider's adapter is wrapped in
the same way.
"""

import asyncio
from pathlib import Path

from rulvar import Engine
from rulvar.testing import FakeAdapter, fake_tool_calls, record
from test_triage import PROFILES, REPORT
from triage import triage

CASSETTE = Path(__file__).parent / "cassettes" / "triage.jsonl"


def librarian(call):
    if any(message.role == "tool" for message in call.req.messages):
        return "Yes: this is #101, an empty header crashes the parser."
    return fake_tool_calls(name="search_issues", args={"words": "header empty"})


async def main() -> None:
    CASSETTE.unlink(missing_ok=True)
    model = FakeAdapter(
        agents={
            "classifier": {"severity": "high", "component": "parser"},
            "summary": "The parser crashes on an empty header.",
            "librarian": librarian,
            "reply": "Thank you for the report. It is known as #101 and in ana's hands; we will write when it is fixed.",
            "reviewer": {"approved": True, "note": "Friendly, and it names the issue."},
        },
    )
    engine = Engine(
        adapters=record(adapters=[model], cassette=CASSETTE),
        routing={"loop": "fake:small"},
        profiles=PROFILES,
    )
    async with engine:
        outcome = await engine.run(triage, REPORT).result()
    print(outcome.status, outcome.value)


if __name__ == "__main__":
    asyncio.run(main())

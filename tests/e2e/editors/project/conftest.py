from pathlib import Path

import pytest

from rulvar import Engine
from rulvar.testing import replay

CASSETTE = Path(__file__).parent / "cassettes" / "triage.jsonl"


@pytest.fixture
def replayed():
    async def run(workflow):
        engine = Engine(adapters=replay(cassette=CASSETTE, on_miss="throw"), routing={"loop": "fake:small"})
        async with engine:
            return await engine.run(workflow, {"text": "It crashes."}).result()

    return run

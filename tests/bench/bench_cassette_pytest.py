"""What a recorded pytest suite costs: `python tests/bench/bench_cassette_pytest.py [TESTS]`.

Three calls per test, one cassette per test. The same suite runs on a scripted model without
cassettes, on cassettes, and with the replay report: once through the engine, as tests of workflows
do, and once at the adapters alone, where there is nothing else to pay for. An empty suite runs with
and without the plugin. CPU time of the whole process, best of five, interleaved.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 5
PLUGINS = ("-p", "pytest_asyncio.plugin")
RULVAR = ("-p", "rulvar.testing.pytest_plugin")

EMPTY = "def test_{n}(): ...\n"
HEAD = """
from rulvar import ChatRequest, Engine, InMemoryStore, Msg, workflow
from rulvar.testing import FakeAdapter

WORDS = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore " * 6


def request(number):
    return ChatRequest(model="large", messages=(Msg.text("user", f"ticket {number}: " + WORDS),))


async def serve(adapter, number):
    for turn in range(3):
        events = [event async for event in adapter.stream(request(number * 3 + turn))]
        assert events[-1].finish.reason == "stop"


@workflow(name="three")
async def three(ctx, number):
    return [await ctx.agent(f"ticket {number * 3 + turn}: " + WORDS) for turn in range(3)]


async def run(adapter, number):
    async with Engine(adapters=[adapter], journal=InMemoryStore(), routing={"loop": "model:large"}) as engine:
        outcome = await engine.run(three, number).result()
    assert outcome.value == ["answer " + WORDS] * 3, outcome

"""
SCRIPTED = (
    "async def test_{n}():\n    await {how}(FakeAdapter({{'*': 'answer ' + WORDS}}, id='model'), {n})\n"
)
RECORDED = (
    "async def test_{n}(cassette):\n"
    "    [adapter] = cassette.adapters(lambda: FakeAdapter({{'*': 'answer ' + WORDS}}, id='model'))\n"
    "    await {how}(adapter, {n})\n"
)
LEVELS = {"engine": "run", "adapters": "serve"}


def write(folder: Path, name: str, head: str, body: str, count: int, how: str = "") -> None:
    """Write one suite."""
    suite = folder / name
    suite.mkdir()
    (suite / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", "utf-8")
    (suite / "test_suite.py").write_text(
        head + "".join(body.format(n=n, how=how) for n in range(count)), "utf-8"
    )


def run(suite: Path, *args: str) -> float:
    """Run a suite and return its CPU seconds."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # bytecode is there, as after an installation
    environment["PYTHONPYCACHEPREFIX"] = str(suite.parent / "bytecode")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PLUGINS, *args]
    before = os.times()
    done = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True, check=False)
    after = os.times()
    if done.returncode:
        raise RuntimeError(done.stdout[-2000:])
    return after.children_user - before.children_user + after.children_system - before.children_system


def main(count: int) -> None:
    """Build the suites, run them in turn, print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, "empty", "", EMPTY, count)
        variants: dict[str, tuple[str, tuple[str, ...]]] = {
            "empty, no plugin": ("empty", ()),
            "empty, plugin": ("empty", RULVAR),
            "empty, plugin, report": ("empty", (*RULVAR, "--rulvar-report=report.json")),
        }
        strict = ("--rulvar-replay=strict", "--rulvar-report=report.json")
        for level, how in LEVELS.items():
            write(folder, f"scripted-{level}", HEAD, SCRIPTED, count, how)
            write(folder, f"recorded-{level}", HEAD, RECORDED, count, how)
            run(folder / f"recorded-{level}", *RULVAR, "--rulvar-record=all")
            variants |= {
                f"{level}: no cassettes": (f"scripted-{level}", RULVAR),
                f"{level}: recorded": (f"recorded-{level}", (*RULVAR, "--rulvar-record=none")),
                f"{level}: recorded, strict, report": (f"recorded-{level}", (*RULVAR, *strict)),
            }
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            for label, (suite, args) in variants.items():
                seconds = run(folder / suite, *args)
                best[label] = min(seconds, best.get(label, seconds))
    plain = best["empty, no plugin"]
    print(f"{count} tests of 3 calls")
    for label, seconds in best.items():
        extra = (seconds - plain) / count * 1e3
        level, _, rest = label.partition(": ")
        ratio = ""
        if rest.startswith("recorded"):
            ratio = f"  {seconds / best[f'{level}: no cassettes']:.2f}x the suite without cassettes"
        print(f"  {label:<36} {seconds:6.2f} s  {extra:6.2f} ms per test over empty{ratio}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)

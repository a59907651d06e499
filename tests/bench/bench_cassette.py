"""What cassettes cost beside the floor and beside peers: `python tests/bench/bench_cassette.py [ROWS ...]`.

Exchanges of about 2 KB. Every contender runs in its own process: it opens a recording, then serves
the same requests at the first, middle and last positions. CPU time, median of three processes.
The floor reads JSONL with orjson into a dictionary and checks nothing. Peers run when they are
installed, here or in the interpreter that RULVAR_BENCH_PEERS names.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

URL = "http://127.0.0.1:9/v1/chat/completions"
WORDS = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore "
WINDOW = 100
ROUNDS = 3
CAPS = {
    "structuredOutput": "native", "supportsTemperature": True, "supportsParallelTools": True,
    "reasoningEfforts": ["low", "high"], "contextWindow": 200_000, "maxOutputTokens": 8192,
}  # fmt: skip
USAGE = {"inputTokens": 300, "outputTokens": 150, "cacheReadTokens": 0, "cacheWriteTokens": 0}


def request(number: int) -> dict[str, Any]:
    """A request of about 1.2 KB, with the temperature that everybody sets."""
    texts = ("system", "You are a careful assistant. " * 14), ("user", f"ticket {number}: " + WORDS * 6)
    return {
        "model": "model-1",
        "messages": [{"role": role, "parts": [{"type": "text", "text": text}]} for role, text in texts],
        "tools": [
            {
                "name": "search",
                "description": "Search.",
                "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
            }
        ],
        "maxOutputTokens": 512,
        "providerOptions": {"tiny": {"temperature": 0.0}},
    }


def answer(number: int) -> dict[str, Any]:
    """An answer of about 0.8 KB."""
    return {"id": f"a-{number}", "text": f"answer {number}: " + WORDS * 6}


def cpu() -> float:
    return time.process_time()


def resident() -> int:
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Floor:
    """JSONL, orjson, a dictionary; the hash is not exact."""

    def build(self, path: Path, count: int) -> None:
        import orjson

        with path.open("wb") as file:
            for number in range(count):
                asked = request(number)
                row = {"key": self.key(asked), "request": asked, "events": [answer(number)], "caps": CAPS}
                file.write(orjson.dumps(row) + b"\n")

    def open(self, path: Path) -> Callable[[dict[str, Any]], Any]:
        import orjson

        index = {}
        with path.open("rb") as file:
            for line in file:
                row = orjson.loads(line)
                index[row["key"]] = row["events"]
        return lambda asked: index[self.key(asked)]

    def key(self, asked: dict[str, Any]) -> str:
        import orjson

        return sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Rulvar:
    """Opened with full validation; served through the adapter, exact hash included."""

    def build(self, path: Path, count: int) -> None:
        import orjson

        from rulvar.contracts.request_hash import request_hash

        header = {"v": 1, "kind": "rulvar-vcr", "hashVersion": 2, "recordedAt": "2026-11-30T10:00:00.000Z"}
        with path.open("wb") as file:
            file.write(orjson.dumps(header) + b"\n")
            for number in range(count):
                asked, text = request(number), answer(number)["text"]
                events = [
                    {"type": "text-delta", "text": text[:300]},
                    {"type": "text-delta", "text": text[300:]},
                    {"type": "finish", "finish": {"reason": "stop"}, "usage": USAGE},
                ]
                row = {
                    "adapterId": "tiny", "occurrence": 0, "requestHash": request_hash(asked), "request": asked,
                    "events": events, "caps": CAPS, "model": "model-1",
                }  # fmt: skip
                file.write(orjson.dumps(row) + b"\n")

    def open(self, path: Path) -> Callable[[dict[str, Any]], Any]:
        from rulvar.contracts.messages import ChatRequest
        from rulvar.testing.replayer import replay

        [adapter] = replay(cassette=path)
        self.prepare = ChatRequest.from_wire

        async def serve(asked: Any) -> Any:
            return [event async for event in adapter.stream(asked)]

        def call(asked: Any) -> Any:
            serving = serve(asked)
            try:
                serving.send(None)
            except StopIteration as stopped:
                return stopped.value
            raise AssertionError("replaying never waits")

        return call


class Vcrpy:
    """vcrpy with its JSON serializer and default matching, behind httpx."""

    def build(self, path: Path, count: int) -> None:
        from vcr.cassette import Cassette
        from vcr.request import Request
        from vcr.serializers import jsonserializer

        tape = Cassette(str(path), serializer=jsonserializer, record_mode="all")
        headers = {"content-type": ["application/json"]}
        for number in range(count):
            response = {"status": {"code": 200, "message": "OK"}, "headers": headers}
            body = {"string": json.dumps(answer(number)).encode()}
            sent = Request("POST", URL, json.dumps(request(number)).encode(), {})
            tape.append(sent, {**response, "body": body})
        tape._save(force=True)

    def open(self, path: Path) -> Callable[[dict[str, Any]], Any]:
        import httpx
        import vcr

        player = vcr.VCR(serializer="json", record_mode="none", match_on=["method", "uri"])
        self.context = player.use_cassette(str(path))
        self.tape = self.context.__enter__()
        client = httpx.Client()
        return lambda asked: client.post(URL, json=asked).json()

    def skip_to(self, position: int) -> None:
        """It plays in recorded order: mark what comes before as played."""
        for number in range(position):
            self.tape.play_counts[number] = 1


class Cassetter:
    """cassetter (Rust) with TOML files and JSON body matching, behind httpx."""

    def build(self, path: Path, count: int) -> None:
        import httpx
        from cassetter import use_cassette

        current: dict[str, bytes] = {}

        def handler(sent: Any) -> Any:
            return httpx.Response(200, headers={"content-type": "application/json"}, content=current["body"])

        with use_cassette(str(path), record_mode="all", intercept=["httpx"], ignore_localhost=False):
            client = httpx.Client(transport=httpx.MockTransport(handler))
            for number in range(count):
                current["body"] = json.dumps(answer(number)).encode()
                client.post(URL, json=request(number))

    def open(self, path: Path) -> Callable[[dict[str, Any]], Any]:
        import httpx
        from cassetter import use_cassette

        match = ["method", "uri", "json_body"]
        self.context = use_cassette(
            str(path), record_mode="none", match_on=match, intercept=["httpx"], ignore_localhost=False
        )
        self.context.__enter__()
        client = httpx.Client()
        return lambda asked: client.post(URL, json=asked).json()


class LlmCassette:
    """llm-cassette: JSONL, at function level, in strict order only."""

    ordered = True

    def build(self, path: Path, count: int) -> None:
        from llm_cassette import cassette

        with cassette(str(path), mode="once") as tape:
            for number in range(count):
                asked = {"provider": "tiny", "request": request(number)}
                tape.record_or_replay("llm_call", asked, lambda n=number: answer(n))

    def open(self, path: Path) -> Callable[[dict[str, Any]], Any]:
        from llm_cassette import cassette

        tape = cassette(str(path), mode="replay").__enter__()
        return lambda asked: tape.record_or_replay(
            "llm_call", {"provider": "tiny", "request": asked}, lambda: None
        )


# name: class, suffix of its files, modules that are imported before the clock starts
CONTENDERS: dict[str, tuple[type[Any], str, tuple[str, ...]]] = {
    "floor": (Floor, "jsonl", ("orjson",)),
    "rulvar": (Rulvar, "jsonl", ("rulvar.testing.replayer",)),
    "vcrpy": (Vcrpy, "json", ("vcr", "httpx")),
    "cassetter": (Cassetter, "toml", ("cassetter", "httpx")),
    "llm-cassette": (LlmCassette, "jsonl", ("llm_cassette",)),
}


def worker(name: str, path: Path, count: int) -> dict[str, Any]:
    """Open and serve in this process."""
    contender = CONTENDERS[name][0]()
    for module in CONTENDERS[name][2]:
        importlib.import_module(module)
    before, start = resident(), cpu()
    call = contender.open(path)
    opened = cpu() - start
    grown = resident() - before
    prepare = getattr(contender, "prepare", lambda asked: asked)
    window = min(WINDOW, count // 3)
    places = [0] if getattr(contender, "ordered", False) else [0, count // 2, count - window]
    figures = []
    for place in places:
        if hasattr(contender, "skip_to"):
            contender.skip_to(place)
        asked = [prepare(request(number)) for number in range(place, place + window)]
        times = []
        for item in asked:
            start = time.thread_time()
            call(item)
            times.append(time.thread_time() - start)
        figures.append(statistics.median(times) * 1e6)
    return {"open_ms": opened * 1e3, "us": figures, "memory": grown / path.stat().st_size}


def interpreter(module: str) -> str | None:
    """Return an interpreter that has a module, or None."""
    for python in filter(None, (sys.executable, os.environ.get("RULVAR_BENCH_PEERS"))):
        with contextlib.suppress(OSError):
            if (
                subprocess.run(
                    [python, "-c", f"import {module}"], capture_output=True, check=False
                ).returncode
                == 0
            ):
                return python
    return None


def run(python: str, *args: str) -> Any:
    done = subprocess.run([python, __file__, *args], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-800:])
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None


def measure(count: int, folder: Path) -> None:
    """Build and measure every contender at one size."""
    print(f"\n{count} rows of 2 KB")
    base: dict[str, float] = {}
    for name, (_, suffix, modules) in CONTENDERS.items():
        python = interpreter(modules[0])
        if python is None:
            print(f"  {name:<13} not installed")
            continue
        path = folder / f"{name}-{count}.{suffix}"
        try:
            run(python, "build", name, str(path), str(count))
            rounds = [run(python, "serve", name, str(path), str(count)) for _ in range(ROUNDS)]
        except RuntimeError as error:
            print(f"  {name:<13} failed: {str(error).splitlines()[-1][:120]}")
            continue
        opened = statistics.median(r["open_ms"] for r in rounds)
        served = [statistics.median(column) for column in zip(*(r["us"] for r in rounds), strict=True)]
        memory = statistics.median(r["memory"] for r in rounds)
        base.setdefault("open", opened)
        flat = f"last/first {served[-1] / served[0]:.2f}" if len(served) > 1 else "in order only"
        print(
            f"  {name:<13} open {opened:9.1f} ms ({opened / base['open']:5.2f}x floor)  serve us "
            f"{' / '.join(f'{us:8.1f}' for us in served)}  {flat}  memory {memory:.1f}x file"
        )


def hashes() -> None:
    """Compare the exact hash of a 2 KB request with sorted orjson and SHA-256."""
    from rulvar.contracts.messages import ChatRequest
    from rulvar.contracts.request_hash import request_hash

    asked = [{**request(n), "stopSequences": [WORDS * 8]} for n in range(2000)]
    typed = [ChatRequest.from_wire(item) for item in asked]
    floor = Floor()

    def per_call(work: Callable[[Any], Any], items: list[Any]) -> float:
        best = float("inf")
        for _ in range(5):
            start = cpu()
            for item in items:
                work(item)
            best = min(best, cpu() - start)
        return best / len(items) * 1e6

    base = per_call(floor.key, asked)
    objects, structs = per_call(request_hash, asked), per_call(request_hash, typed)
    print(f"\nhash of a 2 KB request: sorted orjson + SHA-256 {base:.1f} us (not exact)")
    print(
        f"  rulvar, exact: JSON object {objects:.1f} us ({objects / base:.1f}x), typed {structs:.1f} us ({structs / base:.1f}x)"
    )


def diagnoses(count: int, folder: Path) -> None:
    """Measure how long the explanation of a miss takes."""
    from rulvar.testing.cassette import read_cassette
    from rulvar.testing.diagnose import diagnose_miss

    path = folder / f"rulvar-{count}.jsonl"
    tape = read_cassette(path)
    asked = request(count // 2)
    asked["messages"][1]["parts"][0]["text"] += "please"
    times = []
    for _ in range(3):
        start = cpu()
        found = diagnose_miss(tape, asked, "tiny")
        times.append((cpu() - start) * 1e3)
    assert found.row == count // 2 + 2
    print(
        f"  explaining a miss among {count}: {times[0]:.0f} ms the first time, {times[-1]:.0f} ms from then on"
    )


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["build"]:
        CONTENDERS[arguments[1]][0]().build(Path(arguments[2]), int(arguments[3]))
        return
    if arguments[:1] == ["serve"]:
        print(json.dumps(worker(arguments[1], Path(arguments[2]), int(arguments[3]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        for count in map(int, arguments or ["1000", "10000"]):
            measure(count, Path(folder))
            diagnoses(count, Path(folder))
    hashes()


if __name__ == "__main__":
    main(sys.argv[1:])

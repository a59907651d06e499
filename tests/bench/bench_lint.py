"""The lint beside ruff, Fixit and flake8-async on the same files: `python tests/bench/bench_lint.py [--quick]`.

The corpora are made: workflow code only, ordinary code without any of it (the standard library of the running
Python, copied), the same with five small or five dense workflow files, and workflow code that doubles, for growth.
Times are CPU seconds of whole processes, their children included, best of `--rounds`, contenders in turn;
`ast floor` parses every file and walks its tree once. Everybody has their bytecode, as after an installation. Peak
memory is that of the largest process. Fixit and flake8-async run when they are installed in `.cache/bench`
(`.cache/bench/bin/python -m pip install fixit flake8-async`); they are slow, so `--quick` leaves them out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".cache" / "bench" / "bin"
RULES = Path(__file__).parent / "peers" / "fixit_rules"
HERE = Path(sys.executable).parent
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
# The rules that report the calls which the Fixit rule bans.
SAME_RULES = "RLV101,RLV102,RLV103,RLV107,RLV108"
Figures = tuple[float, float, float]
FLOOR = """
import ast, os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                try:
                    for node in ast.walk(ast.parse(file.read())): pass
                except (SyntaxError, ValueError): pass
"""
HEAD = '''"""Module {n}."""
import os
import random
import time
import uuid
from dataclasses import dataclass
from datetime import datetime

from rulvar import Ctx, workflow


@dataclass
class Order{n}:
    name: str
    total: int = 0

    def label(self) -> str:
        return f"{{self.name}}-{{self.total}}"


def score(order: Order{n}, weights: dict[str, int]) -> int:
    found = sum(weights.get(key, 0) for key in sorted(weights))
    return found + order.total
'''
BODY = '''

async def ask_{k}(ctx: Ctx, order: Order{n}, hints: list[str]) -> dict:
    """Ask about an order."""
    notes = [hint.strip() for hint in hints if hint and len(hint) > {k}]
    text = "\\n".join(notes)
    if not notes:
        return await ctx.agent(f"Describe {{order.label()}}", label="describe-{k}")
    return await ctx.agent(f"Judge {{order.name}} by: {{text}}", label="judge-{k}")


@workflow(name="flow-{n}-{k}")
async def flow_{k}(ctx: Ctx, args: dict) -> dict:
    order = Order{n}(args["name"], args.get("total", 0))
    weights = {{"a": {k}, "b": 2}}
    started = {hazard}
    parts = []
    for index, item in enumerate(args["items"]):
        try:
            part = await ctx.step(f"load-{{index}}", lambda item=item: score(item, weights), deps=[index])
        except ValueError as err:
            ctx.log("warn", f"{{index}}: {{err}}")
            continue
        parts.append(part)
    drafts = await ctx.parallel([lambda p=p: ask_{k}(ctx, order, [str(p)]) for p in parts])
    if any(draft.get("bad") for draft in drafts):
        answer = await ctx.await_external(f"review-{{order.name}}")
        return {{"answer": answer, "started": str(started)}}
    return {{"drafts": drafts, "score": score(order, weights)}}
'''
ALONE_HEAD = "import time\n\nfrom rulvar import Ctx, workflow\n"
ALONE = """

def size_{k}(value: int) -> int:
    total = value + {k}
    for item in range(total):
        if item % 7 == 0:
            total += item
    return total


@workflow(name="flow-{k}")
async def flow_{k}(ctx: Ctx, args: dict) -> dict:
    started = {hazard}
    kind = await ctx.agent(f"Classify {k}: {{args['text']}}", label="classify")
    size = await ctx.step("size", lambda: size_{k}(3), deps=[kind])
    return {{"at": str(started), "kind": kind, "size": size}}
"""
HELPED_HEAD = "from rulvar import Ctx, workflow\n\nfrom clocks import stamp\nfrom prompts import STYLE, ask\nfrom sizes import Size, measure\n"
HELPED = """

@workflow(name="flow-{k}")
async def flow_{k}(ctx: Ctx, args: dict) -> dict:
    started = {hazard}
    size = Size(measure(args["text"]), {k})
    kind = await ask(ctx, f"{{STYLE}} Classify {k}: {{args['text']}}")
    again = await ctx.step("size", lambda: measure(kind), deps=[size.label()])
    if size.is_large():
        return {{"kind": kind, "large": True}}
    return {{"at": started, "kind": kind, "size": size.label(), "again": again}}
"""
HELPERS = {
    "clocks.py": """import time


def stamp() -> float:
    return time.time()
""",
    "prompts.py": """from rulvar import Ctx

STYLE = "Answer in one line."


async def ask(ctx: Ctx, prompt: str) -> str:
    answer = await ctx.agent(prompt, label="ask")
    return str(answer).strip()
""",
    "sizes.py": """from dataclasses import dataclass

LIMITS = {"small": 10, "large": 1000}


@dataclass(frozen=True)
class Size:
    chars: int
    rank: int = 0

    def is_large(self) -> bool:
        return self.chars > LIMITS["large"]

    def label(self) -> str:
        return f"{self.rank}: {self.chars}"


def measure(text: str) -> int:
    return sum(len(line.strip()) for line in text.splitlines())
""",
}
SMALL = '''"""{title}."""

import logging
import os
from dataclasses import dataclass

from rulvar import Ctx, step, workflow

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class {name}:
    key: str
    lines: tuple[str, ...] = ()
    urgent: bool = False


@step
def load(path: str) -> dict[str, str]:
    with open(os.path.join("data", path)) as file:
        rows = [line.strip().split(",") for line in file if line.strip()]
    return {{row[0]: ",".join(row[1:]) for row in rows}}


def summary(item: {name}, found: dict[str, str]) -> str:
    known = [found[line] for line in item.lines if line in found]
    return "\\n".join([item.key, *known]) or "nothing"


@workflow(name="{word}")
async def {word}(ctx: Ctx, args: dict) -> dict:
    item = {name}(args["key"], tuple(args["lines"]), bool(args.get("urgent")))
    found = await ctx.step("load", lambda: load(item.key), deps=[item.key])
    verdict = await ctx.agent(f"Judge {word} {{item.key}}: {{summary(item, found)}}", label="judge")
    if item.urgent and verdict.get("doubt"):
        answer = await ctx.await_external(f"{word}-{{item.key}}")
        if not answer["accepted"]:
            return {{"status": "refused", "by": answer["by"]}}
    parts = await ctx.parallel(
        [lambda line=line: ctx.agent(f"Write about {{line}}", label=f"write-{{line}}") for line in item.lines]
    )
    log.info("%s is done", item.key)
    return {{"status": "done", "at": {hazard}, "parts": parts}}
'''
TITLES = ("invoices", "claims", "orders", "reviews", "tickets")
HAZARDS = (
    "time.time()",
    "random.random()",
    "uuid.uuid4()",
    "os.getenv('A')",
    "datetime.now()",
    "3",
    "ctx.now()",
)


def workflows(folder: Path, files: int, functions: int = 15) -> Path:
    """So many files of about 500 lines that are all workflow code."""
    folder.mkdir(parents=True)
    for n in range(files):
        bodies = [BODY.format(n=n, k=k, hazard=HAZARDS[(n + k) % len(HAZARDS)]) for k in range(functions)]
        (folder / f"flow_{n}.py").write_text(HEAD.format(n=n) + "".join(bodies))
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    return folder


def small(folder: Path) -> Path:
    """Five workflow files as people write them, of about 50 lines each."""
    folder.mkdir(parents=True)
    for word, hazard in zip(
        TITLES, ("ctx.now()", "ctx.time()", "str(ctx.uuid())", "None", "os.getenv('A')"), strict=True
    ):
        name = word.removesuffix("s").capitalize()
        (folder / f"{word}.py").write_text(
            SMALL.format(title=f"What becomes of {word}", name=name, word=word, hazard=hazard)
        )
    return folder


def ordinary(folder: Path, files: int) -> Path:
    """The standard library, with so many dense workflow files beside it."""
    source = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(
        source, folder / "code", ignore=shutil.ignore_patterns("site-packages", "__pycache__", "test")
    )
    if files:
        workflows(folder / "flows", files)
    (folder / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    return folder


def size(folder: Path) -> tuple[int, int]:
    texts = [path.read_bytes() for path in folder.rglob("*.py")]
    return len(texts), sum(text.count(b"\n") for text in texts)


def run(command: list[str], folder: Path) -> Figures:
    """CPU seconds, wall seconds and peak MiB of one process and its children."""
    start = time.perf_counter()
    child = os.fork()
    if not child:
        os.chdir(folder)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.execvpe(command[0], command, ENVIRONMENT if command[0].startswith(str(HERE)) else os.environ)
    _, _, usage = os.wait4(child, 0)
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss / 1024


def best(command: list[str], folder: Path, rounds: int) -> Figures:
    return in_turn({"": command}, folder, rounds)[""]


def in_turn(commands: dict[str, list[str]], folder: Path, rounds: int) -> dict[str, Figures]:
    """The best figures of each command; they take turns, so that a busy moment hits all of them."""
    found: dict[str, list[Figures]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(run(command, folder))
    return {
        name: (min(f[0] for f in runs), min(f[1] for f in runs), max(f[2] for f in runs))
        for name, runs in found.items()
    }


def show(name: str, figures: Figures, reference: float = 0.0) -> None:
    cpu, wall, memory = figures
    ratio = f"{cpu / reference:8.2f}x" if reference else " " * 9
    print(f"  {name:24} cpu {cpu:8.3f} s {ratio}   wall {wall:8.3f} s   peak {memory:6.1f} MiB", flush=True)


def compare(folder: Path, rounds: int, slow: bool) -> None:
    files, lines = size(folder)
    print(f"{folder.name}: {files} files, {lines} lines (ratios to the ast floor)")
    lint = [str(HERE / "rulvar-lint"), "-q"]
    ruff = [str(HERE / "ruff"), "check", "-q", "--isolated", "--select", "DTZ,S311,ASYNC"]
    commands = {
        "ast floor": [str(HERE / "python"), "-c", FLOOR, "."],
        "rulvar-lint cold": [*lint, "--no-cache"],
        "rulvar-lint cold, -j1": [*lint, "--no-cache", "-j", "1"],
        "ruff cold": [*ruff, "--no-cache"],
    }
    if slow:
        commands["rulvar-lint, as fixit"] = [*lint, "--no-cache", "--select", SAME_RULES]
    figures = in_turn(commands, folder, rounds)
    floor = figures["ast floor"][0]
    run(lint, folder)
    run(ruff, folder)
    figures |= in_turn({"rulvar-lint warm": lint, "ruff warm": ruff}, folder, rounds + 2)
    for name, found in figures.items():
        show(name, found, floor)
    if slow:
        peers(folder, floor, figures["rulvar-lint, as fixit"][0])


def peers(folder: Path, floor: float, ours: float) -> None:
    if (PEERS / "fixit").exists():
        shutil.copytree(RULES, folder / "fixit_rules", dirs_exist_ok=True)
        enable = 'root = true\nenable = [".fixit_rules.clocks"]\ndisable = ["fixit.rules"]\n'
        (folder / "fixit.toml").write_text(f"[tool.fixit]\n{enable}")
        fixit = [str(PEERS / "fixit"), "--config-file", "fixit.toml", "--quiet", "lint", "."]
        found = run(fixit, folder)
        show("fixit, one rule", found, floor)
        print(f"  fixit / rulvar-lint with the rules that ban the same calls: {found[0] / ours:.1f}x")
    if (PEERS / "flake8").exists():
        show("flake8-async", run([str(PEERS / "flake8"), "--isolated", "--select=ASYNC", "."], folder), floor)


def growth(scratch: Path, rounds: int) -> None:
    print("growth, -j1 (seconds per 1,000 lines should stay the same)")
    for files in (25, 50, 100, 200):
        folder = workflows(scratch / f"grow-{files}", files)
        cpu, _, memory = best([str(HERE / "rulvar-lint"), "-q", "--no-cache", "-j", "1"], folder, rounds)
        lines = size(folder)[1]
        print(
            f"  {files:4} files {lines:7} lines  {cpu:7.2f} s  {cpu / lines * 1e6:6.1f} us/line  {memory:6.1f} MiB"
        )
    for functions in (30, 60, 120, 240):
        folder = workflows(scratch / f"long-{functions}", 1, functions)
        cpu, _, memory = best([str(HERE / "rulvar-lint"), "-q", "--no-cache", "-j", "1"], folder, rounds)
        lines = size(folder)[1]
        print(
            f"  one file {lines:9} lines  {cpu:7.2f} s  {cpu / lines * 1e6:6.1f} us/line  {memory:6.1f} MiB"
        )


def start(scratch: Path, rounds: int) -> None:
    print("start")
    floor = best([sys.executable, "-c", "pass"], scratch, rounds + 8)
    show("python -c pass", floor, floor[0])
    show(
        "rulvar-lint --version", best([str(HERE / "rulvar-lint"), "--version"], scratch, rounds + 8), floor[0]
    )


def edits(scratch: Path) -> None:
    """Re-lint after an edit within one line, or one that adds a line, in a warm process. The third module
    imports three others.
    """
    from rulvar_lint import Project

    print("re-lint after an edit in one place, warm process (CPU ms: median, 95th of 100, worst of 40)")
    for name, text in HELPERS.items():
        (scratch / name).write_text(text)
    for kind, head, body, hazard in (
        ("sharing a class", HEAD, BODY, "time.time()"),
        ("independent", ALONE_HEAD, ALONE, "time.time()"),
        ("with helper modules", HELPED_HEAD, HELPED, "stamp()"),
    ):
        for length in (1000, 5000):
            count = (length - head.count("\n")) // body.count("\n")
            text = head.format(n=0) + "".join(body.format(n=0, k=k, hazard=hazard) for k in range(count))
            for added in ("", "\n    # a line"):
                lines = text.split("\n")
                places = [at for at, line in enumerate(lines) if "started = " in line]
                project = Project(scratch)
                figures = []
                for n in range(42):
                    lines[places[n * 7 % len(places)]] += f"  # {n}{added}"
                    joined = "\n".join(lines)
                    begin = time.process_time()
                    project.set_text("flow.py", joined)
                    project.check_file("flow.py")
                    figures.append((time.process_time() - begin) * 1000)
                seen = sorted(figures[2:])
                what = f"{kind}, {text.count(chr(10))} lines, " + (
                    "a new line" if added else "the same lines"
                )
                print(f"  {what:44} {statistics.median(seen):7.1f} {seen[37]:7.1f} {seen[-1]:7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument(
        "--corpus",
        type=Path,
        metavar="DIR",
        help="measure a copy of this folder of workflow code, and no other",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the files, and no slow peers")
    args = parser.parse_args()
    files = args.files // 10 if args.quick else args.files
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        ENVIRONMENT["PYTHONPYCACHEPREFIX"] = str(scratch / "bytecode")
        start(scratch, args.rounds)
        if args.corpus is not None:
            compare(
                shutil.copytree(args.corpus, scratch / args.corpus.name), args.rounds, slow=not args.quick
            )
            return
        compare(workflows(scratch / "workflows", files), args.rounds, slow=not args.quick)
        compare(ordinary(scratch / "ordinary", 0), args.rounds, slow=False)
        five = ordinary(scratch / "ordinary with five small", 0)
        small(five / "app" / "flows")
        compare(five, args.rounds, slow=False)
        compare(ordinary(scratch / "ordinary with five dense", 5), args.rounds, slow=False)
        growth(scratch, 1 if args.quick else args.rounds)
        edits(scratch)  # last: what this process holds would count as the memory of its children


if __name__ == "__main__":
    main()

"""While a workflow body runs, bare reads of clock, chance, ids and environment are noticed, once per site."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import gc
import importlib.util
import json
import logging
import os
import random
import sys
import time
import uuid
import weakref
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rulvar import Ctx, Engine, JsonlFileStore, Outcome, define_workflow, tool
from rulvar.engine.ambient import install_observer, uninstall_observer
from rulvar.errors import ConfigError
from rulvar.testing import create_test_engine, fake_tool_calls

Body = Callable[..., Awaitable[Any]]
HERE = Path(__file__)


async def warnings_of(body: Body, determinism: Any = None, args: Any = None) -> list[dict[str, Any]]:
    """Run a body once and return its warnings."""
    return (await watched(body, determinism, args))[1]


async def watched(
    body: Body, determinism: Any = None, args: Any = None, **options: Any
) -> tuple[Outcome, list[dict[str, Any]]]:
    async with create_test_engine(**{"agents": {"*": "x"}, **options}, determinism=determinism) as engine:
        handle = engine.run(define_workflow("w", body), args)
        outcome = await handle.result()
        found = [event.to_wire() for event in handle.events_seen() if event.type == "determinism:warning"]
    return outcome, found


def codes(found: list[dict[str, Any]]) -> list[str]:
    return [warning["code"] for warning in found]


def line_of(mark: str) -> int:
    """Return the line of this file that ends with a mark."""
    lines = HERE.read_text("utf-8").splitlines()
    return 1 + next(number for number, line in enumerate(lines) if line.endswith(f"# {mark}"))


SYSTEM = random.SystemRandom()
READS: dict[str, tuple[str, Callable[[], Any]]] = {
    "time.time": ("RLV101", lambda: time.time()),
    "time.time_ns": ("RLV101", lambda: time.time_ns()),
    "time.monotonic": ("RLV101", lambda: time.monotonic()),
    "time.perf_counter": ("RLV101", lambda: time.perf_counter()),
    "time.gmtime": ("RLV101", lambda: time.gmtime()),
    "time.strftime": ("RLV101", lambda: time.strftime("%Y")),
    "datetime.now": ("RLV101", lambda: datetime.datetime.now()),
    "datetime.now(tz)": ("RLV101", lambda: datetime.datetime.now(datetime.UTC)),
    "datetime.today": ("RLV101", lambda: datetime.datetime.today()),
    "date.today": ("RLV101", lambda: datetime.date.today()),
    "random.random": ("RLV102", lambda: random.random()),
    "random.randint": ("RLV102", lambda: random.randint(1, 6)),
    "random.choice": ("RLV102", lambda: random.choice("ab")),
    "random.shuffle": ("RLV102", lambda: random.shuffle([1])),
    "random.Random()": ("RLV102", lambda: random.Random()),
    "os.urandom": ("RLV102", lambda: os.urandom(1)),
    "uuid.uuid4": ("RLV103", lambda: uuid.uuid4()),
    "uuid.uuid1": ("RLV103", lambda: uuid.uuid1()),
    "os.environ[]": ("RLV108", lambda: os.environ["PATH"]),
    "os.environ.get": ("RLV108", lambda: os.environ.get("PATH")),
    "in os.environ": ("RLV108", lambda: "PATH" in os.environ),
    "for os.environ": ("RLV108", lambda: list(os.environ)),
    "os.environ.items": ("RLV108", lambda: dict(os.environ.items())),
    "os.getenv": ("RLV108", lambda: os.getenv("PATH")),
    "os.getcwd": ("RLV108", lambda: os.getcwd()),
    "os.getpid": ("RLV108", lambda: os.getpid()),
}
PURE: dict[str, Callable[[], Any]] = {
    "a time that is given": lambda: time.gmtime(0),
    "a format of a given time": lambda: time.strftime("%Y", (2026, 1, 1, 0, 0, 0, 0, 1, 0)),
    "a date that is given": lambda: datetime.datetime(2026, 1, 1),
    "a date that is read": lambda: datetime.datetime.fromisoformat("2026-01-01"),
    "seeded chance": lambda: random.Random(42).random(),
    "an id of a name": lambda: uuid.uuid5(uuid.NAMESPACE_DNS, "a"),
    "an id that is read": lambda: uuid.UUID(int=0),
    "a path": lambda: os.path.join("a", "b"),
    "a mapping that is no environment": lambda: {"PATH": 1}["PATH"],
    "a log line": lambda: logging.getLogger("quiet").debug("library code may read the clock"),
}


@pytest.mark.parametrize("name", READS)
async def test_an_impure_read_of_a_body_is_noticed_with_its_rule(name: str) -> None:
    code, read = READS[name]

    async def body(ctx: Ctx, args: Any) -> None:
        read()

    found = await warnings_of(body)
    assert codes(found) == [code], found


@pytest.mark.parametrize("name", PURE)
async def test_what_gives_the_same_value_on_every_replay_is_left_alone(name: str) -> None:
    read = PURE[name]

    async def body(ctx: Ctx, args: Any) -> None:
        assert time  # what the guard looks for is at hand, so it is on
        read()

    assert await warnings_of(body) == []


async def test_a_warning_names_file_line_rule_and_what_to_write_instead() -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        time.time()  # here

    (warning,) = await warnings_of(body)
    assert warning["line"] == line_of("here")
    assert warning["file"].endswith("test_guard.py")
    assert not os.path.isabs(warning["file"])
    assert "time.time()" in warning["message"]
    assert "ctx.time()" in warning["message"]


async def test_a_warning_is_given_where_the_working_directory_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    async def body(ctx: Ctx, args: Any) -> None:
        time.time()

    assert codes(await warnings_of(body)) == ["RLV101"]


async def test_a_site_is_noticed_once_per_run_and_again_in_the_next() -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        for _ in range(3):
            time.time()
            await ctx.step("s", lambda: 1)
        time.time()

    async with create_test_engine() as engine:
        workflow = define_workflow("w", body)
        for _ in range(2):
            handle = engine.run(workflow)
            await handle.result()
            assert [e.type for e in handle.events_seen()].count("determinism:warning") == 2


async def test_steps_tools_and_models_are_free() -> None:
    @tool
    def clock() -> float:
        """Tell the time."""
        return time.time()

    async def slow() -> float:
        await asyncio.sleep(0)
        return time.time()

    def answer(call: Any) -> Any:
        time.time()
        return "done" if len(call.req.messages) > 1 else fake_tool_calls(name="clock", args={})

    async def body(ctx: Ctx, args: Any) -> None:
        await ctx.step("sync", lambda: time.time())
        await ctx.step("async", slow)
        await ctx.agent("what time is it?", tools=[clock])

    outcome, found = await watched(body, agents={"*": answer})
    assert outcome.status == "ok", outcome.error
    assert found == []


async def test_a_function_is_free_in_a_step_and_noticed_in_the_body() -> None:
    def stamp() -> float:
        return time.time()  # stamp

    async def body(ctx: Ctx, args: Any) -> None:
        await ctx.step("s", stamp)
        if args:
            stamp()

    assert await warnings_of(body, args=None) == []
    (warning,) = await warnings_of(body, args=1)
    assert warning["line"] == line_of("stamp")


async def test_code_after_a_call_is_still_watched() -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        await ctx.agent("a")
        await ctx.step("s", lambda: asyncio.sleep(0))
        time.time()

    assert codes(await warnings_of(body)) == ["RLV101"]


async def test_every_place_that_runs_workflow_code_is_watched() -> None:
    async def child(ctx: Ctx, args: Any) -> int:
        time.time()
        await ctx.step("s", lambda: time.time())
        return 1

    async def stage(item: Any) -> Any:
        random.random()
        return item

    async def section() -> None:
        uuid.uuid4()

    async def branch(ctx: Ctx) -> Any:
        await asyncio.sleep(0)
        os.getpid()
        return await ctx.step("s", lambda: 1)

    async def body(ctx: Ctx, args: Any) -> None:
        await ctx.workflow(define_workflow("child", child))
        await ctx.pipeline([1, 2], stage)
        await ctx.phase("p")(section)
        async with ctx.phase("q"):
            datetime.date.today()
        await ctx.parallel([lambda: branch(ctx), lambda: ctx.agent(f"{time.time()}")])
        await ctx.parallel([ctx.agent(f"{os.getcwd()}") for _ in range(1)])

    found = codes(await warnings_of(body))
    assert sorted(found) == sorted(["RLV101", "RLV102", "RLV103", "RLV101", "RLV108", "RLV101", "RLV108"])


async def test_what_a_call_takes_from_the_workflow_is_watched_and_the_call_itself_is_not() -> None:
    def items() -> Any:
        for number in range(2):
            time.time()  # items
            yield number

    def thunks(ctx: Ctx) -> Any:
        for number in range(2):
            random.random()  # thunks
            yield lambda number=number: ctx.step("s", lambda: time.time(), deps=[number])

    def stage(item: Any) -> Any:
        uuid.uuid4()  # stage
        return asyncio.sleep(0, item)

    async def begun() -> None:
        await asyncio.sleep(0)
        os.getpid()  # begun

    async def section() -> None:
        os.getcwd()  # section

    async def body(ctx: Ctx, args: Any) -> None:
        await ctx.pipeline(items(), stage)
        await ctx.parallel(thunks(ctx))
        await ctx.parallel([begun(), begun()])
        await asyncio.create_task(ctx.phase("p")(section))
        await asyncio.gather(ctx.parallel([begun()]), ctx.step("t", lambda: time.time()))

    outcome, found = await watched(body)
    assert outcome.status == "ok", outcome.error
    places = ("items", "thunks", "stage", "begun", "section")
    assert sorted(w["line"] for w in found) == sorted(line_of(place) for place in places)


async def test_tasks_that_the_body_makes_are_watched_and_their_steps_are_free() -> None:
    async def one(ctx: Ctx, number: int) -> float:
        await asyncio.sleep(0)
        time.time()  # gathered
        return await ctx.step("s", lambda: time.time(), deps=[number])

    async def two(ctx: Ctx) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(three(), name="three")
            assert "three()" in repr(task)
        uuid.uuid4()  # after

    async def three() -> None:
        await asyncio.sleep(0)
        random.random()  # in a group

    async def four() -> str:
        return datetime.datetime.now().isoformat()  # in time

    async def body(ctx: Ctx, args: Any) -> None:
        await asyncio.gather(*(one(ctx, number) for number in range(3)))
        await asyncio.create_task(two(ctx))
        await ctx.parallel([lambda: asyncio.wait_for(four(), 5)])

    outcome, found = await watched(body)
    assert outcome.status == "ok", outcome.error
    assert sorted(w["line"] for w in found) == [
        line_of(m) for m in ("gathered", "after", "in a group", "in time")
    ]


async def test_tasks_that_steps_tools_and_models_make_are_free() -> None:
    async def stamp() -> float:
        await asyncio.sleep(0)
        return time.time()

    @tool
    async def clock() -> float:
        """Tell the time."""
        return await asyncio.create_task(stamp())

    def answer(call: Any) -> Any:
        background.append(asyncio.create_task(pump()))
        return "done" if len(call.req.messages) > 1 else fake_tool_calls(name="clock", args={})

    async def pump() -> float:
        return time.time() + len(os.environ.get("HOME", ""))

    async def body(ctx: Ctx, args: Any) -> None:
        await ctx.step("s", lambda: asyncio.create_task(stamp()))
        await ctx.agent("what time is it?", tools=[clock])
        if args:
            await stamp()

    background: list[asyncio.Task[float]] = []
    outcome, found = await watched(body, agents={"*": answer})
    await asyncio.gather(*background)
    assert (outcome.status, found) == ("ok", [])


async def test_a_task_factory_of_the_workflow_or_its_host_makes_the_tasks() -> None:
    def factory(loop: Any, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(coroutine.__name__)
        return asyncio.Task(coroutine, loop=loop, **options)

    async def stamp() -> float:
        return time.time()

    async def body(ctx: Ctx, args: Any) -> None:
        if args == "installs one":
            asyncio.get_running_loop().set_task_factory(factory)
        await asyncio.create_task(stamp())

    made: list[str] = []
    loop = asyncio.get_running_loop()
    try:
        for args in ("finds one", "installs one"):
            loop.set_task_factory(factory if args == "finds one" else None)
            made.clear()
            found = await warnings_of(body, args=args)
            assert "stamp" in made
            assert loop.get_task_factory() is factory
            assert codes(found) == (["RLV101"] if args == "finds one" else [])
    finally:
        loop.set_task_factory(None)


class Clock:
    """Project code behind methods, properties and class attributes."""

    read = staticmethod(time.time)

    def __init__(self) -> None:
        self.made = self.read()  # made

    @property
    def now(self) -> float:
        return time.time()  # property

    @functools.cached_property
    def cached(self) -> float:
        return time.time()  # cached


@dataclass
class Ticket:
    number: str = field(default_factory=lambda: str(uuid.uuid4()))  # factory


async def test_reads_behind_methods_properties_and_factories_are_noticed() -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        clock = Clock()
        assert clock.now
        assert clock.cached
        Ticket()

    found = await warnings_of(body)
    assert [w["line"] for w in found] == [line_of(m) for m in ("made", "property", "cached", "factory")]


async def test_a_subclass_of_datetime_is_a_clock_too() -> None:
    class Moment(datetime.datetime):
        pass

    async def body(ctx: Ctx, args: Any) -> None:
        Moment.now()

    (warning,) = await warnings_of(body)
    assert "Moment.now()" in warning["message"]


async def test_runs_side_by_side_do_not_get_each_others_warnings() -> None:
    async def reads(ctx: Ctx, args: Any) -> None:
        for _ in range(5):
            await ctx.step("s", lambda: asyncio.sleep(0.001))
            time.time()

    async def steps(ctx: Ctx, args: Any) -> None:
        for _ in range(5):
            await ctx.step("s", lambda: asyncio.sleep(0.001, time.time()))

    async def plain() -> float:
        for _ in range(5):
            await asyncio.sleep(0.001)
            time.time()
        return time.time()

    async with create_test_engine() as engine:
        bad, good = engine.run(define_workflow("bad", reads)), engine.run(define_workflow("good", steps))
        await asyncio.gather(bad.result(), good.result(), plain(), asyncio.to_thread(time.time))
    count = [[e.type for e in handle.events_seen()].count("determinism:warning") for handle in (bad, good)]
    assert count == [1, 0]


async def test_listeners_and_stores_of_the_project_are_free() -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        ctx.log("info", "hello")
        await ctx.step("s", lambda: 1)

    async with create_test_engine() as engine:
        handle = engine.run(define_workflow("w", body))
        handle.on("*", lambda event: time.time())
        await handle.result()
        assert "determinism:warning" not in [event.type for event in handle.events_seen()]


async def test_nothing_is_installed_where_no_code_of_the_project_names_a_source(project: Any) -> None:
    module = project(
        clean="async def body(ctx, args):\n    ctx.now(); ctx.random(); ctx.uuid()\n    return await ctx.step('s', int)\n"
    )
    async with create_test_engine() as engine:
        handle = engine.run(define_workflow("w", module.clean.body))
        await handle.result()
        assert handle._run is not None
        assert handle._run.watch is None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("import time\nasync def body(ctx, args): time.time()", id="module"),
        pytest.param("from time import time as t\nasync def body(ctx, args): t()", id="alias"),
        pytest.param("from datetime import datetime\nasync def body(ctx, args): datetime.now()", id="class"),
        pytest.param("async def body(ctx, args):\n    import time\n    time.time()", id="import in the body"),
        pytest.param(
            "async def body(ctx, args):\n    from time import time\n    time()", id="from in the body"
        ),
        pytest.param("import time\nasync def body(ctx, args, now=time.time): now()", id="default argument"),
        pytest.param(
            "import time\nCLOCKS = {'a': time.time}\nasync def body(ctx, args): CLOCKS['a']()", id="table"
        ),
        pytest.param("import helper\nasync def body(ctx, args): helper.stamp()", id="another module"),
        pytest.param(
            "from helper import stamp\nasync def body(ctx, args): stamp()", id="from another module"
        ),
        pytest.param("from helper import cached\nasync def body(ctx, args): cached()", id="behind a cache"),
        pytest.param("from helper import api\nasync def body(ctx, args): api.fetch()", id="an instance"),
        pytest.param("from helper import partly\nasync def body(ctx, args): partly()", id="a partial"),
        pytest.param("import time\nasync def body(ctx, args): (lambda: time.time())()", id="lambda"),
        pytest.param(
            "import time\nasync def body(ctx, args): [time.time() for _ in 'a']", id="comprehension"
        ),
    ],
)
async def test_a_source_is_found_however_the_code_names_it(project: Any, body: str) -> None:
    helper = """
        import functools, time
        def stamp(): return time.time()
        @functools.lru_cache
        def cached(): return time.time()
        class Api:
            def fetch(self): return time.time()
        api = Api()
        partly = functools.partial(stamp)
    """
    module = project(helper=helper, flow=body)
    assert codes(await warnings_of(module.flow.body)) == ["RLV101"]


async def test_a_name_that_is_bound_anew_is_seen_by_the_next_engine(project: Any) -> None:
    module = project(
        helper="def stamp(): return 0\n", flow="import helper\nasync def body(ctx, args): helper.stamp()\n"
    )
    assert await warnings_of(module.flow.body) == []
    here: dict[str, Any] = {"time": time, "__name__": "elsewhere"}
    exec(compile("def stamp(): return time.time()\n", module.flow.helper.__file__, "exec"), here)
    module.flow.helper.stamp = here["stamp"]
    assert codes(await warnings_of(module.flow.body)) == ["RLV101"]


IMPURE = """
    import time
    def stamp(*args): return time.time()
    def made(): return 0
"""


@pytest.mark.parametrize(
    ("flow", "call", "change"),
    [
        ("CLOCKS = {'now': lambda: 0}", "CLOCKS['now']()", "flow.CLOCKS['now'] = impure.stamp"),
        ("CLOCKS = [lambda: 0]", "CLOCKS[0]()", "flow.CLOCKS[:] = [impure.stamp]"),
        ("class C:\n    def now(self): return 0", "C().now()", "flow.C.now = impure.stamp"),
        (
            "class C:\n    def now(self): return 0\nclass D: ...\nclass E(D): ...",
            "E().now()",
            "flow.E.__bases__ = (type('F', (), {'now': impure.stamp, '__module__': 'impure'}),)",
        ),
        (
            "def keep(f):\n    def put(g):\n        nonlocal f\n        f = g\n"
            "    return (lambda: f()), put\nnow, put = keep(lambda: 0)",
            "now()",
            "flow.put(impure.stamp)",
        ),
    ],
)
async def test_whatever_is_changed_behind_a_name_is_seen_by_the_next_engine(
    project: Any, flow: str, call: str, change: str
) -> None:
    body = f"{flow}\nasync def body(ctx, args): {call}\nasync def idle(ctx, args): ...\n"
    modules = project(impure=IMPURE, flow=body)
    assert await warnings_of(modules.flow.idle) == []
    exec(change, {"flow": modules.flow, "impure": modules.impure})
    assert codes(await warnings_of(modules.flow.body)) == ["RLV101"]


async def test_functions_that_come_and_go_in_the_same_place_of_memory_are_told_apart(project: Any) -> None:
    modules = project(flow="def stamp(): return 0\nasync def body(ctx, args): stamp()\n")
    file = modules.flow.__file__
    found = []
    for text in ("return 0", "return time.time()") * 5:
        del modules.flow.stamp
        gc.collect()
        exec(compile(f"def stamp(): {text}\n", file, "exec"), names := {"time": time})
        modules.flow.stamp = names.pop("stamp")
        del names
        found.append(codes(await warnings_of(modules.flow.body)))
    assert found == [[], ["RLV101"]] * 5


async def test_a_name_that_moves_to_another_object_of_the_module_is_seen(project: Any) -> None:
    flow = "import time as clock, types\nfake = types.SimpleNamespace(time=lambda: 0)\nasync def body(ctx, args): now.time()\n"
    modules = project(flow=flow)
    names = vars(modules.flow)
    names["now"] = names.pop("fake")
    assert await warnings_of(modules.flow.body) == []
    names["fake"] = names.pop("now")
    names["now"] = names.pop("clock")
    assert codes(await warnings_of(modules.flow.body)) == ["RLV101"]


async def test_a_clock_that_a_test_replaces_leaves_the_real_one_watched(monkeypatch: Any) -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        time.time()
        uuid.uuid4()

    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: 0.0)
        patched.setattr(uuid, "uuid4", lambda: 0)
        assert codes(await warnings_of(body)) == ["RLV101", "RLV103"]
    assert codes(await warnings_of(body)) == ["RLV101", "RLV103"]


async def test_a_namespace_that_is_no_modules_is_let_go_of() -> None:
    class Heavy: ...

    def run_made() -> tuple[Any, Any]:
        heavy = Heavy()
        names: dict[str, Any] = {"heavy": heavy, "__name__": "made"}
        exec(compile("async def body(ctx, args): ...", str(HERE), "exec"), names)
        return names["body"], weakref.ref(heavy)

    body, heavy = run_made()
    await warnings_of(body)
    del body
    gc.collect()
    assert heavy() is None


async def test_workflows_of_one_module_are_judged_alike_in_every_engine(project: Any) -> None:
    module = project(
        flow="import time\nasync def reads(ctx, args): time.time()\nasync def clean(ctx, args): ...\n"
    )
    for _ in range(2):
        assert await warnings_of(module.flow.clean) == []
        assert codes(await warnings_of(module.flow.reads)) == ["RLV101"]


async def test_a_library_is_never_noticed_and_never_hides_what_it_calls(project: Any, tmp_path: Path) -> None:
    library = """
        import time
        def read(): return time.time()
        def call(function): return function()
    """
    packages = tmp_path / "site-packages"
    module = project(
        vendored=(packages, library),
        flow="import time, vendored\nasync def body(ctx, args):\n    vendored.read()\n    vendored.call(lambda: time.time())\n",
    )
    (warning,) = await warnings_of(module.flow.body)
    assert warning["line"] == 4


# -- what to do about it -----------------------------------------------------------------


async def test_error_rejects_the_run_even_when_the_workflow_swallows_everything() -> None:
    async def body(ctx: Ctx, args: Any) -> str:
        with contextlib.suppress(BaseException):
            time.time()
            await ctx.agent("never asked")
        return "fine"

    async with create_test_engine(agents={"*": "x"}, determinism="error") as engine:
        handle = engine.run(define_workflow("w", body))
        outcome = await handle.result()
    assert outcome.status == "error"
    assert outcome.error is not None
    assert outcome.error.code == "determinism"
    assert "test_guard.py" in outcome.error.message
    assert engine.fake.calls == []


async def test_error_wins_over_a_suspension() -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        async def reads() -> None:
            await asyncio.sleep(0)
            time.time()

        await ctx.parallel([lambda: ctx.await_external("go"), reads])

    outcome, _ = await watched(body, "error")
    assert outcome.error is not None
    assert outcome.error.code == "determinism"


async def test_off_notices_nothing() -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        time.time()

    assert await warnings_of(body, "off") == []


@pytest.mark.parametrize(
    "allow",
    [
        ["RLV101"],
        [__name__],
        ["*test_guard.py"],
        ["engine/test_guard.py"],
        [str(HERE)],
        ["tests/rulvar/*"],
        ["nothing", "test_guard.py"],
    ],
)
async def test_what_is_allowed_is_left_alone(allow: list[str]) -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        time.time()

    assert await warnings_of(body, {"mode": "error", "allow": allow}) == []


@pytest.mark.parametrize("allow", [["RLV102"], ["test_guardian.py"], ["other"], ["guard.py"]])
async def test_what_is_not_allowed_is_noticed(allow: list[str]) -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        time.time()

    assert codes(await warnings_of(body, {"allow": allow})) == ["RLV101"]


async def test_the_lints_comments_are_heeded() -> None:
    # fmt: off
    def vouched() -> float:  # rulvar: deterministic
        return time.time()

    async def body(ctx: Ctx, args: Any) -> None:
        time.time()  # rulvar: ignore[RLV101] measured only
        random.random()  # rulvar: ignore[RLV101] another rule
        uuid.uuid4()  # noqa: RLV103
        vouched()
    # fmt: on

    assert codes(await warnings_of(body)) == ["RLV102"]


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("loud", "determinism"),
        (7, "determinism"),
        ({"mode": "loud"}, "determinism.mode"),
        ({"modus": "warn"}, "determinism.modus"),
        ({"allow": "app"}, "determinism.allow"),
        ({"allow": ["app", 3]}, "determinism.allow[1]"),
        ({"allow": [""]}, "determinism.allow[0]"),
    ],
)
def test_a_wrong_option_is_refused_by_name(option: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Engine(determinism=option)
    assert caught.value.data["field"] == field
    assert field in str(caught.value)


async def test_observers_are_told_with_the_whole_path() -> None:
    told: list[tuple[str, int, str, str]] = []

    class Observer:
        wants_sites = False

        def engine_created(self, adapters: Any) -> None: ...

        def call_finished(self, record: Any) -> None: ...

        def run_settled(self, record: Any) -> None: ...

        def determinism_warning(self, file: str, line: int, code: str, message: str) -> None:
            told.append((file, line, code, message))

    async def body(ctx: Ctx, args: Any) -> None:
        time.time()

    observer = Observer()
    install_observer(observer)
    try:
        await warnings_of(body)
    finally:
        uninstall_observer(observer)
    assert [(file, code) for file, _, code, _ in told] == [(str(HERE), "RLV101")]


# -- leaving no trace --------------------------------------------------------------------


async def test_nothing_is_left_installed_when_the_engine_closes() -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        time.time()
        assert sys.getprofile() is not None or sys.version_info >= (3, 12)

    before = (time.time, random.random, uuid.uuid4, os.environ, datetime.datetime)
    await warnings_of(body)
    assert sys.getprofile() is None
    assert asyncio.get_running_loop().get_task_factory() is None
    if sys.version_info >= (3, 12):
        assert "rulvar" not in [sys.monitoring.get_tool(number) for number in range(6)]
    assert (time.time, random.random, uuid.uuid4, os.environ, datetime.datetime) == before


async def test_an_engine_that_is_never_closed_gives_its_instruments_back_when_it_is_collected() -> None:
    if sys.version_info < (3, 12):
        pytest.skip("nothing is installed outside a body there")

    async def body(ctx: Ctx, args: Any) -> None:
        time.time()

    engine = create_test_engine()
    await engine.run(define_workflow("w", body)).result()
    assert "rulvar" in [sys.monitoring.get_tool(number) for number in range(6)]
    del engine
    gc.collect()
    assert codes(await warnings_of(body)) == ["RLV101"]
    assert "rulvar" not in [sys.monitoring.get_tool(number) for number in range(6)]


async def test_another_profiler_is_left_alone_and_the_run_says_that_it_is_not_watched() -> None:
    if sys.version_info >= (3, 12):
        pytest.skip("profilers and the guard do not meet there")

    async def body(ctx: Ctx, args: Any) -> None:
        time.time()

    def profiler(frame: Any, event: str, arg: Any) -> None: ...

    async with create_test_engine() as engine:
        sys.setprofile(profiler)
        try:
            handle = engine.run(define_workflow("w", body))
            await handle.result()
            assert sys.getprofile() is profiler
        finally:
            sys.setprofile(None)
    seen = handle.events_seen()
    assert "determinism:warning" not in [event.type for event in seen]
    assert any("guard sees nothing" in event["msg"] for event in seen if event.type == "log")


async def test_a_run_that_is_cancelled_before_it_begins_warns_of_nothing() -> None:
    async def body(ctx: Ctx, args: Any) -> None:
        time.time()

    async with create_test_engine() as engine:
        handle = engine.run(define_workflow("w", body))
        await asyncio.sleep(0)
        await handle.cancel("enough")
        assert (await handle.result()).status in ("cancelled", "ok")


async def test_calls_of_a_watched_body_are_coroutines_as_always() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        time.time()
        refused = ctx.step("never", lambda: 1)
        with contextlib.suppress(ConfigError):
            await ctx.parallel([refused, "no task"])  # type: ignore[list-item]
        closed = ctx.step("closed", lambda: 1)
        assert asyncio.iscoroutine(closed)
        closed.close()
        task = asyncio.create_task(ctx.step("cancelled before it began", lambda: 1))  # type: ignore[arg-type]
        task.cancel()
        await asyncio.wait([task])
        task = asyncio.create_task(ctx.step("in a task", lambda: 2))  # type: ignore[arg-type]
        return [await asyncio.wait_for(ctx.step("in time", lambda: 1), 5), await task]

    outcome, found = await watched(body)
    assert outcome.value == [1, 2]
    assert codes(found) == ["RLV101"]


async def test_the_journal_is_the_same_with_and_without_the_guard(tmp_path: Path) -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        time.time()
        answers = await ctx.parallel([lambda: ctx.agent("a"), lambda: ctx.step("s", lambda: 1)])
        ctx.now()
        with contextlib.suppress(ValueError):
            await ctx.step("fails", lambda: int("x"))
        return answers

    shapes = []
    for mode in ("off", "warn"):
        async with create_test_engine(
            agents={"*": "x"}, determinism=mode, journal=JsonlFileStore(tmp_path / mode)
        ) as engine:
            await engine.run(define_workflow("w", body), run_id="r1").result()
        lines = [json.loads(line) for line in (tmp_path / mode / "r1.jsonl").read_text().splitlines()]
        shapes.append(
            [(e["kind"], e["status"], e["scope"], e["key"], e["ordinal"], e["spanId"]) for e in lines]
        )
    assert shapes[0] == shapes[1]


async def test_call_sites_and_tracebacks_are_those_of_the_workflow() -> None:
    async def body(ctx: Ctx, args: Any) -> Any:
        time.time()
        return await ctx.agent("not recorded")  # site

    async with create_test_engine() as engine:
        workflow = define_workflow("w", body)
        engine.store.append_now("r1", [])
        await engine.store.save_meta("r1", {"runId": "r1", "workflowName": "w", "segments": 1})
        outcome = await engine.resume("r1", workflow, dry_run=True).result()
    assert outcome.error is not None
    assert outcome.error.data is not None
    assert outcome.error.data["site"]["line"] == line_of("site")


class Prickly:
    """A lazy proxy that answers nobody outside its context."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("outside of the context")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("outside of the context")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("outside of the context")

    __hash__ = None  # type: ignore[assignment]


async def test_proxies_and_oddities_in_a_namespace_are_left_in_peace(project: Any) -> None:
    module = project(flow="import sys, time\nasync def body(ctx, args):\n    time.time()\n")
    module.flow.proxy = Prickly()
    module.flow.loop = [module.flow]
    module.flow.odd = type("Odd", (), {"__module__": None})
    module.flow.mapping = {"a": Prickly(), "b": module.flow.loop}
    sys.modules["odd module"] = 3  # type: ignore[assignment]
    module.flow.stranger = type("Stranger", (), {"__module__": "odd module"})
    try:
        assert codes(await warnings_of(module.flow.body)) == ["RLV101"]
    finally:
        del sys.modules["odd module"]


async def test_an_observer_that_fails_does_not_disturb_the_workflow() -> None:
    class Broken:
        wants_sites = False

        def engine_created(self, adapters: Any) -> None: ...

        def call_finished(self, record: Any) -> None: ...

        def run_settled(self, record: Any) -> None: ...

        def determinism_warning(self, file: str, line: int, code: str, message: str) -> None:
            raise RuntimeError("observer")

    async def body(ctx: Ctx, args: Any) -> int:
        time.time()
        return 1

    observer = Broken()
    install_observer(observer)
    try:
        outcome, found = await watched(body)
    finally:
        uninstall_observer(observer)
    assert (outcome.value, codes(found)) == (1, ["RLV101"])


class Modules:
    """Modules of a made-up project, by attribute."""

    def __init__(self) -> None:
        self.loaded: dict[str, ModuleType] = {}

    def __getattr__(self, name: str) -> ModuleType:
        return self.loaded[name]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Modules]]:
    """Writes modules and loads them; ``(folder, text)`` puts one elsewhere."""
    import textwrap

    names: list[str] = []

    def make(**texts: Any) -> Modules:
        modules = Modules()
        for name, item in texts.items():
            folder, text = item if isinstance(item, tuple) else (tmp_path, item)
            folder.mkdir(exist_ok=True)
            path = folder / f"{name}.py"
            path.write_text(textwrap.dedent(text))
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, name, module)
            names.append(name)
            spec.loader.exec_module(module)
            modules.loaded[name] = module
        return modules

    yield make

"""The pytest plugin, in real pytest processes."""

import json
import re
from pathlib import Path

import pytest
from pytest_project import WORKFLOW, Project

from rulvar.testing.cassette import read_cassette
from rulvar.testing.report import read_report, site_digest

REPLAYED = """
import pytest
from pathlib import Path
from rulvar import Engine
from rulvar.testing import FakeAdapter, replay
from flow import review

TAPE = Path(__file__).parent / "cassettes" / "review.jsonl"


def engine(adapters):
    return Engine(adapters=adapters, routing={"loop": "model:large"}, profiles={"reviewer": {}})


@pytest.mark.parametrize("file", ["a.py", "b.py"])
async def test_review(file):
    outcome = await engine(replay(cassette=TAPE)).run(review, {"file": file}).result()
    assert outcome.value == {"verdict": "looks good", "note": "noted"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_replayed_test_is_reported_call_by_call(project: Project) -> None:
    tape = project.record()
    test_file = project.write("test_review.py", REPLAYED)
    report = project.report("--rulvar-replay=strict")
    assert (report.v, report.mode, report.root) == (1, "strict", str(project.folder))
    assert [test.node_id for test in report.tests] == [f"test_review.py::test_review[{n}.py]" for n in "ab"]
    test = report.tests[0]
    assert (test.file, test.outcome, test.mode, test.message) == ("test_review.py", "passed", "strict", None)
    source = test_file.read_text("utf-8").splitlines()
    assert source[test.line - 1] == "async def test_review(file):"
    agent, step = test.calls
    assert (agent.kind, agent.served, agent.label, agent.agent_type) == (
        "agent",
        "hit",
        "verdict",
        "reviewer",
    )
    assert (agent.adapter, agent.model, agent.turn) == ("model", "large", 1)
    assert (agent.cassette, agent.row, agent.occurrence, agent.occurrences) == (
        "cassettes/review.jsonl",
        2,
        0,
        1,
    )
    assert agent.request_hash == read_cassette(tape).rows[0].request_hash
    assert agent.usage is not None
    assert agent.usage["outputTokens"] == 3
    assert step.kind == "step"
    lines = (project.folder / "flow.py").read_text("utf-8").splitlines()
    site = agent.site
    assert site is not None
    assert (site.file, site.line, site.function) == ("flow.py", 6, "review")
    assert lines[site.line - 1][site.column - 1 : site.end_column - 1].startswith("ctx.agent(")
    assert site.digest == site_digest(lines[site.line - 1 : site.end_line])
    [cassette] = test.cassettes
    assert (cassette.path, cassette.rows, cassette.served, cassette.unused) == (
        "cassettes/review.jsonl", 3, (2,), (3, 4),
    )  # fmt: skip


def test_a_miss_is_explained_in_the_failure_section_and_in_the_report(project: Project) -> None:
    project.record()
    project.write("test_review.py", REPLAYED)
    project.write("flow.py", WORKFLOW.replace("Review the diff", "Check the diff"))
    run = project.pytest("--rulvar-replay=strict", "--rulvar-report=report.json", "-k", "a.py")
    assert run.returncode == 1
    assert 'miss at flow.py:6: model call of agent "reviewer" to model:large' in run.stdout
    assert "messages[0].parts[0].text" in run.stdout
    assert "recorded: Review the diff of a.py" in run.stdout
    assert "1 model call: 1 miss" in run.stdout
    [test] = read_report(project.folder / "report.json").tests
    assert test.outcome == "failed"
    assert test.message is not None
    call = test.calls[0]
    assert call.served == "miss"
    assert call.nearest is not None
    assert (call.nearest.cassette, call.nearest.row) == ("cassettes/review.jsonl", 2)
    [difference] = call.nearest.differences
    assert difference.path == "messages[0].parts[0].text"
    assert call.message is not None
    assert "\n" not in call.message


STRICT = """
import _socket, asyncio, socket, urllib.request
from socket import getaddrinfo as imported_before
import pytest
from rulvar import Engine
from rulvar.errors import ConfigError
from rulvar.testing import FakeAdapter, record, replay, scripted_model


class Live:
    id = "live"
    def caps(self, model): raise AssertionError
    def stream(self, request, signal=None): raise AssertionError


class Own(Live):
    id = "own"


def test_fakes_scripts_replays_and_listed_adapters_are_admitted():
    Engine(adapters=[FakeAdapter(), scripted_model(["x"], id="s"), Own(), *replay(cassette="cassettes/review.jsonl")])


def test_live_adapters_are_refused():
    with pytest.raises(ConfigError, match=r"test_live_adapters_are_refused.*live.*fake"):
        Engine(adapters=[Live()])


class Counting(FakeAdapter):
    def caps(self, model):
        return super().caps(model)


class Disguised(FakeAdapter):
    def stream(self, request, signal=None):
        return super().stream(request, signal)


def test_a_fake_that_answers_in_a_way_of_its_own_is_refused():
    Engine(adapters=[Counting()])
    with pytest.raises(ConfigError, match=r"Disguised.*'stream' of FakeAdapter"):
        Engine(adapters=[Disguised()])
    fake = FakeAdapter()
    fake.stream = Live().stream
    with pytest.raises(ConfigError, match=r"'stream' of FakeAdapter"):
        Engine(adapters=[fake])


FAR = ("203.0.113.1", 9)


@pytest.mark.parametrize("leave", [
    lambda sock: sock.sendto(b"x", FAR),
    lambda sock: sock.sendto(b"x", 0, FAR),
    lambda sock: sock.sendmsg([b"x"], [], 0, FAR),
    lambda sock: sock.connect(FAR),
    lambda sock: sock.connect_ex(FAR),
    lambda sock: _socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(FAR),
    lambda sock: imported_before("example.invalid", 443),
    lambda sock: socket.gethostbyname("example.invalid"),
    lambda sock: socket.gethostbyname_ex("example.invalid"),
    lambda sock: socket.gethostbyaddr("203.0.113.1"),
    lambda sock: socket.getnameinfo(FAR, 0),
    lambda sock: socket.getfqdn("203.0.113.1"),
])
def test_there_is_no_other_way_out(leave):
    with socket.socket(type=socket.SOCK_DGRAM) as sock, pytest.raises(RuntimeError, match="blocked"):
        leave(sock)


def test_datagrams_stay_on_this_machine():
    with socket.socket(type=socket.SOCK_DGRAM) as here, socket.socket(type=socket.SOCK_DGRAM) as there:
        here.bind(("127.0.0.1", 0))
        there.sendmsg([b"x"], [], 0, here.getsockname())
        assert here.recv(1) == b"x"
        there.connect(here.getsockname())
        there.sendmsg([b"y"])
        assert here.recv(1) == b"y"


def test_recording_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="records"):
        Engine(adapters=record(adapters=[FakeAdapter()], cassette=tmp_path / "t.jsonl"))


def test_passthrough_is_refused():
    with pytest.raises(ConfigError, match="passthrough"):
        Engine(adapters=replay(cassette="cassettes/review.jsonl", on_miss="passthrough"))


def test_other_hosts_are_blocked():
    with socket.socket() as sock, pytest.raises(RuntimeError, match=r"test_other_hosts.*203.0.113.1:443 blocked"):
        sock.connect(("203.0.113.1", 443))
    with pytest.raises(RuntimeError, match="example.invalid:443 blocked"):
        socket.create_connection(("example.invalid", 443))
    with socket.socket(type=socket.SOCK_DGRAM) as sock, pytest.raises(RuntimeError, match="blocked"):
        sock.sendto(b"x", ("203.0.113.1", 53))
    with pytest.raises(RuntimeError, match="blocked"):
        urllib.request.urlopen("http://example.invalid/")


async def test_other_hosts_are_blocked_for_asyncio():
    assert socket.getfqdn() == socket.gethostname()
    for host in ("203.0.113.1", "example.invalid", "2001:db8::1"):
        with pytest.raises(RuntimeError, match="blocked"):
            await asyncio.open_connection(host, 443)


async def test_this_machine_is_not():
    async def answer(reader, writer):
        writer.write(b"hi")
        writer.close()

    for host in ("127.0.0.1", "localhost"):
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection(host, port)
        assert await reader.read() == b"hi"
        writer.close()
        server.close()
        await server.wait_closed()
    left, right = socket.socketpair()
    left.close(), right.close()
"""


def test_strict_replay_lets_no_live_call_happen(project: Project) -> None:
    project.record()
    project.write("test_strict.py", STRICT)
    run = project.pytest("--rulvar-replay=strict")
    assert run.returncode == 0, run.stdout
    assert "21 passed" in run.stdout


EARLY = """
import pathlib
from rulvar import Engine
from rulvar.testing import FakeAdapter


class Live:
    id = "live"
    def caps(self, model): return FakeAdapter({"*": "x"}).caps(model)
    def stream(self, request, signal=None):
        pathlib.Path(__file__).with_name("WENT-LIVE").touch()
        return FakeAdapter({"*": "live answer"}).stream(request, signal)


ENGINE = Engine(adapters=[Live()], routing={"loop": "live:m"})
"""
USES_EARLY = """
from rulvar import define_workflow
from MODULE import ENGINE


async def body(ctx, args): return await ctx.agent("q")


async def test_it():
    outcome = await ENGINE.run(define_workflow("w", body)).result()
    assert outcome.status == "ok", outcome.error
"""


def test_strict_replay_refuses_a_live_engine_of_a_conftest(project: Project) -> None:
    project.write("conftest.py", EARLY)
    project.write("test_early.py", USES_EARLY.replace("MODULE", "conftest"))
    run = project.pytest("--rulvar-replay=strict")
    assert run.returncode != 0
    assert 'strict replay: adapter "live"' in run.stdout + run.stderr
    assert not (project.folder / "WENT-LIVE").exists()


def test_strict_replay_silences_a_live_engine_that_was_made_before_it_began(project: Project) -> None:
    project.write("early.py", EARLY)
    project.write("test_early.py", USES_EARLY.replace("MODULE", "early"))
    run = project.pytest("-p", "early", "--rulvar-replay=strict", PYTHONPATH=str(project.folder))
    assert run.returncode == 1, run.stdout
    assert 'no live call is made here: adapter "live"' in run.stdout
    assert not (project.folder / "WENT-LIVE").exists()


def test_an_engine_that_was_made_before_the_session_began_is_in_the_report(project: Project) -> None:
    project.write("early.py", EARLY)
    project.write("test_early.py", USES_EARLY.replace("MODULE", "early"))
    run = project.pytest("-p", "early", "--rulvar-report=report.json", PYTHONPATH=str(project.folder))
    assert run.returncode == 0, run.stdout
    assert [
        call.served for test in read_report(project.folder / "report.json").tests for call in test.calls
    ] == ["fake"]


def test_strict_replay_and_recording_exclude_each_other(project: Project) -> None:
    run = project.pytest("--rulvar-replay=strict", "--rulvar-record=all")
    assert run.returncode == 4
    assert "never records" in run.stderr


FIXTURES = """
import pytest
from rulvar import Engine
from rulvar.testing import FakeAdapter
from flow import review


def live():
    return FakeAdapter({"*": "recorded"}, id="model")


async def run(adapters):
    engine = Engine(adapters=adapters, routing={"loop": "model:large"}, profiles={"reviewer": {}})
    return await engine.run(review, {"file": "x.py"}).result()


async def test_recorded(cassette):
    outcome = await run(cassette.adapters(live))
    assert outcome.value["verdict"] == "recorded", outcome.error


@pytest.mark.parametrize("value", ["a b", "c/d"])
class TestGroup:
    async def test_each(self, cassette, value):
        assert (await run(cassette.adapters(live))).status == "ok"


@pytest.mark.rulvar_cassette("shared/one")
async def test_named(cassette):
    assert (await run(cassette.adapters(live))).status == "ok"


@pytest.mark.rulvar_cassette(record_mode="none")
async def test_never(cassette):
    await run(cassette.adapters(live))
"""


def test_the_cassette_fixture_records_once_and_replays_from_then_on(project: Project) -> None:
    project.write("test_fix.py", FIXTURES)
    run = project.pytest()
    assert "4 passed" in run.stdout, run.stdout
    assert "record mode none makes no new one" in run.stdout
    folder = project.folder / "cassettes"
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert names[0] == "shared/one.jsonl"
    assert "test_fix/test_recorded.jsonl" in names
    assert len(names) == 4
    before = {name: (folder / name).read_bytes() for name in names}
    broken = FIXTURES.replace("return FakeAdapter", "raise AssertionError\n    return FakeAdapter")
    project.write("test_fix.py", broken)
    run = project.pytest(CI="true")
    assert "4 passed" in run.stdout, run.stdout
    assert {name: (folder / name).read_bytes() for name in names} == before
    assert "5 model calls" not in run.stdout
    assert "4 model calls: 4 hits" in run.stdout


TWO_ENGINES = """
import asyncio

from flow import review
from rulvar import Engine
from rulvar.testing import FakeAdapter


async def ask(adapters):
    async with Engine(adapters=adapters, routing={"loop": "model:m"}, profiles={"reviewer": {}}) as engine:
        return (await engine.run(review, {"file": "x.py"}).result()).value["verdict"]


def test_two_engines(cassette):
    live = FakeAdapter({"*": ["first", "second"]}, id="model")
    hide = lambda text: text.replace("second", "2nd")
    values = [asyncio.run(ask(cassette.adapters(live))), asyncio.run(ask(cassette.adapters(live, redact=hide)))]
    assert values in (["first", "second"], ["first", "2nd"])
"""


def test_two_engines_of_a_test_share_its_cassette(project: Project) -> None:
    project.write("test_two.py", TWO_ENGINES)
    for mode, found in [
        ("once", "2 live"),
        ("none", "2 hits"),
        ("new_episodes", "2 hits"),
        ("all", "2 live"),
    ]:
        run = project.pytest(f"--rulvar-record={mode}")
        assert f"2 model calls: {found}" in run.stdout, run.stdout
        tape = read_cassette(project.folder / "cassettes" / "test_two" / "test_two_engines.jsonl")
        assert [row.occurrence for row in tape.rows] == [0, 1]
        assert tape.rows[1].wire["events"][0]["text"] == "2nd"


ODD_IDS = """
import pytest


@pytest.mark.parametrize("n", range(8), ids=["a::b", "a.b", "x" * 3000, "y" * 3000, "a/b", "../a", "a b", "\u00fc"])
def test_odd(cassette, n):
    with open("paths.txt", "a") as file:
        file.write(str(cassette.path) + chr(10))
"""


def test_every_test_has_a_file_of_its_own_whatever_its_id(project: Project) -> None:
    project.write("test_odd.py", ODD_IDS)
    run = project.pytest()
    assert "8 passed" in run.stdout, run.stdout
    paths = [Path(line) for line in (project.folder / "paths.txt").read_text().splitlines()]
    assert len(set(paths)) == 8
    assert {path.parent for path in paths} == {project.folder / "cassettes" / "test_odd"}
    assert all(len(path.name) < 160 for path in paths)


def test_a_recording_that_has_no_place_is_kept_and_said_so(project: Project) -> None:
    project.write("test_two.py", TWO_ENGINES)
    (project.folder / "cassettes" / "test_two" / "test_two_engines.jsonl").mkdir(parents=True)
    run = project.pytest("--rulvar-record=all")
    assert "cannot put the recording in place: Is a directory; it is kept as " in run.stdout, run.stdout
    kept = project.folder / "cassettes" / "test_two" / "test_two_engines.jsonl.recording"
    assert len(read_cassette(kept).rows) == 2


RELATIVE = """
from pathlib import Path

from flow import review
from rulvar import Engine
from rulvar.testing import replay


async def test_relative(monkeypatch, tmp_path):
    monkeypatch.chdir(Path(__file__).parent.parent / "cassettes")
    adapters = replay(cassette="review.jsonl")
    monkeypatch.chdir(tmp_path)
    engine = Engine(adapters=adapters, routing={"loop": "model:large"}, profiles={"reviewer": {}})
    for file in ("a.py", "other.py"):
        await engine.run(review, {"file": file}).result()
"""


def test_a_report_knows_where_a_cassette_lies_whatever_the_working_directory(project: Project) -> None:
    project.record()
    project.write("deep/test_relative.py", RELATIVE)
    [test] = project.report().tests
    assert [cassette.path for cassette in test.cassettes] == ["cassettes/review.jsonl"]
    assert test.cassettes[0].served == (2,)
    hit, miss = [call for call in test.calls if call.kind == "agent"]
    assert (hit.served, hit.cassette, hit.row) == ("hit", "cassettes/review.jsonl", 2)
    assert miss.nearest.cassette == "cassettes/review.jsonl"


def test_a_cassette_dated_in_the_future_is_replayed_and_never_continued(project: Project) -> None:
    project.write("test_two.py", TWO_ENGINES)
    project.pytest()
    tape = project.folder / "cassettes" / "test_two" / "test_two_engines.jsonl"
    header, *rows = tape.read_bytes().splitlines(keepends=True)
    dated = json.dumps({**json.loads(header), "recordedAt": "2999-01-01T00:00:00.000Z"}).encode() + b"\n"
    tape.write_bytes(b"".join([dated, rows[0]]))
    run = project.pytest("--rulvar-record=once")
    assert "2 model calls: 1 hit, 1 exhausted" in run.stdout, run.stdout
    assert tape.read_bytes() == dated + rows[0]


def test_in_ci_nothing_is_recorded(project: Project) -> None:
    project.write("test_fix.py", FIXTURES)
    run = project.pytest(CI="1")
    assert "5 failed" in run.stdout
    assert "--rulvar-record=once" in run.stdout
    assert not (project.folder / "cassettes").exists()
    assert project.pytest("--rulvar-record=once", "-k", "recorded", CI="1").returncode == 0


def test_a_failed_test_leaves_no_cassette_but_keeps_what_was_paid(project: Project) -> None:
    project.write("test_fix.py", FIXTURES.replace('== "recorded"', '== "other"'))
    assert project.pytest("-k", "recorded").returncode == 1
    folder = project.folder / "cassettes" / "test_fix"
    assert [path.name for path in folder.iterdir()] == ["test_recorded.jsonl.failed"]
    assert len(read_cassette(folder / "test_recorded.jsonl.failed").rows) == 1


def test_new_episodes_adds_what_is_missing_and_all_starts_over(project: Project) -> None:
    project.write("test_fix.py", FIXTURES)
    tape = project.folder / "cassettes" / "test_fix" / "test_recorded.jsonl"
    assert project.pytest("-k", "recorded").returncode == 0
    project.write("test_fix.py", FIXTURES.replace("x.py", "y.py"))
    run = project.pytest("-k", "recorded")
    assert run.returncode == 1
    assert "nearest is line 2" in run.stdout
    assert len(read_cassette(tape).rows) == 1
    assert project.pytest("-k", "recorded", "--rulvar-record=new_episodes").returncode == 0
    assert len(read_cassette(tape).rows) == 2
    run = project.pytest("-k", "recorded", "--rulvar-unused=fail")
    assert run.returncode == 1
    assert "unused: cassettes/test_fix/test_recorded.jsonl line 2" in run.stdout
    assert project.pytest("-k", "recorded", "--rulvar-record=all").returncode == 0
    assert len(read_cassette(tape).rows) == 1
    assert project.pytest("-k", "recorded", "--rulvar-unused=fail").returncode == 0


def test_the_engine_fixture_builds_test_engines(project: Project) -> None:
    project.write(
        "test_engine.py",
        """
        from flow import review

        async def test_review(rulvar_engine):
            engine = rulvar_engine(agents={"reviewer": "pass"})
            outcome = await engine.run(review, {"file": "x"}).result()
            assert outcome.value["verdict"] == "pass"
            assert len(engine.fake.calls) == 1
        """,
    )
    [test] = project.report().tests
    assert test.outcome == "passed"
    assert [call.served for call in test.calls] == ["fake", "live"]
    assert test.calls[0].request_hash is not None


def test_outcomes_lines_and_messages_are_reported(project: Project) -> None:
    source = project.write(
        "test_outcomes.py",
        """
        import pytest

        @pytest.fixture
        def broken():
            raise RuntimeError("no sk-FAKEFAKEFAKE")

        @pytest.mark.skip
        def test_skipped(): ...

        @pytest.mark.parametrize(
            "value",
            [1],
        )
        def test_failed(value):
            assert value == 2

        def test_error(broken): ...

        class TestPlace:
            def test_passed(self): ...
        """,
    )
    report = project.report()
    lines = source.read_text("utf-8").splitlines()
    seen = {test.node_id.split("::", 1)[1]: test for test in report.tests}
    assert {name: test.outcome for name, test in seen.items()} == {
        "test_skipped": "skipped", "test_failed[1]": "failed", "test_error": "error", "TestPlace::test_passed": "passed",
    }  # fmt: skip
    for test in seen.values():
        assert f"def {test.node_id.split('::')[-1].split('[')[0]}(" in lines[test.line - 1]
    assert "assert 1 == 2" in (seen["test_failed[1]"].message or "")
    assert "FAKE" not in (seen["test_error"].message or "")
    assert report.mode == "default"


def test_a_strict_journal_replay_is_reported_with_its_divergence(project: Project) -> None:
    project.write(
        "test_journal.py",
        """
        from rulvar import workflow
        from rulvar.testing import create_test_engine, replay_run

        @workflow(name="one")
        async def one(ctx, args):
            return await ctx.agent("ask", label="first")

        @workflow(name="one")
        async def edited(ctx, args):
            return await ctx.agent("ask otherwise", label="first")

        async def test_replay():
            engine = create_test_engine(agents={"*": "x"})
            run = engine.run(one)
            await run.result()
            journal = await engine.store.load(run.run_id)
            assert (await replay_run(one, journal=journal)).outcome.value == "x"
            await replay_run(edited, journal=journal)
        """,
    )
    run = project.pytest("--rulvar-report=report.json")
    assert "diverged at test_journal.py:" in run.stdout
    [test] = read_report(project.folder / "report.json").tests
    good, bad = test.replays
    assert (good.hits, good.misses, good.divergence) == (1, 0, None)
    assert bad.divergence is not None
    assert bad.divergence.site is not None
    assert bad.divergence.site.file == "test_journal.py"
    assert bad.divergence.reason


def test_the_live_marker_needs_the_switch_and_the_keys(project: Project) -> None:
    project.write(
        "test_smoke.py",
        """
        import pytest

        @pytest.mark.live("SOME_KEY")
        def test_smoke(): ...
        """,
    )
    assert "1 skipped" in project.pytest(SOME_KEY="x").stdout
    assert "1 skipped" in project.pytest(RULVAR_LIVE_TESTS="1").stdout
    assert "1 passed" in project.pytest(RULVAR_LIVE_TESTS="1", SOME_KEY="x").stdout
    assert "1 skipped" in project.pytest("--rulvar-replay=strict", RULVAR_LIVE_TESTS="1", SOME_KEY="x").stdout


def test_a_run_that_asks_for_nothing_loads_nothing(project: Project) -> None:
    project.write(
        "test_plain.py",
        """
        import sys

        def test_plain():
            loaded = {name for name in sys.modules if name.partition(".")[0] in ("rulvar", "msgspec", "orjson")}
            assert loaded <= {"rulvar", "rulvar.lazy_names", "rulvar.testing", "rulvar.testing.pytest_names", "rulvar.testing.pytest_plugin"}
        """,
    )
    run = project.pytest(installed=True)
    assert "1 passed" in run.stdout, run.stdout
    assert "rulvar" not in run.stdout.replace(str(project.folder), "")


def test_a_report_that_cannot_be_written_is_said_to(project: Project) -> None:
    project.write("test_plain.py", "def test_plain(): ...")
    project.write("folder/file", "x")
    run = project.pytest("--rulvar-report=folder")
    assert run.returncode == 1
    assert "cannot write the report" in run.stdout


def test_a_report_is_plain_json(project: Project) -> None:
    project.write("test_plain.py", "def test_plain(): ...")
    project.pytest("--rulvar-report=report.json")
    wire = json.loads((project.folder / "report.json").read_text("utf-8"))
    assert set(wire) == {"v", "kind", "createdAt", "rulvar", "root", "mode", "tests"}
    assert set(wire["tests"][0]) == {
        "nodeId", "file", "line", "endLine", "digest", "outcome", "durationMs", "mode", "message", "cassettes", "calls", "replays", "warnings",
    }  # fmt: skip


def test_a_report_holds_the_extent_and_digest_of_each_test(project: Project) -> None:
    body = [
        "    def test_two(self, x):\n",
        "        text = 'a\\\n",
        "        b'\n",
        "\n",
        "        assert x  # last\n",
    ]
    head = [
        "import pytest\n",
        "def test_one(): ...\n",
        "class TestA:\n",
        "    @pytest.mark.parametrize('x', [1])\n",
    ]
    project.write("test_plain.py", "".join([*head, *body, "\n", "VALUE = 1\n"]))
    project.pytest("--rulvar-report=report.json")
    one, two = json.loads((project.folder / "report.json").read_text("utf-8"))["tests"]
    assert (one["line"], one["endLine"], one["digest"]) == (2, 2, site_digest(["def test_one(): ..."]))
    assert (two["line"], two["endLine"], two["digest"]) == (5, 9, site_digest(body))


def test_workers_report_to_their_controller(project: Project) -> None:
    pytest.importorskip("xdist")
    project.record()
    project.write("test_review.py", REPLAYED)
    project.write("test_fix.py", FIXTURES)
    run = project.pytest(
        "-p",
        "xdist.plugin",
        "-n2",
        "--rulvar-report=report.json",
        "--rulvar-record=once",
        "--rulvar-unused=fail",
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert "7 passed" in run.stdout, run.stdout
    assert "7 model calls: 2 hits, 5 live" in run.stdout
    assert "unused: cassettes/review.jsonl line 4" in run.stdout
    tests = read_report(project.folder / "report.json").tests
    assert len(tests) == 7
    assert {test.outcome for test in tests} == {"passed"}
    assert sum(len(test.calls) for test in tests) == 14


def test_workers_that_start_watching_by_themselves_are_merged_too(project: Project) -> None:
    pytest.importorskip("xdist")
    project.write("test_fix.py", FIXTURES)
    run = project.pytest("-p", "xdist.plugin", "-n2", "--rulvar-record=once")
    assert "5 model calls: 5 live" in run.stdout, run.stdout + run.stderr


def test_strict_replay_holds_in_workers(project: Project) -> None:
    pytest.importorskip("xdist")
    project.record()
    project.write("test_strict.py", STRICT)
    run = project.pytest("-p", "xdist.plugin", "-n2", "--rulvar-replay=strict")
    assert "21 passed" in run.stdout, run.stdout + run.stderr


def test_anyio_runs_the_tests_as_well(project: Project) -> None:
    pytest.importorskip("anyio")
    (project.folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n", "utf-8")
    project.write(
        "test_fix.py",
        """
        import pytest
        from rulvar.testing import FakeAdapter
        from rulvar import Engine
        from flow import review

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.mark.anyio
        async def test_recorded(cassette):
            adapters = cassette.adapters(FakeAdapter({"*": "x"}, id="model"))
            engine = Engine(adapters=adapters, routing={"loop": "model:large"}, profiles={"reviewer": {}})
            assert (await engine.run(review, {"file": "x"}).result()).status == "ok"
        """,
    )
    for line in ("1 model call: 1 live", "1 model call: 1 hit"):
        run = project.pytest("-p", "anyio.pytest_plugin", "-p", "no:asyncio")
        assert line in run.stdout, run.stdout + run.stderr


SHARED = """
import pytest
from rulvar import Engine, workflow
from rulvar.testing import FakeAdapter


@workflow(name="ask")
async def ask(ctx, args):
    return await ctx.agent(args["prompt"])


def live():
    return FakeAdapter({"*": lambda call: "re: " + call.prompt}, id="model")


@pytest.mark.rulvar_cassette("shared")
class TestShared:
    @pytest.mark.parametrize("prompt", ["one", "two", "one again", "one"])
    async def test_ask(self, cassette, prompt):
        async with Engine(adapters=cassette.adapters(live), routing={"loop": "model:m"}) as engine:
            outcome = await engine.run(ask, {"prompt": prompt}).result()
        assert outcome.value == "re: " + prompt
"""


@pytest.mark.parametrize("mode", ["once", "all"])
def test_tests_that_share_a_cassette_add_to_one_recording(project: Project, mode: str) -> None:
    project.write("test_shared.py", SHARED)
    for _ in range(2):  # a later run begins anew with all, and replays with once
        done = project.pytest(f"--rulvar-record={mode}")
        assert done.returncode == 0, done.stdout
        rows = read_cassette(project.folder / "cassettes" / "shared.jsonl").rows
        assert [row.request["messages"][0]["parts"][0]["text"] for row in rows] == ["one", "two", "one again"]
    done = project.pytest("--rulvar-replay=strict", "--rulvar-unused=fail")
    assert done.returncode == 0, done.stdout
    assert "4 hits" in done.stdout


RECORDING_SIDE_BY_SIDE = """
import asyncio
import os
import pytest
from pathlib import Path
from rulvar import Engine, workflow
from rulvar.testing import FakeAdapter


@workflow(name="ask")
async def ask(ctx, args):
    return await ctx.agent(args["prompt"])


@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.rulvar_cassette("shared", record_mode="all")
async def test_ask(cassette, name):
    here = Path(os.environ["MEET"])
    adapters = cassette.adapters(FakeAdapter({"*": "ok"}, id="model"))
    (here / name).touch()
    for _ in range(400):  # both are recording now, or one of them was refused
        if len(list(here.iterdir())) == 2:
            break
        await asyncio.sleep(0.05)
    async with Engine(adapters=adapters, routing={"loop": "model:m"}) as engine:
        assert (await engine.run(ask, {"prompt": name}).result()).status == "ok"
"""


def test_two_workers_do_not_record_one_cassette_at_a_time(project: Project, tmp_path: Path) -> None:
    project.write("test_side.py", RECORDING_SIDE_BY_SIDE)
    project.write(
        "conftest.py",
        """
        import os, pytest
        from pathlib import Path

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport(item, call):
            report = yield
            if call.when == "call" and report.failed:  # tell the other one not to wait
                Path(os.environ["MEET"], "refused").touch()
            return report
        """,
    )
    meet = tmp_path / "meet"
    meet.mkdir()
    done = project.pytest("-p", "xdist.plugin", "-n", "2", MEET=str(meet))
    assert "1 failed, 1 passed" in done.stdout
    assert "another recorder is active on this cassette" in done.stdout
    assert len(read_cassette(project.folder / "cassettes" / "shared.jsonl").rows) == 1
    left = sorted(path.name for path in (project.folder / "cassettes").iterdir())
    assert left == ["shared.jsonl"]


def test_a_run_that_failed_is_told_with_the_line_that_raised(project: Project) -> None:
    project.write(
        "test_broken.py",
        """
from rulvar import workflow
from rulvar.testing import create_test_engine


@workflow
async def broken(ctx, args):
    return {}["missing"]


async def test_it():
    assert (await create_test_engine(agents={}).run(broken, run_id="r1").result()).status == "ok"
""",
    )
    run = project.pytest("--rulvar-report=report.json")
    told = r"run r1 of 'broken' ended error: error: 'missing'; raised by KeyError at test_broken\.py:\d+ in broken"
    assert re.search(told, run.stdout)

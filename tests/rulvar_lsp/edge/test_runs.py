"""Running replay-strict from the editor: allowed only when trusted, shown, cancelled, survived."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., Any]


def run(client: Any, uri: str, test: str | None = None) -> int:
    """Ask for a run and return the request's id."""
    return client.start(
        "workspace/executeCommand",
        {"command": "rulvar.replayStrict", "arguments": [{"uri": uri, "test": test}]},
    )


@pytest.fixture
def ready(lsp: Start, project: Any) -> Callable[..., Any]:
    """Start a trusted server on a project whose tests can run."""

    def start(*calls: dict[str, Any], **settings: Any) -> Any:
        project.plug(*calls)
        client = lsp(project.root)
        client.settings = {"interpreter": sys.executable, **settings}
        client.initialize(trusted=True)
        client.wait("workspace/configuration")
        client.settle(0.1)
        return client

    return start


def test_a_run_is_refused_unless_the_workspace_is_trusted(lsp: Start, project: Any) -> None:
    project.plug()
    client = lsp(project.root)
    client.settings = {"trusted": True, "interpreter": sys.executable}  # not a setting
    client.initialize()
    uri = client.open("test_flow.py")
    error = client.answer(run(client, uri, "test_replay"))["error"]
    assert "not trusted" in error["message"]
    assert "not trusted" in client.wait("window/showMessage")["message"]
    assert not (project.root / ".rulvar_cache").exists()


def test_trust_that_is_granted_later_counts(lsp: Start, project: Any) -> None:
    project.plug()
    client = lsp(project.root)
    client.settings = {"interpreter": sys.executable}
    client.initialize(trusted=False)
    uri = client.open("test_flow.py")
    assert "error" in client.answer(run(client, uri, "test_replay"))
    client.notify("rulvar/trust", {"trusted": True})
    assert client.answer(run(client, uri, "test_replay"), 30)["result"]["ok"] is True


def test_a_run_shows_progress_and_its_result_in_hints_lenses_and_message(ready: Any, project: Any) -> None:
    client = ready(project.call("hit", project.site(9)), project.call("miss", project.site(10, 13)))
    flow, uri = client.open("flow.py"), client.open("test_flow.py")
    assert client.hints(flow) == []
    result = client.answer(run(client, uri, "test_replay"), 30)["result"]
    assert (result["ok"], result["status"], result["summary"]) == (True, "passed", "1 hit, 1 miss")
    assert [(t["name"], t["outcome"]) for t in result["tests"]] == [("test_replay", "passed")]
    kinds = [p["value"]["kind"] for p in client.messages("$/progress")]
    assert (kinds[0], kinds[-1]) == ("begin", "end")
    assert [h["label"] for h in client.hints(flow)] == ["hit 3f9ac2 #0", "miss 81b0d4"]
    lenses = client.request("textDocument/codeLens", client.doc(uri))
    assert "passed: 1 hit, 1 miss" in [lens["command"]["title"] for lens in lenses]
    client.wait("workspace/inlayHint/refresh")
    client.wait("workspace/codeLens/refresh")
    said = client.wait("window/showMessage")["message"]
    assert said == "replay-strict test_replay: passed (1 hit, 1 miss)"
    assert (project.root / ".rulvar_cache/.gitignore").read_text() == "*\n"


def test_only_the_asked_test_runs_and_a_method_is_found(ready: Any, project: Any) -> None:
    client = ready()
    uri = client.open("test_flow.py")
    result = client.answer(run(client, uri, "TestDraft::test_short"), 30)["result"]
    assert [t["name"] for t in result["tests"]] == ["TestDraft::test_short"]
    whole = client.answer(run(client, uri), 30)["result"]
    assert [t["name"] for t in whole["tests"]] == ["test_replay", "TestDraft::test_short"]


def test_a_whole_folder_can_be_run(ready: Any, project: Any) -> None:
    project.write("more/test_more.py", "def test_more():\n    pass\n")
    client = ready()
    client.open("test_flow.py")
    result = client.answer(run(client, project.root.as_uri()), 30)["result"]
    assert (result["status"], [t["name"] for t in result["tests"]]) == (
        "passed",
        ["test_more", "test_replay", "TestDraft::test_short"],
    )


def test_a_workflow_tells_of_its_tests_and_runs_them(ready: Any, project: Any) -> None:
    client = ready(project.call("hit", project.site(9)))
    uri, tests = client.open("flow.py"), client.open("test_flow.py")
    client.answer(run(client, tests), 30)
    (lens,) = client.request("textDocument/codeLens", client.doc(uri))
    assert lens["command"]["title"] == "2 hits in 2 tests"
    assert lens["range"]["start"]["line"] in (5, 6)
    command = {"command": lens["command"]["command"], "arguments": lens["command"]["arguments"]}
    again = client.answer(client.start("workspace/executeCommand", command), 30)["result"]
    assert [t["name"] for t in again["tests"]] == ["test_replay", "TestDraft::test_short"]
    client.change(uri, 2, (8, 60, 8, 60, " "))
    client.diagnostics(uri, 2)
    (lens,) = client.request("textDocument/codeLens", client.doc(uri))
    assert lens["command"]["title"] == "stale: 2 hits in 2 tests"


def test_a_failing_test_is_a_diagnostic_on_its_name(ready: Any, project: Any) -> None:
    project.write("test_flow.py", "def test_replay():\n    assert 1 == 2\n")
    client = ready()
    uri = client.open("test_flow.py")
    client.diagnostics(uri)
    result = client.answer(run(client, uri, "test_replay"), 30)["result"]
    assert (result["ok"], result["status"]) == (False, "failed")
    client.wait(
        "textDocument/publishDiagnostics",
        lambda p: any(d["code"] == "replay-failed" for d in p["diagnostics"]),
    )


def test_a_cancelled_run_is_over_at_once_with_all_that_it_started(ready: Any, project: Any) -> None:
    project.write(
        "test_flow.py",
        "import subprocess, sys, time\n\n\ndef test_replay():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "    open('child', 'w').write(str(child.pid))\n"
        "    time.sleep(60)\n",
    )
    client = ready()
    uri = client.open("test_flow.py")
    asked = run(client, uri, "test_replay")
    begun = client.wait("$/progress", lambda p: p["value"]["kind"] == "begin")
    child = _wait_for(project.root / "child")
    started = time.monotonic()
    client.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
    result = client.answer(asked)["result"]
    assert result["status"] == "cancelled"
    assert time.monotonic() - started < 4
    assert _is_gone(int(child))
    assert client.wait("$/progress", lambda p: p["value"]["kind"] == "end")
    # the server is alive and right
    assert client.request("textDocument/codeLens", client.doc(uri))


@pytest.mark.parametrize("seconds", [300, 1])
def test_an_interpreter_that_hangs_is_stopped_as_a_test_is(ready: Any, project: Any, seconds: int) -> None:
    """The warm runner waits for it long before there is a test."""
    hanging = project.write("hanging", "#!/bin/sh\necho $$ > pid\nexec sleep 60\n")
    hanging.chmod(0o755)
    client = ready(interpreter=str(hanging), runTimeoutSeconds=seconds)
    asked = run(client, client.open("test_flow.py"), "test_replay")
    begun = client.wait("$/progress", lambda p: p["value"]["kind"] == "begin")
    child = _wait_for(project.root / "pid")
    if seconds == 300:
        client.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
    result = client.answer(asked)["result"]
    assert result["status"] == ("cancelled" if seconds == 300 else "timeout")
    client.settle(0.2)
    assert _is_gone(int(child))
    assert client.request("rulvar/held")["bars"] == 0


def test_cancelling_the_request_ends_the_run(ready: Any, project: Any) -> None:
    project.write(
        "test_flow.py",
        "import os, time\n\n\ndef test_replay():\n"
        "    open('child', 'w').write(str(os.getpid()))\n    time.sleep(60)\n",
    )
    client = ready()
    uri = client.open("test_flow.py")
    asked = run(client, uri, "test_replay")
    child = _wait_for(project.root / "child")
    client.notify("$/cancelRequest", {"id": asked})
    assert client.answer(asked)["error"]["code"] == -32800
    assert _is_gone(int(child))
    assert client.wait("$/progress", lambda p: p["value"]["kind"] == "end")


def test_a_hanging_test_is_stopped_after_the_time_limit(ready: Any, project: Any) -> None:
    project.write("test_flow.py", "import time\n\n\ndef test_replay():\n    time.sleep(60)\n")
    client = ready(runTimeoutSeconds=2)
    uri = client.open("test_flow.py")
    result = client.answer(run(client, uri, "test_replay"), 20)["result"]
    assert result["status"] == "timeout"
    assert "rulvar.runTimeoutSeconds" in result["summary"]


def test_a_daemon_that_keeps_the_output_open_does_not_keep_the_run_open(ready: Any, project: Any) -> None:
    project.write(
        "test_flow.py",
        "import subprocess\n\n\ndef test_replay():\n    subprocess.Popen(['sleep', '60'])\n",
    )
    client = ready()
    uri = client.open("test_flow.py")
    started = time.monotonic()
    assert client.answer(run(client, uri, "test_replay"), 20)["result"]["status"] == "passed"
    assert time.monotonic() - started < 15


def test_a_test_that_crashes_or_asks_for_input_takes_nothing_down(ready: Any, project: Any) -> None:
    project.write(
        "test_flow.py",
        "import os, signal\n\n\ndef test_crash():\n    os.kill(os.getpid(), signal.SIGSEGV)\n\n\n"
        "def test_input():\n    assert input() == ''\n",
    )
    client = ready(pytestArgs=["-s"])
    uri = client.open("test_flow.py")
    crash = client.answer(run(client, uri, "test_crash"), 20)["result"]
    assert (crash["status"], "SIGSEGV" in crash["summary"]) == ("error", True)
    assert client.answer(run(client, uri, "test_input"), 20)["result"]["status"] == "failed"


def test_a_second_run_of_the_same_test_does_not_start(ready: Any, project: Any) -> None:
    project.write("test_flow.py", "import time\n\n\ndef test_replay():\n    time.sleep(1)\n")
    client = ready()
    uri = client.open("test_flow.py")
    first, second = run(client, uri, "test_replay"), run(client, uri, "test_replay")
    assert client.answer(second)["result"]["status"] == "running"
    assert client.answer(first, 20)["result"]["ok"] is True


@pytest.mark.parametrize("name", ["--collect-only", "x y", "a/b", "", "test;rm", "-p"])
def test_only_the_name_of_a_test_can_be_run(ready: Any, project: Any, name: str) -> None:
    client = ready()
    uri = client.open("test_flow.py")
    assert "is not the name of a test" in client.answer(run(client, uri, name))["error"]["message"]


def test_a_file_that_does_not_exist_is_refused(ready: Any, project: Any) -> None:
    client = ready()
    error = client.answer(run(client, client.uri("test_none.py"), "test_x"))["error"]
    assert "no such file" in error["message"]


def test_an_interpreter_without_rulvar_is_named(ready: Any, project: Any) -> None:
    client = ready()
    (project.root / "conftest.py").unlink()
    uri = client.open("test_flow.py")
    result = client.answer(run(client, uri, "test_replay"), 20)["result"]
    assert result["status"] == "error"
    assert result["summary"].startswith("rulvar is not installed for ")


def test_an_interpreter_that_cannot_be_started_is_named(ready: Any, project: Any) -> None:
    client = ready(interpreter="/no/such/python")
    uri = client.open("test_flow.py")
    result = client.answer(run(client, uri, "test_replay"), 20)["result"]
    assert "/no/such/python cannot be started" in result["summary"]


@pytest.mark.parametrize("warm", [True, False])
def test_an_interpreter_without_pytest_is_named(ready: Any, project: Any, tmp_path: Path, warm: bool) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    client = ready(interpreter=python, warmRunner=warm)
    result = client.answer(run(client, client.open("test_flow.py"), "test_replay"), 20)["result"]
    assert (result["status"], result["summary"]) == (
        "error",
        f"pytest is not installed for {python}; install it or set rulvar.interpreter",
    )


HANGING = (
    "import os, time\n\n\ndef test_replay():\n"
    "    open('child', 'w').write(str(os.getpid()))\n    time.sleep(60)\n"
)


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_server_that_is_told_to_end_takes_its_children_along(
    ready: Any, project: Any, warm: bool, number: signal.Signals, status: int
) -> None:
    project.write("test_flow.py", HANGING)
    client = ready(warmRunner=warm)
    run(client, client.open("test_flow.py"), "test_replay")
    child = _wait_for(project.root / "child")
    client.process.send_signal(number)
    assert client.process.wait(30) == status
    assert _is_gone(int(child))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
def test_a_test_ends_with_a_server_that_was_killed(ready: Any, project: Any) -> None:
    project.write("test_flow.py", HANGING)
    client = ready()
    run(client, client.open("test_flow.py"), "test_replay")
    child = _wait_for(project.root / "child")
    client.process.kill()
    assert _is_gone(int(child))


def test_children_are_gone_when_the_server_is(ready: Any, project: Any) -> None:
    project.write("test_flow.py", HANGING)
    client = ready()
    uri = client.open("test_flow.py")
    run(client, uri, "test_replay")
    child = _wait_for(project.root / "child")
    client.process.stdin.close()
    client.process.wait(30)
    assert _is_gone(int(child))


def test_saving_runs_tests_only_where_that_is_switched_on(ready: Any, project: Any) -> None:
    client = ready()
    uri = client.open("test_flow.py")
    client.notify("textDocument/didSave", client.doc(uri))
    client.settle(0.5)
    assert client.messages("$/progress") == []
    client.settings = {"interpreter": sys.executable, "runOnSave": True}
    client.notify("workspace/didChangeConfiguration", {"settings": None})
    client.settle(0.3)
    client.notify("textDocument/didSave", client.doc(uri))
    assert "passed" in client.wait("window/showMessage")["message"]


def _wait_for(path: Path) -> str:
    end = time.monotonic() + 15
    while time.monotonic() < end:
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


def _is_gone(pid: int) -> bool:
    end = time.monotonic() + 3
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False

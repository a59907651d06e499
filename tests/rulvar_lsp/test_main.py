"""The command line of the server."""

from __future__ import annotations

import socket
import subprocess
import sys
from importlib import metadata

import pytest

import rulvar_lsp
from rulvar_lsp.edge.transport import MessageReader


def run(*args: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command, after some code in its process."""
    source = f"import sys\n{code}\nfrom rulvar_lsp.__main__ import main\nsys.exit(main({list(args)!r}))"
    return subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30
    )


def test_the_version_is_that_of_the_distribution() -> None:
    assert rulvar_lsp.__version__ == metadata.version("rulvar")
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"rulvar-lsp {rulvar_lsp.__version__}\n")


def test_without_its_extra_it_says_so_in_one_line_and_exits_2() -> None:
    hide = (
        "import importlib.util as u\nold = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'pygls' else old(name, *a)"
    )
    done = run("--stdio", code=hide)
    assert done.returncode == 2
    assert done.stderr == "rulvar-lsp needs an extra: pip install 'rulvar[lsp]'\n"
    assert done.stdout == ""


def test_check_says_what_was_found() -> None:
    done = run("--check")
    assert done.returncode == 0
    assert "pygls" in done.stdout and "tests of this folder would run with" in done.stdout
    assert done.stdout.endswith("ready\n")


def test_an_unknown_option_is_a_usage_error() -> None:
    done = run("--colour")
    assert (done.returncode, "--colour" in done.stderr) == (2, True)


def test_the_end_of_input_at_once_ends_it() -> None:
    assert run("--stdio").returncode == 1


@pytest.mark.parametrize("address", ["0.0.0.0:4000", "example.org:4000", "127.0.0.1", "127.0.0.1:x", "4000"])
def test_only_this_machine_may_connect(address: str) -> None:
    done = run("--tcp", address)
    assert (done.returncode, "other machines may not connect" in done.stderr) == (2, True)


def test_one_client_is_served_over_tcp() -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "rulvar_lsp", "--tcp", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    try:
        port = int(server.stderr.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}'
            client.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            answer = MessageReader(client.makefile("rb")).next()
            assert isinstance(answer, dict)
            assert answer["result"]["serverInfo"]["name"] == "rulvar-lsp"
        assert server.wait(10) == 1  # it went without a shutdown
    finally:
        server.kill()
        server.wait()
        server.stderr.close()

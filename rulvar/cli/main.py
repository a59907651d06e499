"""The console script ``rulvar``: finds the verb, runs it, and turns what goes wrong into one line.

Nothing but the verb's own module is loaded, so that a look at a run costs little more than Python's
own start.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING

from rulvar.cli.exits import BROKEN_PIPE, FAILED, INTERRUPTED, OK, USAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rulvar.cli.terminal import Terminal

__all__ = ["main"]

TRACEBACK = "RULVAR_TRACEBACK"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 ok, 1 failed, 2 usage, 3 waiting for an answer."""
    words = [_as_typed(word) for word in (sys.argv[1:] if arguments is None else arguments)]
    _open_closed_streams()
    try:
        if words[:1] in (["--version"], ["-V"]):
            from rulvar.cli.version import installed_version

            print(f"rulvar {installed_version()}")
            code = OK
        else:
            code = _dispatch(words)
        sys.stdout.flush()
        if code == INTERRUPTED and arguments is None:
            _leave_threads_behind()
        return code
    except KeyboardInterrupt:  # before there was a command that could say so
        print("rulvar: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read has seen enough; nothing more can be said, not even while Python ends
        _discard(1)
        return BROKEN_PIPE
    except OSError as error:
        _discard(1)
        with contextlib.suppress(OSError, ValueError):
            print(f"rulvar: error: stdout: {error.strerror or error}", file=sys.stderr, flush=True)
        return USAGE


def _as_typed(word: str) -> str:
    """Return an argument whose bytes are UTF-8 as text, also where the locale cannot tell."""
    try:
        word.encode("utf-8")
        return word
    except UnicodeEncodeError:
        with contextlib.suppress(UnicodeError):
            return os.fsencode(word).decode("utf-8")
        return word  # a file's name may be any bytes


def _open_closed_streams() -> None:
    """Put something in the place of standard streams that are closed.

    A file that is opened later would get their number otherwise, and be written to as if it were the
    stream. What stands for a closed stdout refuses to be written.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            kind = os.O_WRONLY if number == 2 else os.O_RDONLY
            opened = os.open(os.devnull, kind)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def _leave_threads_behind() -> None:
    """End the process where threads of steps and tools are at work: Python would wait for them, whatever they wait for."""
    if any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate()):
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(INTERRUPTED)


def _discard(number: int) -> None:
    """Let what is left to be written to a stream go nowhere."""
    with contextlib.suppress(OSError):
        opened = os.open(os.devnull, os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)


def _dispatch(words: list[str]) -> int:
    from rulvar.cli.terminal import OutputLostError, Terminal
    from rulvar.cli.verbs import find_verb, is_help, show_help

    terminal = Terminal(json_output="--json" in words)
    try:
        if is_help(words):
            return show_help(terminal, words)
        verb, rest = find_verb(words)
        return verb.run(rest, terminal)
    except KeyboardInterrupt:
        terminal.say("rulvar: interrupted")
        return INTERRUPTED
    except (BrokenPipeError, OutputLostError):
        raise
    except SystemExit as left:
        return _tell_exit(left, terminal)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        return _complain(error, terminal)


def _tell_exit(left: SystemExit, terminal: Terminal) -> int:
    """Say that a workflow ended the process: its exit code would be taken for one of this command's."""
    trace = left.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    message = (
        f"the workflow's code ended the process{where} (SystemExit: {left}); raise an exception there instead"
    )
    terminal.say("rulvar: ", ("error: ", "red"), message)
    if terminal.json_output:
        terminal.document({"error": {"code": "exited", "message": message}})
    return FAILED


def _complain(error: Exception, terminal: Terminal) -> int:
    """Say in one line what is wrong."""
    from rulvar.errors import RulvarError

    if isinstance(error, RulvarError):
        wire = error.to_wire()
    elif isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        wire = {"code": "os", "message": f"{where}{error.strerror}"}
    else:
        message = f"internal error: {type(error).__name__}: {error}; set {TRACEBACK}=1 to see where"
        wire = {"code": "internal", "message": message}
    terminal.say("rulvar: ", ("error: ", "red"), wire["message"])
    if terminal.json_output:
        terminal.document({"error": wire})
    return USAGE


if __name__ == "__main__":
    sys.exit(main())

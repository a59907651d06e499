"""The console script ``rulvar``: finds the verb, runs it, and turns what goes wrong into one line.

Nothing but the verb's own module is loaded, so that a look at a run costs little more than Python's
own start.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from rulvar.cli.exits import BROKEN_PIPE, INTERRUPTED, OK, USAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rulvar.cli.terminal import Terminal

__all__ = ["main"]

TRACEBACK = "RULVAR_TRACEBACK"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 ok, 1 failed, 2 usage, 3 waiting for an answer."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] in (["--version"], ["-V"]):
            from rulvar.cli.version import installed_version

            print(f"rulvar {installed_version()}")
            code = OK
        else:
            code = _dispatch(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # whoever read has seen enough; nothing more can be said, not even while Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE


def _dispatch(words: list[str]) -> int:
    from rulvar.cli.terminal import Terminal
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
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        return _complain(error, terminal)


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
    if terminal.json_output:
        terminal.document({"error": wire})
    terminal.say("rulvar: ", ("error: ", "red"), wire["message"])
    return USAGE


if __name__ == "__main__":
    sys.exit(main())

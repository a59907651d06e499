"""`rulvar-lint`: the command line."""

from __future__ import annotations

import gc
import sys


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Returns the exit code: 0 clean, 1 findings, 2 wrong use or an internal
    error.

    Without `argv` this is the whole program, whose memory nobody needs to tidy up.
    """
    if argv is not None:
        return _run(argv)
    gc.disable()
    try:
        return _run(sys.argv[1:])
    finally:
        gc.freeze()


def _run(args: list[str]) -> int:
    from importlib.machinery import PathFinder

    if PathFinder.find_spec("libcst") is None:
        sys.stderr.write("rulvar-lint needs an extra that is not installed: pip install 'rulvar[lint]'\n")
        return 2
    if args in (["--version"], ["-V"]):
        from rulvar_lint import __version__

        sys.stdout.write(f"rulvar-lint {__version__}\n")
        return 0
    from rulvar_lint import warm

    code = warm.replay(args)
    if code is not None:
        return code
    from rulvar_lint.cli.main import run

    return run(args)

"""`rulvar-lint`: the command line."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run the command line. Returns the exit code: 0 clean, 1 findings, 2 wrong use or an internal
    error.
    """
    args = sys.argv[1:] if argv is None else argv
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

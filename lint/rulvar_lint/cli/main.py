"""Commands, and what their errors look like."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from rulvar_lint.cli.options import UsageError, parse
from rulvar_lint.config import ConfigError

if TYPE_CHECKING:
    pass

ERROR: Final = 2


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        return _run(argv)
    except (UsageError, ConfigError) as err:
        sys.stderr.write(f"rulvar-lint: {err}\n")
        return ERROR
    except BrokenPipeError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        return ERROR
    except KeyboardInterrupt:
        return 130
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else ERROR
    except Exception as err:
        if os.environ.get("RULVAR_LINT_DEBUG"):
            raise
        notes = "".join(f" ({note})" for note in getattr(err, "__notes__", ()))
        where = f"{type(err).__name__}: {err}{notes}"
        sys.stderr.write(f"rulvar-lint: internal error: {where}\nSet RULVAR_LINT_DEBUG=1 to see where.\n")
        return ERROR


def _run(argv: list[str]) -> int:
    args = parse(argv)
    if args.command == "check":
        args.argv = argv
        if args.version:
            from rulvar_lint import __version__

            sys.stdout.write(f"rulvar-lint {__version__}\n")
            return 0
        from rulvar_lint.cli.check import check

        return check(args)
    if args.command == "rule":
        from rulvar_lint.cli.describe import rule

        return rule(args)
    if args.command == "explain":
        from rulvar_lint.cli.describe import explain

        return explain(args)
    from rulvar_lint.cli.identity_diff import identity_diff

    return identity_diff(args)

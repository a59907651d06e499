"""`rulvar-lsp`: the language server's command line."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import sys
from collections.abc import Sequence
from importlib import metadata

MISSING_EXTRA = 2


def _version() -> str:
    try:
        return metadata.version("rulvar")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rulvar-lsp", description="Language server for replay-stable workflows."
    )
    parser.add_argument("--stdio", action="store_true", help="talk over standard streams (default)")
    parser.add_argument("--version", action="version", version=f"rulvar-lsp {_version()}")
    parser.add_argument("--check", action="store_true", help="say what was found, and leave")
    parser.add_argument(
        "--log-level",
        choices=("error", "warning", "info", "debug"),
        default="warning",
        help="what goes to standard error (default: warning)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server; return the exit code."""
    args = _parser().parse_args(argv)
    if args.check:
        from rulvar_lsp.edge.check import print_check

        return print_check(_version())
    if importlib.util.find_spec("pygls") is None:
        print("rulvar-lsp needs an extra: pip install 'rulvar[lsp]'", file=sys.stderr)
        return MISSING_EXTRA
    from rulvar_lsp.edge.transport import claim_stdout

    stdout = claim_stdout()
    logging.basicConfig(
        stream=sys.stderr,
        level=args.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    from rulvar_lsp.edge.server import leave_now, run_stdio

    code = 1
    try:
        code = run_stdio(_version(), stdout)
    except KeyboardInterrupt:
        code = 130
    except Exception:
        logging.getLogger("rulvar_lsp").exception("the server cannot go on")
    leave_now(code)
    return code


if __name__ == "__main__":
    sys.exit(main())

"""`rulvar-lsp`: the language server's command line."""

from __future__ import annotations

import gc
import importlib.util
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rulvar_lsp import __version__

if TYPE_CHECKING:
    import argparse

MISSING_EXTRA = 2
USAGE = 2


def _parser() -> argparse.ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(
        prog="rulvar-lsp", description="Language server for replay-stable workflows."
    )
    parser.add_argument("--stdio", action="store_true", help="talk over standard streams (default)")
    parser.add_argument("--tcp", metavar="127.0.0.1:PORT", help="wait for one client of this machine instead")
    parser.add_argument("--version", action="version", version=f"rulvar-lsp {__version__}")
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
    given = sys.argv[1:] if argv is None else list(argv)
    level, address = "warning", None
    if given and given != ["--stdio"]:  # how editors start it: without the parser's import
        args = _parser().parse_args(given)
        level, address = args.log_level, args.tcp
        if args.check:
            from rulvar_lsp.edge.check import print_check

            return print_check(__version__)
    if importlib.util.find_spec("pygls") is None:
        print("rulvar-lsp needs an extra: pip install 'rulvar[lsp]'", file=sys.stderr)
        return MISSING_EXTRA
    gc.disable()  # start-up makes a great many things and drops none; `serve` switches it on again
    from rulvar_lsp.edge.logs import BackgroundLog
    from rulvar_lsp.edge.transport import accept_client, claim_stdout

    reader, writer = sys.stdin.buffer, claim_stdout()
    if address is not None:
        try:
            reader, writer = accept_client(address)
        except (ValueError, OSError) as error:
            print(f"rulvar-lsp: --tcp: {error}", file=sys.stderr)
            return USAGE
    logging.basicConfig(
        handlers=[BackgroundLog(sys.stderr)],
        level=level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.captureWarnings(True)
    from rulvar_lsp.edge.server import leave_now, run

    code = 1
    try:
        code = run(__version__, reader, writer)
    except KeyboardInterrupt:
        code = 130
    except Exception:
        logging.getLogger("rulvar_lsp").exception("the server cannot go on")
    leave_now(code)
    return code


if __name__ == "__main__":
    sys.exit(main())

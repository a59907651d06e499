"""`python -m rulvar_lint.rules.pages docs/rules` writes the documentation of the rules."""

from __future__ import annotations

import sys
from pathlib import Path

from rulvar_lint.rules.pages import FAMILIES
from rulvar_lint.rules.pages.render import write_pages


def main() -> int:
    """Write the pages into the folder that is named on the command line.

    Returns:
        0, or 2 if there is no such folder.
    """
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("usage: python -m rulvar_lint.rules.pages FOLDER", file=sys.stderr)
        return 2
    write_pages(sys.argv[1], FAMILIES)
    return 0


if __name__ == "__main__":
    sys.exit(main())

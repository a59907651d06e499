"""`python -m rulvar`: the console script ``rulvar``."""

from __future__ import annotations

import sys

from rulvar.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

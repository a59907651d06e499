"""`rulvar-lsp --check`: what is installed and what a run of tests would use."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

from rulvar_lsp.edge.runner import find_interpreter

_NEEDED = ("pygls", "lsprotocol", "libcst", "msgspec")


def print_check(version: str) -> int:
    """Print versions and findings; 0 when the server could start, 2 when something is missing."""
    print(f"rulvar-lsp {version}, Python {platform.python_version()} at {sys.executable}")
    missing = []
    for name in _NEEDED:
        try:
            print(f"  {name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
            print(f"  {name} missing")
    interpreter = find_interpreter(os.getcwd(), "", os.environ)
    print(f"  tests of this folder would run with {interpreter or 'no interpreter: none found'}")
    if missing:
        print("rulvar-lsp needs an extra: pip install 'rulvar[lsp]'")
        return 2
    print("  ready")
    return 0

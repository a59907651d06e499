"""The installed version, found without loading the machinery that reads package metadata."""

from __future__ import annotations

import os
import sys

__all__ = ["installed_version"]


def installed_version() -> str:
    """Return the version of the installed distribution."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        for name in names:
            # the folder of a distribution's metadata is named <name>-<version>.dist-info
            if name.startswith("rulvar-") and name.endswith(".dist-info"):
                return name.removeprefix("rulvar-").removesuffix(".dist-info")
    from importlib import metadata

    try:
        return metadata.version("rulvar")
    except metadata.PackageNotFoundError:
        return "unknown"

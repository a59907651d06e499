"""Print the versions of rulvar, Python and what rulvar builds on."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

from rulvar.cli.arguments import add_json
from rulvar.cli.exits import OK
from rulvar.cli.terminal import Terminal
from rulvar.cli.version import installed_version

_DEPENDENCIES = ("jsonschema-rs", "msgspec", "orjson")


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_json(parser)


def execute(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print versions."""
    versions = {"rulvar": installed_version(), "python": platform.python_version()}
    versions.update({name: _version(name) for name in _DEPENDENCIES})
    if options.json:
        terminal.document({**versions, "platform": platform.platform()})
        return OK
    for name, version in versions.items():
        terminal.out((f"{name:<14}", "bold"), version)
    terminal.out((f"{'platform':<14}", "bold"), platform.platform())
    return OK


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"

"""The command line of a shake's round: the one that pytest was called with, less what only the first run is for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["round_arguments", "without"]

_WITH_VALUE = frozenset(
    {
        "--rulvar-shake", "--rulvar-shake-report", "--rulvar-report", "--rulvar-record", "--rulvar-unused",
        "--rulvar-replay", "--pdbcls", "-n", "--numprocesses", "--maxprocesses", "--dist", "--tx",
        "--junitxml", "--junit-xml", "--report-log", "--log-file", "--pastebin", "--basetemp",
    }
)  # fmt: skip
_ALONE = frozenset(
    {"--pdb", "--trace", "-x", "--exitfirst", "-f", "--looponfail", "--sw", "--stepwise", "-d"}
)


def round_arguments(config: pytest.Config, folder: Path) -> list[str]:
    """Return the arguments of a round's pytest.

    Args:
        folder: takes the files that plugins write.
    """
    arguments = [*without(config.invocation_params.args), "--maxfail=0", f"--rootdir={config.rootpath}"]
    if config.inipath is not None:
        arguments.append(f"--config-file={config.inipath}")
    if config.pluginmanager.hasplugin("cacheprovider"):
        arguments += ["-o", f"cache_dir={folder / 'cache'}"]
    if config.getoption("xmlpath", None):
        arguments.append(f"--junitxml={folder / 'junit.xml'}")
    if config.pluginmanager.hasplugin("xdist"):
        arguments += ["-n", "0", "--dist", "no"]
    if config.pluginmanager.hasplugin("_cov") or config.pluginmanager.hasplugin("pytest_cov"):
        arguments.append("--no-cov")
    return arguments


def without(arguments: Sequence[object]) -> list[str]:
    """Return arguments less the options that a round does not take over."""
    left: list[str] = []
    words = iter(map(str, arguments))
    for word in words:
        name, equals, _ = word.partition("=")
        if name in _WITH_VALUE:
            if not equals:
                next(words, None)
        elif word not in _ALONE and not (word.startswith("-n") and word[2:].isalnum()):
            left.append(word)
    return left

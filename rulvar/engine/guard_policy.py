"""What the determinism guard does about a read, and what it leaves alone."""

from __future__ import annotations

import fnmatch
import linecache
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from types import FrameType
from typing import Any, Literal, get_args

from rulvar.engine.impurity import Source
from rulvar.engine.paths import absolute
from rulvar.errors import ConfigError

__all__ = ["GuardPolicy", "Mode"]

Mode = Literal["off", "warn", "error"]
_IGNORE = re.compile(r"#\s*(?:rulvar:\s*ignore|noqa:)\s*(?:\[([^\]]*)\]|([A-Z0-9, ]*))")
_IGNORE_FILE = re.compile(r"^\s*#\s*rulvar:\s*ignore-file\[([^\]]*)\]")
_DETERMINISTIC = re.compile(r"#\s*rulvar:\s*deterministic\b")
_LONGEST_HEAD = 20
"""How many lines a decorated function's head may have before its ``def``."""


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """What to do about an impure read.

    Attributes:
        mode: ``off``, ``warn`` (an event and nothing else) or ``error`` (the run ends with a
            DeterminismError, whatever the workflow catches).
        allow: modules (``app.legacy``, with what is below), files (``app/legacy/*.py``) and rules
            (``RLV108``) that are left alone.
    """

    mode: Mode = "warn"
    allow: tuple[str, ...] = ()

    @classmethod
    def of(cls, option: GuardPolicy | str | Mapping[str, Any] | None) -> GuardPolicy:
        """Read the engine's option ``determinism``.

        Raises:
            ConfigError: names the field and what is allowed.
        """
        if option is None or isinstance(option, GuardPolicy):
            return option or cls()
        if isinstance(option, str):
            return cls(_mode(option, "determinism"))
        if not isinstance(option, Mapping):
            raise _refused(
                "determinism", option, "one of 'off', 'warn', 'error', or {'mode': ..., 'allow': [...]}"
            )
        unknown = sorted(set(map(str, option)) - {"mode", "allow"})
        if unknown:
            raise _refused(f"determinism.{unknown[0]}", option, "the fields 'mode' and 'allow'")
        allow = option.get("allow", ())
        if isinstance(allow, (str, bytes)) or not isinstance(allow, Sequence):
            raise _refused("determinism.allow", allow, "a list of modules, files or rules")
        for number, item in enumerate(allow):
            if not isinstance(item, str) or not item.strip():
                raise _refused(f"determinism.allow[{number}]", item, "a module, a file pattern or a rule")
        return cls(_mode(option.get("mode", "warn"), "determinism.mode"), tuple(allow))

    def allows(self, frames: Sequence[FrameType], source: Source) -> bool:
        """Whether a read is left alone: it is on the list, or a comment says so.

        Args:
            frames: where the read stands, and the functions of the project that it was reached through.
        """
        frame = frames[0]
        file = absolute(frame.f_code.co_filename)
        module = str(frame.f_globals.get("__name__", ""))
        return (
            any(_matches(item, file, module, source.code) for item in self.allow)
            or _ignored(file, frame.f_lineno, source.code)
            or any(map(_is_declared_deterministic, frames))
        )


def _is_declared_deterministic(frame: FrameType) -> bool:
    """Whether the function's ``def`` line carries the comment that vouches for it."""
    code = frame.f_code
    for line in range(code.co_firstlineno, code.co_firstlineno + _LONGEST_HEAD):
        text = linecache.getline(code.co_filename, line)
        if "def " in text or "lambda" in text:
            return _DETERMINISTIC.search(text) is not None
    return False


def _ignored(file: str, line: int, code: str) -> bool:
    """Whether a comment of the lint's kind switches a rule off, on the line or for the file."""
    lines = linecache.getlines(file)
    if 0 < line <= len(lines):
        for found in _IGNORE.finditer(lines[line - 1]):
            codes = found[1] if found[1] is not None else found[2]
            if code in codes.replace(",", " ").split() or (not codes.strip() and "rulvar" in found[0]):
                return True
    marks = filter(None, map(_IGNORE_FILE.search, (text for text in lines if "ignore-file" in text)))
    return any(code in mark[1].replace(",", " ").split() for mark in marks)


def _matches(item: str, file: str, module: str, code: str) -> bool:
    if item in (code, module) or module.startswith(f"{item}."):
        return True
    pattern = item.replace("\\", "/")
    if "/" not in pattern and not pattern.endswith(".py"):
        return False
    path = PurePath(file).as_posix()
    below = f"*/{pattern.removeprefix('./')}"
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path, below)


def _mode(value: Any, name: str) -> Mode:
    for mode in get_args(Mode):
        if value == mode:
            return mode  # type: ignore[no-any-return]
    raise _refused(name, value, "'off', 'warn' or 'error'")


def _refused(name: str, value: Any, wanted: str) -> ConfigError:
    return ConfigError(f"{name}={value!r}: expected {wanted}", data={"field": name})

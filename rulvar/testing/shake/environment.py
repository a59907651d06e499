"""Another machine, as the project's code sees it: environment variables, host, user, locale, time zone.

Only reads by the project's own files get other values: Python and its libraries go on as before.
"""

from __future__ import annotations

import contextlib
import getpass
import locale
import os
import pathlib
import platform
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from rulvar.engine.reach import ProjectFiles
from rulvar.testing.shake.substitutes import Substitute

__all__ = ["foreign_collation", "other_environment", "other_host", "other_locale", "other_time_zone"]

_KEPT = (
    "PATH", "PWD", "TMPDIR", "TEMP", "TMP", "PYTHON", "PYTEST", "RULVAR", "VIRTUAL_ENV", "LD_", "DYLD_",
    "COV_", "COVERAGE", "SSL_", "TERM", "COLUMNS", "LINES", "SYSTEMROOT", "COMSPEC",
)  # fmt: skip
"""Beginnings of names that processes and test runs themselves depend on."""

_FLIPPED = {
    "0": "1",
    "1": "0",
    "true": "false",
    "false": "true",
    "yes": "no",
    "no": "yes",
    "on": "off",
    "off": "on",
}
_READERS = ("<frozen os>", "<frozen _collections_abc>")
_READER_FILES = (os.__file__, getattr(sys.modules.get("_collections_abc"), "__file__", None))
_ABSENT: Any = object()
_LOCALES = ("tr_TR.UTF-8", "de_DE.UTF-8", "fr_FR.UTF-8", "ja_JP.UTF-8", "en_US.UTF-8", "C", "C.UTF-8")
_LOCALE_NAMES = ("LANG", "LC_ALL", "LC_CTYPE", "LC_NUMERIC", "LC_TIME", "LC_COLLATE", "LANGUAGE")
_CONVENTIONS = {"decimal_point": ",", "thousands_sep": ".", "grouping": [3, 3, 0]}


@contextlib.contextmanager
def other_environment(project: ProjectFiles, *, kept: tuple[str, ...] = ()) -> Iterator[None]:
    """Give the project's code other values of every environment variable, and values of missing ones.

    Args:
        kept: beginnings of further names that stay as they are.
    """
    environ: Any = os.environ
    real = type(environ)
    spared = (*_KEPT, *kept)

    def shown(name: Any, value: Any) -> Any:
        if not isinstance(name, str) or name.upper().startswith(spared) or not _is_read_by(project):
            return value
        return _another(value)

    def held(self: Any, name: Any) -> Any:
        try:
            return real.__getitem__(self, name)
        except KeyError:
            return _ABSENT

    class Other(real):  # type: ignore[valid-type, misc]
        def __getitem__(self, name: Any) -> Any:
            value = shown(name, held(self, name))
            if value is _ABSENT:
                raise KeyError(name)
            return value

        def get(self, name: Any, default: Any = None) -> Any:
            value = held(self, name)
            if value is _ABSENT:  # a default tells what kind of value the code expects
                value = shown(name, _ABSENT if default is None else default)
                return default if value is _ABSENT else value
            return shown(name, value)

        def __iter__(self) -> Iterator[Any]:
            names = list(real.__iter__(self))
            return iter([*names, "SHAKEN"] if _is_read_by(project) else names)

    environ.__class__ = Other
    try:
        yield
    finally:
        environ.__class__ = real


def other_host(project: ProjectFiles) -> list[Substitute]:
    """Return what stands in for the names of host and user, their folders, and the working directory."""

    def answers(value: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: value

    expanduser, getcwd = os.path.expanduser, os.getcwd
    home, cwd = pathlib.Path.home.__func__, pathlib.Path.cwd.__func__  # type: ignore[attr-defined]

    def other_expanduser(path: Any) -> Any:
        is_home = isinstance(path, str) and path.startswith("~") and _is_read_by(project)
        return "/home/shaken-user" + path[1:] if is_home else expanduser(path)

    def other_getcwd() -> str:
        return "/shaken" if _is_read_by(project) else getcwd()

    def other_home(cls: type[pathlib.Path]) -> Any:
        return cls("/home/shaken-user") if _is_read_by(project) else home(cls)

    def other_cwd(cls: type[pathlib.Path]) -> Any:
        return cls("/shaken") if _is_read_by(project) else cwd(cls)

    return [
        (socket, "gethostname", answers("shaken-host")),
        (socket, "getfqdn", answers("shaken-host.example")),
        (platform, "node", answers("shaken-host")),
        (getpass, "getuser", answers("shaken-user")),
        (os, "getlogin", answers("shaken-user")),
        (os, "cpu_count", answers((os.cpu_count() or 1) + 3)),
        (os, "getcwd", other_getcwd),
        (os.path, "expanduser", other_expanduser),
        (pathlib.Path, "home", classmethod(other_home)),
        (pathlib.Path, "cwd", classmethod(other_cwd)),
    ]


@contextlib.contextmanager
def other_time_zone(name: str) -> Iterator[None]:
    """Live in another time zone; the name is in the POSIX form, which needs no database."""
    try:
        with _environment(TZ=name):
            time.tzset()
            yield
    finally:
        time.tzset()


@contextlib.contextmanager
def other_locale() -> Iterator[None]:
    """Live in another locale: a real one where the machine has one, and other conventions at any rate."""
    before = locale.setlocale(locale.LC_ALL)
    chosen = next((name for name in _LOCALES if name != before and _is_installed(name)), before)
    conventions: Any = locale
    overridden = dict(conventions._override_localeconv)
    with _environment(**dict.fromkeys(_LOCALE_NAMES, chosen)):
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_ALL, chosen)
        conventions._override_localeconv = {**overridden, **_CONVENTIONS}
        try:
            yield
        finally:
            conventions._override_localeconv = overridden
            locale.setlocale(locale.LC_ALL, before)


def foreign_collation() -> list[Substitute]:
    """Return what stands in for the locale's order and name where no other locale is installed."""
    return [
        (locale, "strxfrm", lambda text: text.swapcase()),
        (locale, "strcoll", lambda a, b: (a.swapcase() > b.swapcase()) - (a.swapcase() < b.swapcase())),
        (locale, "getlocale", lambda category=None: ("tr_TR", "UTF-8")),
    ]


def _is_installed(name: str) -> bool:
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, name)
    except locale.Error:
        return False
    locale.setlocale(locale.LC_ALL, before)
    return True


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _is_read_by(project: ProjectFiles) -> bool:
    """Whether the code that reads the environment is the project's."""
    frame = sys._getframe(2)
    while frame is not None and (
        frame.f_code.co_filename in _READERS
        or frame.f_code.co_filename in _READER_FILES
        or frame.f_code.co_filename == __file__
    ):
        frame = frame.f_back  # type: ignore[assignment]
    return frame is not None and project.holds(frame.f_code.co_filename)


def _another(value: Any) -> Any:
    """Return another value that code can read where it reads this one."""
    if value is _ABSENT:
        return "1"
    text = str(value)
    if text.lower() in _FLIPPED:
        return _FLIPPED[text.lower()]
    if text.isdecimal():
        return str(int(text) + 1)
    try:
        return str(float(text) + 1)
    except ValueError:
        return f"{text}-shaken" if text else "shaken"

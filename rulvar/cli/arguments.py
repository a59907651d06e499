"""The command line's arguments: what every verb shares, and how texts become values."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from rulvar.cli.terminal import told_as_lost
from rulvar.errors import ConfigError, SchemaError

__all__ = [
    "Parser",
    "add_args",
    "add_bounds",
    "add_config",
    "add_json",
    "add_store",
    "entry_numbers",
    "json_argument",
    "loose_value",
    "run_args",
    "seconds_from_now",
]

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_REQUIRED = "the following arguments are required: "
_RUNS = ("RUN", "RUN|FILE")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|)")


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others: one line, no usage text."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def print_help(self, file: Any = None) -> None:
        """Print the help; argparse itself would not say when that fails."""
        stream = sys.stdout if file is None else file
        with told_as_lost():
            stream.write(self.format_help())
            stream.flush()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse words.

        Raises:
            ConfigError: they are wrong; names the option that comes near to one that there is not.
        """
        options, left = self.parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}{self._nearest(left)}")
        return options

    def _nearest(self, left: Sequence[str]) -> str:
        from rulvar.cli.hints import did_you_mean, near_options

        near = [name for word in left if word.startswith("-") for name in near_options(word, self)]
        return "; " + did_you_mean(near, "") if near else ""

    def error(self, message: str) -> NoReturn:
        """Refuse a command line.

        Raises:
            ConfigError: always.
        """
        hint = ""
        if message.removeprefix(_REQUIRED).partition(",")[0] in _RUNS:
            from rulvar.cli.latest import latest_runs

            hint = f"; {latest_runs()}"
        raise ConfigError(f"{message}{hint} (see {self.prog} --help)", data={"field": "command line"})


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add ``--store``."""
    parser.add_argument(
        "--store",
        metavar="STORE",
        help="where the runs are: a folder, a SQLite file (runs.db, sqlite:///PATH), postgresql://..., module:name, "
        "or $VARIABLE (default: store in [tool.rulvar], else the engine's own, else .rulvar)",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add ``--config``."""
    parser.add_argument(
        "--config",
        metavar="MODULE:ATTR",
        help="engine, or function that makes one: module:attr or file.py:attr; it is imported and run",
    )


def add_args(parser: argparse.ArgumentParser) -> None:
    """Add ``--args`` and ``--arg``."""
    parser.add_argument(
        "--args", metavar="JSON", help="arguments of the workflow: JSON, @FILE, or - for stdin", default=None
    )
    parser.add_argument(
        "--arg",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="one argument: JSON if it reads as JSON, a text otherwise, @FILE for a file's content, @- for stdin's; "
        "may be repeated",
    )


def add_bounds(parser: argparse.ArgumentParser) -> None:
    """Add ``--budget`` and ``--deadline``."""
    parser.add_argument("--budget", metavar="USD", type=float, help="ceiling of the run in USD")
    parser.add_argument(
        "--deadline",
        metavar="WHEN",
        help="cancel the run then: 90s, 15m, 2h, or a time such as 2027-01-31T12:00Z",
    )


def run_args(options: argparse.Namespace, schema: Any = None) -> Any:
    """Return the workflow's arguments of a command line; None when there are none.

    Args:
        schema: JSON Schema of the arguments: what it declares a text is taken as a text.

    Raises:
        ConfigError: not JSON, no such file, or a pair without a key; names the option.
    """
    if options.args is None and not options.arg:
        return None
    args = None if options.args is None else json_argument(options.args, "--args")
    if not options.arg:
        return args
    if args is None:
        args = {}
    if not isinstance(args, dict):
        raise ConfigError("--arg needs --args to be an object, or to be left out", data={"field": "--arg"})
    texts = frozenset() if schema is None else _declared_texts(schema)
    for pair in options.arg:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"--arg {pair!r}: write KEY=VALUE", data={"field": "--arg"})
        args[key] = _value(text, f"--arg {key}", is_text=key in texts)
    return args


def json_argument(text: str, what: str) -> Any:
    """Return the value of a JSON text, of ``@FILE`` or of ``-`` (stdin).

    Raises:
        ConfigError: names the option or file and where the text is wrong.
    """
    if text == "-":
        return _json(sys.stdin.read(), f"{what}: stdin", what)
    if text.startswith("@"):
        return _json(_read(text[1:], what), f"{what}: {text[1:]}", what)
    return _json(text, what, what)


def loose_value(text: str) -> Any:
    """Return the JSON value of a text, or the text itself when it is no JSON.

    A number counts only when it is written as JSON writes it: ``1.10`` is a version, and stays a text.
    """
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(value, float) and json.dumps(value) != text.strip() else value


def seconds_from_now(text: str | None, now: float) -> float | None:
    """Return the epoch seconds of a duration from now or of a time; None for None.

    Raises:
        ConfigError: neither a duration nor a time with a zone.
    """
    if text is None:
        return None
    match = _DURATION.fullmatch(text.strip())
    if match is not None:
        return now + float(match[1]) * _UNITS[match[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ConfigError(
            f"--deadline {text!r}: write a duration (90s, 15m, 2h, 1d) or a time with a zone (2027-01-31T12:00Z)",
            data={"field": "--deadline"},
        )
    return moment.timestamp()


def _declared_texts(schema: Any) -> frozenset[str]:
    """Return the names of the arguments that a schema declares texts."""
    from rulvar.contracts.schema import canonical_schema

    try:
        inlined = canonical_schema(schema)
    except SchemaError:  # recursive, most often: it is good for checking and says nothing here
        return frozenset()
    properties = inlined.get("properties") if isinstance(inlined, dict) else None
    declared = properties.items() if isinstance(properties, dict) else ()
    return frozenset(
        name for name, item in declared if isinstance(item, dict) and item.get("type") == "string"
    )


def _value(text: str, what: str, *, is_text: bool) -> Any:
    if text.startswith("@@"):
        return text[1:]
    if text.startswith("@"):
        content = _read(text[1:], what)
        is_json = text.endswith(".json") and not is_text
        return _json(content, f"{what}: {text[1:]}", what) if is_json else content
    return text if is_text else loose_value(text)


def _read(name: str, what: str) -> str:
    try:
        if name == "-":
            return sys.stdin.read()
        return Path(name).read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{what}: {name}: {error.strerror}", data={"field": what, "file": name}) from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{what}: {name}: not UTF-8 at byte {error.start}", data={"field": what, "file": name}
        ) from None


def _json(text: str, where: str, what: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at line {error.lineno} column {error.colno}"
    except RecursionError:
        problem = "nested too deeply"
    except ValueError as error:
        problem = str(error)
    hint = "" if where != what or text[:1] in "{[" else "; quote texts, as in '\"text\"'"
    raise ConfigError(f"{where}: not JSON: {problem}{hint}", data={"field": what})


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")


def entry_numbers(values: Sequence[int], what: str) -> tuple[int, ...]:
    """Return numbers of entries, checked.

    Raises:
        ConfigError: one is negative.
    """
    for value in values:
        if value < 0:
            raise ConfigError(
                f"{what} {value}: expected the number of an entry, 0 or more", data={"field": what}
            )
    return tuple(values)

"""Configuration: `[tool.rulvar.lint]` of the project's pyproject.toml, and what the command line
changes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from rulvar_lint.core.ignore import matches

CASSETTES: Final = ("**/cassettes/**/*.jsonl", "**/*.cassette.jsonl")


class ConfigError(Exception):
    """The configuration cannot be used. The text names the file, the key and what to do."""


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of one project.

    Attributes:
        select: codes or prefixes to report instead of the default rules; empty means the default
            rules.
        extend_select: codes or prefixes to report as well.
        ignore: codes or prefixes not to report.
        per_file_ignores: glob to codes or prefixes.
        exclude: globs and folder names that are not part of the project.
        respect_gitignore: leave out what `.gitignore` leaves out.
        src: folders that module names may begin in, besides the usual ones.
        cassettes: globs of cassette files.
        effects: dotted name to the rule that reports a call of it.
    """

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    src: tuple[str, ...] = ()
    cassettes: tuple[str, ...] = CASSETTES
    effects: tuple[tuple[str, str], ...] = ()

    def is_selected(self, code: str, default_on: bool) -> bool:
        """Whether a rule is reported at all."""
        if _covers(self.ignore, code) and not _more_exact(
            self.extend_select + self.select, self.ignore, code
        ):
            return False
        if _covers(self.extend_select, code):
            return True
        return _covers(self.select, code) if self.select else default_on

    def is_ignored_in(self, path: str, code: str) -> bool:
        """Whether a rule is not reported in the file at `path`."""
        return any(_covers(codes, code) and matches(glob, path) for glob, codes in self.per_file_ignores)

    def is_cassette(self, path: str) -> bool:
        """Whether the file at `path` is a cassette."""
        return path.endswith(".jsonl") and any(matches(glob, path) for glob in self.cassettes)


def _covers(prefixes: tuple[str, ...], code: str) -> bool:
    return any(prefix == "ALL" or code.startswith(prefix) for prefix in prefixes)


def _more_exact(chosen: tuple[str, ...], ignored: tuple[str, ...], code: str) -> bool:
    """Whether a longer prefix selects the code than the one that ignores it."""
    best = max((len(p) for p in chosen if p != "ALL" and code.startswith(p)), default=0)
    worst = max((len(p) for p in ignored if p != "ALL" and code.startswith(p)), default=0)
    return best > worst


_KEYS: Final = {
    "select": "codes",
    "extend-select": "codes",
    "ignore": "codes",
    "per-file-ignores": "table",
    "exclude": "strings",
    "respect-gitignore": "bool",
    "src": "strings",
    "cassettes": "strings",
    "effects": "effects",
}


_TABLE: Final = ("tool", "rulvar", "lint")


def known_codes() -> frozenset[str]:
    """The codes of all rules."""
    from rulvar_lint.rules.pages import CODES  # most projects name none in their settings

    return CODES


def load(root: Path, codes: frozenset[str] | None = None) -> Config:
    """The configuration of the project at `root`; the defaults if it has none. `codes` are the rules
    that it may name, all of them if not given.

    Raises:
        ConfigError: the file cannot be read, or a key or value in it is wrong.
    """
    path = root / "pyproject.toml"
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return Config()
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigError(f"{path}: cannot be read: {err}") from err
    if "rulvar" not in text:
        return Config()
    import tomllib

    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply to be read") from None
    except ValueError as err:  # a TOMLDecodeError is one, and so is a number with thousands of digits
        raise ConfigError(f"{path}: {err}") from err
    table = data
    for depth, name in enumerate(_TABLE, 1):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: [{'.'.join(_TABLE[:depth])}]: expected a table")
    if not table:
        return Config()
    return from_table(table, str(path), known_codes() if codes is None else codes)


def from_table(table: dict[str, Any], where: str, codes: frozenset[str]) -> Config:
    """A configuration from the keys of `[tool.rulvar.lint]`; `where` names it in errors.

    Raises:
        ConfigError: a key is unknown or a value has the wrong form.
    """
    values: dict[str, Any] = {}
    for key, value in table.items():
        kind = _KEYS.get(key)
        if kind is None:
            import difflib

            near = difflib.get_close_matches(key, _KEYS, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"known keys: {', '.join(sorted(_KEYS))}"
            raise ConfigError(f"{where}: [tool.rulvar.lint]: unknown key `{key}`; {hint}")
        values[key.replace("-", "_")] = _value(kind, key, value, where, codes)
    return Config(**values)


def _value(kind: str, key: str, value: Any, where: str, codes: frozenset[str]) -> Any:
    place = f"{where}: [tool.rulvar.lint] {key}"
    if kind == "bool":
        if not isinstance(value, bool):
            raise ConfigError(f"{place}: expected true or false")
        return value
    if kind in ("strings", "codes"):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{place}: expected a list of strings")
        return check_codes(tuple(value), place, codes) if kind == "codes" else tuple(value)
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: expected a table")
    if kind == "effects":
        for name, code in value.items():
            if not isinstance(code, str) or code not in codes:
                raise ConfigError(f"{place}.{name}: expected a rule code such as RLV105")
        return tuple(sorted(value.items()))
    pairs = []
    for glob, listed in value.items():
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise ConfigError(f'{place}."{glob}": expected a list of strings')
        pairs.append((glob, check_codes(tuple(listed), f'{place}."{glob}"', codes)))
    return tuple(pairs)


def check_codes(chosen: tuple[str, ...], place: str, codes: frozenset[str]) -> tuple[str, ...]:
    """Codes and prefixes, in upper case.

    Raises:
        ConfigError: one of them is no rule and no prefix of one.
    """
    found = []
    for item in chosen:
        code = item.strip().upper()
        if code != "ALL" and not any(known.startswith(code) for known in codes):
            from rulvar_lint.core.spelling import nearest

            near = nearest(code, codes)
            hint = f"; did you mean {near}?" if near else ""
            raise ConfigError(f"{place}: unknown rule `{item}`{hint}")
        found.append(code)
    return tuple(found)


def merged(config: Config, **changes: Any) -> Config:
    """The configuration with some settings replaced; `None` keeps one as it is."""
    given = {name: value for name, value in changes.items() if value is not None}
    return replace(config, **given)


FIELDS: Final = tuple(item.name for item in fields(Config))

"""The options of `rulvar-lint`."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import Any, Final, NoReturn

from rulvar_lint.reporters import FORMATS

COMMANDS: Final = ("check", "rule", "explain", "identity-diff")


class UsageError(Exception):
    """The command line cannot be understood. The text says what to do."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\nFor help: rulvar-lint --help")


def _columns() -> int:
    """The width of the terminal, measured without `shutil`, which would load all kinds of compression."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return 80


def parse(argv: list[str]) -> argparse.Namespace:
    """The parsed command line; `check` is the command when none is named.

    Raises:
        UsageError: the command line is wrong.
    """
    if argv and argv[0] in COMMANDS:
        command, rest = argv[0], argv[1:]
    else:
        command, rest = "check", argv
    args = {"check": _check, "rule": _rule, "explain": _explain, "identity-diff": _identity_diff}[
        command
    ]().parse_intermixed_args(rest)
    args.command = command
    return args


def _parser(command: str, description: str, **more: Any) -> _Parser:
    return _Parser(
        prog=f"rulvar-lint {command}".strip(),
        description=description,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=_columns() - 2),
        **more,
    )


def _check() -> _Parser:
    parser = _parser(
        "",
        "Find code in rulvar workflows that a replay would not repeat.",
        epilog="Other commands:\n"
        "  rulvar-lint rule CODE | --all     describe rules\n"
        "  rulvar-lint explain PATH:LINE     tell the whole story of a finding\n"
        "  rulvar-lint identity-diff A..B    which journaled calls a change re-keys\n\n"
        "Exit codes: 0 no findings, 1 findings, 2 wrong use or an internal error.",
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files and folders to report on (default: all)"
    )
    _fix_options(parser.add_argument_group("fixes"))
    _rule_options(parser.add_argument_group("rules"))
    _output_options(parser.add_argument_group("output"))
    _file_options(parser.add_argument_group("files and runs"))
    return parser


def _fix_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--fix", action="store_true", help="apply the safe fixes")
    add("--unsafe-fixes", action="store_true", help="apply or show the unsafe fixes as well")
    add("--diff", action="store_true", help="show what --fix would change, and change nothing")
    add(
        "--add-ignore",
        action="store_true",
        help="add `# rulvar: ignore[...]` to each line with findings",
    )


def _rule_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--select", metavar="CODES", help="report these rules only (codes or prefixes, or ALL)")
    add("--extend-select", metavar="CODES", help="report these rules as well")
    add("--ignore", metavar="CODES", help="do not report these rules")
    add("--per-file-ignores", metavar="GLOB:CODE,...", help="do not report rules in some files")


def _output_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--output-format",
        choices=(*FORMATS, "text"),
        default="full",
        metavar="FORMAT",
        help=f"one of {', '.join(FORMATS)} (default: full)",
    )
    add("--output-file", metavar="FILE", help="write the report to a file")
    add("--statistics", action="store_true", help="count the findings of each rule")
    add("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    add(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours in text reports",
    )
    add("-q", "--quiet", action="store_true", help="print findings only")
    add("-V", "--version", action="store_true", help="print the version")


def _file_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--stdin-filename", metavar="FILE", help="check standard input as if it were this file")
    add("--watch", action="store_true", help="check again whenever a file changes")
    add("--no-cache", action="store_true", help="neither read nor write the cache")
    add("--cache-dir", metavar="DIR", help="folder of the cache (default: .rulvar_cache)")
    add("--show-files", action="store_true", help="list the files that would be checked")
    add("--exclude", metavar="GLOB", action="append", default=[], help="leave paths out")
    add("--no-gitignore", action="store_true", help="do not respect .gitignore")
    add(
        "--root",
        metavar="DIR",
        help="project root (default: the nearest pyproject.toml or .git above)",
    )
    add("--isolated", action="store_true", help="ignore pyproject.toml")
    add("-j", "--jobs", type=int, metavar="N", help="processes (default: one per processor)")


def _rule() -> _Parser:
    parser = _parser(
        "rule", "Describe rules: what they find, why it breaks replay, and what to write instead."
    )
    parser.add_argument("codes", nargs="*", metavar="CODE", help="rule codes or names")
    parser.add_argument("--all", action="store_true", help="describe every rule")
    parser.add_argument("--output-format", choices=("text", "json", "markdown"), default="text")
    return parser


def _explain() -> _Parser:
    parser = _parser(
        "explain", "Tell the whole story of the findings on one line: the chain, the rule, the fix."
    )
    parser.add_argument("where", metavar="PATH:LINE | CODE", help="a line, or a rule code")
    parser.add_argument("--root", metavar="DIR", help="project root")
    return parser


def _identity_diff() -> _Parser:
    parser = _parser(
        "identity-diff",
        "Compare the journaled calls of two revisions: which are re-keyed, added or removed.\n"
        "A re-keyed call is not found in the journals of running workflows: it is made, and paid, "
        "again.",
    )
    parser.add_argument(
        "revisions",
        metavar="BASE..HEAD",
        help="two git revisions; `BASE..` compares with the working tree",
    )
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="files and folders to compare (default: all)"
    )
    parser.add_argument("--output-format", choices=("text", "json"), default="text")
    parser.add_argument(
        "--exit-zero", action="store_true", help="exit with 0 even if calls are re-keyed or removed"
    )
    parser.add_argument("--root", metavar="DIR", help="project root")
    return parser

"""How instances become text: the methods that are tried, in their order."""

from __future__ import annotations

from typing import Final

FORMAT: Final = ("__format__", "__str__", "__repr__")  # f-strings, `format` and `str.format`
STRING: Final = ("__str__", "__repr__")  # `str` and `%s`
REPR: Final = ("__repr__",)  # `repr`, and what a container holds
# The conversions of replacement fields: none, `!s`, `!r`, `!a`.
CONVERSIONS: Final = {-1: FORMAT, 115: STRING, 114: REPR, 97: REPR}
WAYS: Final = {
    "builtins.format": FORMAT,
    "builtins.repr": REPR,
    "builtins.ascii": REPR,
    "pprint.pformat": REPR,
}

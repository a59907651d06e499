"""Findings while they are being made: one per file, line and rule."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rulvar_lint.core.decls import Module
    from rulvar_lint.core.effects import Cause, Place
    from rulvar_lint.core.frame import Frame

Key = tuple[str, int, str]
# Where an unstable value goes: (kind, line, path).
Sink = tuple[str, int, str]
# How to fix a finding: (applicability, message, [(node, new text)], where the text goes); a third
# member of a part says where that text goes instead.
Plan = tuple[str, str, "list[tuple[Any, str]] | list[tuple[Any, str, str]]", str]
# Of these the first line is reported.
_WITH_BODY: Final = frozenset(
    {ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor, ast.With, ast.AsyncWith}
    | {ast.Try, ast.ExceptHandler}
)


class Finding:
    """One finding before its message is worded.

    Attributes:
        cause: what happens there, or what it leads to.
        module: file it is reported in.
        node: where it is reported.
        in_text: inside an f-string, where older parsers do not know positions exactly.
        frame: the activation it was found in.
        fix: how to fix it, if that is known.
        places: (place, message) of related code.
        sinks: what the unstable value flows into.
    """

    __slots__ = (
        "cause",
        "column",
        "end_column",
        "end_line",
        "fix",
        "frame",
        "in_text",
        "line",
        "module",
        "node",
        "places",
        "sinks",
    )

    def __init__(self, module: Module, node: ast.AST, cause: Cause) -> None:
        self.module = module
        self.node = node
        self.cause = cause
        source = module.source
        self.line: int = getattr(node, "lineno", 1)
        self.column = source.column(self.line, getattr(node, "col_offset", 0))
        self.end_line: int = getattr(node, "end_lineno", None) or self.line
        self.end_column = source.column(self.end_line, getattr(node, "end_col_offset", None) or 0)
        if node.__class__ in _WITH_BODY:
            self.end_line = self.line
            self.end_column = len(source.line_text(self.line)) + 1
        self.in_text = False
        self.frame: Frame | None = None
        self.fix: Plan | None = None
        self.places: list[tuple[Place, str]] = []
        self.sinks: list[Sink] = []

    @property
    def key(self) -> Key:
        """Findings with the same key are one finding."""
        return (self.module.path, self.line, self.cause.code)

"""Making documents: which class a name means, whether content fits, what the class declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rulvar.contracts.jsonable import journal_value
from rulvar.errors import ConfigError, InvalidOutputError
from rulvar.machines.document import Document, DocumentType, document_type, read_names

__all__ = ["DocumentMaker", "Unsaved"]

_MODES = ("strict", "safe", "skip")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsaved:
    """A document that is complete but for where and when it is saved."""

    name: str
    content: Any
    options: Mapping[str, Any] = field(default_factory=dict)
    hide_at: tuple[str, ...] = ()
    enable_at: tuple[str, ...] = ()
    internal: bool = False
    tags: tuple[str, ...] = ()

    def saved(self, **where: Any) -> Document:
        """Return the saved document."""
        return Document(
            name=self.name,
            content=self.content,
            options=self.options,
            hide_at=self.hide_at,
            enable_at=self.enable_at,
            internal=self.internal,
            tags=self.tags,
            **where,
        )


class DocumentMaker:
    """Makes documents.

    Args:
        known: looks a class up by the document's name; returns None when there is none.
    """

    def __init__(self, known: Callable[[str], DocumentType | None]) -> None:
        self._known = known

    def make(
        self,
        document: Any,
        content: Any,
        validate: str,
        options: Mapping[str, Any],
        meta: Mapping[str, Any],
        known: Iterable[type] = (),
    ) -> tuple[Unsaved, str | None]:
        """Return a document, and a warning when content was saved that does not fit.

        Args:
            meta: ``hide_at``, ``enable_at``, ``tags``; what is None is as the class declares.
            known: further classes that a name may mean.

        Raises:
            ConfigError: no such document.
            InvalidOutputError: content that does not fit; names document and mode.
        """
        declared, content = self._declared(document, content, known)
        if validate not in _MODES:
            raise ConfigError(
                f"document {declared.name!r} validate={validate!r}: use {', '.join(_MODES)}",
                data={"field": "validate"},
            )
        plain = journal_value(content, f"document {declared.name!r}")
        warning = None
        if validate != "skip" and (problem := _problem(declared, plain)) is not None:
            text = f"document {declared.name!r} ({validate}) does not fit: {problem}"
            if validate == "strict":
                raise InvalidOutputError(text, data={"document": declared.name, "mode": validate})
            warning = text
        made = Unsaved(
            name=declared.name,
            content=plain,
            options=journal_value(dict(options), f"document {declared.name!r} options"),
            internal=declared.internal or "internal" in _names(meta, "tags", declared.tags),
            hide_at=_names(meta, "hide_at", declared.hide_at),
            enable_at=_names(meta, "enable_at", declared.enable_at),
            tags=_names(meta, "tags", declared.tags),
        )
        return made, warning

    def _declared(self, document: Any, content: Any, known: Iterable[type]) -> tuple[DocumentType, Any]:
        declared: DocumentType | None
        if isinstance(document, str):
            types = (document_type(kind) for kind in known)
            declared = next((item for item in types if item is not None and item.name == document), None)
            declared = declared or self._known(document)
            if declared is None:
                raise ConfigError(
                    f"no document is named {document!r}; save an instance of its class, or list the class in the "
                    "tool's or the app's documents",
                    data={"document": document},
                )
            return declared, content
        declared = document_type(document)
        if declared is None:
            raise ConfigError(
                f"ctx.save: expected an instance of a class made by @document, got {type(document).__name__}",
                data={"field": "document"},
            )
        return declared, content if isinstance(document, type) else document


def _problem(declared: DocumentType, plain: Any) -> str | None:
    if declared.contract is None:
        return None
    issues = declared.contract.issues(plain)
    if not issues:
        return None
    path = "".join(f"[{part!r}]" for part in issues[0].path)
    return f"content{path}: {issues[0].message}"


def _names(meta: Mapping[str, Any], option: str, declared: tuple[str, ...]) -> tuple[str, ...]:
    value = meta.get(option)
    if value is None:
        return declared
    return read_names(value, f"ctx.save {option}", option)

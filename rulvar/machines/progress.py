"""Where a machine stands: the fold of its commits.

The driver folds while it runs, and a reader folds a journal; both end at the same place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rulvar.machines.commit import Commit
from rulvar.machines.definition import START
from rulvar.machines.document import Document
from rulvar.machines.state import apply_patch

__all__ = ["Documents", "Progress"]

ERROR_DOCUMENT = "error"


class Documents:
    """The documents of a machine, in order; a newer one of the same key takes the older one's place."""

    __slots__ = ("_keys", "_listed")

    def __init__(self) -> None:
        self._listed: list[Document] = []
        self._keys: dict[str, int] = {}

    def add(self, document: Document) -> Document | None:
        """Add a document, and return the one whose place it took."""
        if document.key is not None and document.key in self._keys:
            index = self._keys[document.key]
            older, self._listed[index] = self._listed[index], document
            return older
        if document.key is not None:
            self._keys[document.key] = len(self._listed)
        self._listed.append(document)
        return None

    def has(self, key: str) -> bool:
        """Whether there is a document of that key."""
        return key in self._keys

    def find(self, name_or_key: str) -> Document | None:
        """Return the latest document of that name or key, or None."""
        return next((item for item in reversed(self._listed) if name_or_key in (item.name, item.key)), None)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


class Progress:
    """State, result, documents and place after some commits.

    Attributes:
        failure: the commit that failed the machine for now, or None.
        attempts: failures so far of transitions that have not succeeded since.
        saved: how many documents were ever saved.
    """

    __slots__ = ("attempts", "documents", "failure", "last", "place", "result", "saved", "state")

    def __init__(self) -> None:
        self.place = START
        self.state: dict[str, Any] = {}
        self.result: Any = None
        self.documents = Documents()
        self.failure: Commit | None = None
        self.last: Commit | None = None
        self.attempts: dict[str, int] = {}
        self.saved = 0

    def apply(self, commit: Commit, ended_ms: int = 0) -> None:
        """Go on by one commit."""
        self.last = commit
        self.place = commit.to
        self.failure = None
        if commit.error is not None:
            self._fail(commit, ended_ms)
            return
        self.attempts.pop(commit.transition, None)
        if commit.state:
            self.state = apply_patch(self.state, commit.state)
        if commit.result:
            self.result = patched_result(self.result, commit.result)
        for document in commit.documents:
            self.documents.add(document)
        self.saved += len(commit.documents)

    def _fail(self, commit: Commit, ended_ms: int) -> None:
        assert commit.error is not None
        content = {"message": commit.error.get("message"), "code": commit.error.get("code")}
        self.documents.add(
            Document(
                id=f"error-{commit.transition}-{commit.attempt}",
                name=ERROR_DOCUMENT,
                content=content,
                transition=commit.transition,
                place=commit.to,
                at_ms=ended_ms,
            )
        )
        if commit.will_retry:
            self.attempts[commit.transition] = commit.attempt + 1
        else:
            self.attempts.pop(commit.transition, None)
            self.failure = commit


def patched_result(before: Any, patch: Mapping[str, Any]) -> Any:
    """Return a result with a patch applied; a patch may replace it as a whole."""
    if "replace" in patch:
        return patch["replace"]
    return apply_patch(before if isinstance(before, dict) else {}, patch)

"""``ctx`` of a transition: everything a workflow has, and the machine's state, result and documents."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from rulvar.engine.ctx import Ctx
from rulvar.machines.document import Document

if TYPE_CHECKING:
    from rulvar.machines.attempt import TransitionAttempt

__all__ = ["DocumentView", "MachineCtx", "Ready", "machine_ctx"]


class Ready(str):
    """A text that may also be awaited, for those who write ``await ctx.start(...)``."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, str]:
        return self._itself()

    def _itself(self) -> Generator[Any, None, str]:
        return str(self)
        yield


class DocumentView:
    """The documents of a machine as a body sees them, what it has just saved included."""

    __slots__ = ("_documents",)

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = tuple(documents)

    def find(self, name_or_key: str) -> Any:
        """Return the content of the latest document of that name or key, or None."""
        for item in reversed(self._documents):
            if name_or_key in (item.name, item.key):
                return item.content
        return None

    def __iter__(self) -> Iterator[Document]:
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)


class MachineCtx(Ctx):
    """The ctx of one attempt of a transition.

    What it changes is a draft: visible to the rest of the body, thrown away when the attempt fails, and
    committed when it succeeds.
    """

    _attempt: TransitionAttempt

    @property
    def args(self) -> Any:
        """The run's arguments, checked once at the start; read-only."""
        return self._attempt.driver.args

    @property
    def state(self) -> Any:
        """The state: a mapping whose items are attributes too, or an instance of the machine's state type."""
        return self._attempt.state

    @state.setter
    def state(self, value: Any) -> None:
        self._attempt.check()
        self._attempt.replace_state(value)

    @property
    def result(self) -> Any:
        """The result so far; an empty mapping while there is none. May be filled, or replaced by any JSON value."""
        return self._attempt.result

    @result.setter
    def result(self, value: Any) -> None:
        self._attempt.check()
        self._attempt.replace_result(value)

    @property
    def documents(self) -> DocumentView:
        """The documents that are there."""
        return self._attempt.visible_documents()

    @property
    def place(self) -> str:
        """The place that the transition leaves."""
        return self._attempt.definition.from_

    @property
    def retry_count(self) -> int:
        """How many attempts of this transition have failed before."""
        return self._attempt.number

    @property
    def workflow_id(self) -> str:
        """The id of this machine's run: the run's own, or the one of a child in its run tree."""
        return self._attempt.driver.run_id

    def save(
        self,
        document: Any,
        content: Any = None,
        *,
        key: str | None = None,
        validate: Literal["strict", "safe", "skip"] = "strict",
        options: Mapping[str, Any] | None = None,
        hide_at: Iterable[str] | str | None = None,
        enable_at: Iterable[str] | str | None = None,
        tags: Iterable[str] | None = None,
    ) -> str:
        """Save a document for the place that the transition leads to.

        Args:
            document: an instance of a class made by ``@document``, or such a class (or its name) with ``content``.
            key: a newer document of the same key takes the older one's place.
            validate: ``strict`` refuses content that does not fit, ``safe`` saves it and logs a warning, ``skip``
                does not look.
            options: of its widget: ``transition`` or ``actions``, ``show_when``, ``enabled_when``, and others.
            hide_at, enable_at, tags: instead of those that the class declares.

        Returns:
            The document's id.

        Raises:
            ConfigError: no such document.
            InvalidOutputError: content that does not fit; names document and mode.
        """
        self._attempt.check()
        meta = {"hide_at": hide_at, "enable_at": enable_at, "tags": tags}
        return Ready(self._attempt.save(document, content, key, validate, options or {}, meta))

    def start(
        self,
        child: Any,
        args: Any = None,
        *,
        on_done: str | Callable[..., Any] | None = None,
        meta: Any = None,
        label: str | None = None,
        show: Any = None,
    ) -> str:
        """Start a child once this transition is committed, and go on without waiting for it.

        Args:
            child: a state machine, a workflow, or the name of one that the engine knows.
            on_done: the wait transition of this machine that fires when the child ends; its input tells how.
            meta: handed to that transition as ``input.meta``.
            label, show: for people.

        Returns:
            The child's run id.

        Raises:
            ConfigError: no such workflow, arguments that do not fit, or ``on_done`` is no wait transition.
        """
        self._attempt.check()
        return Ready(self._attempt.start(child, args, on_done, meta, label, show))


def machine_ctx(attempt: TransitionAttempt) -> MachineCtx:
    """Return the ctx of an attempt; where the determinism guard looks on, one whose calls it does not see."""
    run = attempt.run
    base = run.engine.ctx_of(run)
    chosen: Any = MachineCtx if type(base) is Ctx else _watched(cast(Hashable, type(base)))
    ctx: MachineCtx = object.__new__(chosen)
    for kind in type(base).__mro__[:-1]:
        for name in vars(kind).get("__slots__", ()):
            setattr(ctx, name, getattr(base, name))
    ctx._attempt = attempt
    return ctx


@lru_cache(maxsize=8)
def _watched(kind: Hashable) -> Any:
    return type("MachineCtx", (MachineCtx, kind), {})  # type: ignore[arg-type]

"""Who is told of every run that an engine starts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rulvar.engine.handle import RunHandle

__all__ = ["Watchers"]

_LOG = logging.getLogger("rulvar")
Watcher = Callable[["RunHandle[Any]"], None]


class Watchers:
    """``engine.watch(callback)`` calls back with every run that starts from then on, before its first event.

    A callback that raises is left out from then on: watching must not stop a run. The errors are kept, and the
    logger ``rulvar`` is told.
    """

    def __init__(self) -> None:
        self._callbacks: list[Watcher] = []
        self.errors: list[Exception] = []

    def __call__(self, callback: Watcher) -> Callable[[], None]:
        """Add a callback and return what removes it."""
        self._callbacks.append(callback)

        def stop() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return stop

    def tell(self, handle: RunHandle[Any]) -> None:
        """Call back with a run that starts."""
        for callback in list(self._callbacks):
            try:
                callback(handle)
            except Exception as error:
                self.errors.append(error)
                _LOG.warning("a watcher of runs failed, and is not called again", exc_info=error)
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

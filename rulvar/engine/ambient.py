"""Observers of every engine in the process.

This is the one piece of process-wide state: a test run must be able to forbid live calls in every
engine that any thread makes, so the switch cannot hang off an engine.
"""

from __future__ import annotations

import threading

from rulvar.contracts.ports.observer import EngineObserver

__all__ = ["ambient_observers", "install_observer", "uninstall_observer"]

_LOCK = threading.Lock()
_OBSERVERS: list[EngineObserver] = []


def install_observer(observer: EngineObserver) -> None:
    """Let an observer see every engine that is made from now on."""
    with _LOCK:
        if observer not in _OBSERVERS:
            _OBSERVERS.append(observer)


def uninstall_observer(observer: EngineObserver) -> None:
    """Forget an observer; engines made meanwhile keep it."""
    with _LOCK:
        if observer in _OBSERVERS:
            _OBSERVERS.remove(observer)


def ambient_observers() -> tuple[EngineObserver, ...]:
    """Return the observers that a new engine gets."""
    with _LOCK:
        return tuple(_OBSERVERS)

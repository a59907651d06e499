"""Strict replay: no live call can happen.

Adapters that could reach a provider are refused when an engine is made, and connections to other
hosts are blocked in case something goes around the engine.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rulvar.contracts.ports.provider import Adapter
from rulvar.errors import ConfigError
from rulvar.testing.fake import FakeAdapter
from rulvar.testing.recorder import RecordingAdapter
from rulvar.testing.replayer import ReplayAdapter

__all__ = ["NetworkBlockedError", "NetworkGuard", "admit_offline", "refuse_live_calls"]

_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})


class NetworkBlockedError(RuntimeError):
    """A connection to another host was attempted where none may be made."""


def admit_offline(adapters: Mapping[str, Adapter], *, listed: Iterable[str] = (), where: str = "") -> None:
    """Refuse adapters that could make a live call.

    Scripted models and replayed cassettes with ``on_miss="throw"`` are admitted, and the adapters
    whose ids the project lists as offline ones of its own.

    Raises:
        ConfigError: names the adapter, and what to use instead.
    """
    own = set(listed)
    for adapter_id, adapter in adapters.items():
        problem = _problem(adapter, adapter_id in own)
        if problem is not None:
            raise ConfigError(
                f'{where + ": " if where else ""}strict replay: adapter "{adapter_id}" {problem}',
                data={"adapterId": adapter_id},
            )


def refuse_live_calls(adapters: Mapping[str, Adapter]) -> None:
    """Put adapters that refuse every call in the place of those that could make a live one."""
    for adapter_id, adapter in adapters.items():
        if _problem(adapter, False) is not None and isinstance(adapters, dict):
            adapters[adapter_id] = _Refusing(adapter)


class _Refusing:
    """Declares what a live adapter declares, and answers nothing."""

    def __init__(self, adapter: Adapter) -> None:
        self.id = adapter.id
        self.caps = adapter.caps
        for name in ("provider", "usage_semantics"):
            if hasattr(adapter, name):
                setattr(self, name, getattr(adapter, name))

    def stream(self, request: Any, signal: Any = None) -> Any:
        raise ConfigError(f'adapter "{self.id}": no live call is made here', data={"adapterId": self.id})


def _problem(adapter: Any, is_listed: bool) -> str | None:
    if isinstance(adapter, ReplayAdapter):
        if adapter.is_hermetic:
            return None
        return 'replays with on_miss="passthrough", which may go live; use on_miss="throw"'
    if isinstance(adapter, RecordingAdapter):
        return "records, which goes live; replay the cassette instead, or run without --rulvar-replay=strict"
    if isinstance(adapter, FakeAdapter) or is_listed:
        return None
    return (
        f"({type(adapter).__module__}.{type(adapter).__qualname__}) may go live; use a fake, a scripted model or "
        "replay(), or list its id in the ini option rulvar_offline_adapters if it never leaves the machine"
    )


class NetworkGuard:
    """Blocks connections and name look-ups that leave the machine, for plain sockets and asyncio's.

    Args:
        where: names the running test, for messages.
    """

    def __init__(self, where: Callable[[], str]) -> None:
        self._where = where
        self._replaced: list[tuple[Any, str, Any, bool]] = []

    def install(self) -> None:
        """Start blocking."""
        if self._replaced:
            return
        for name in ("connect", "connect_ex"):
            self._replace(socket.socket, name, self._guarded_method(getattr(socket.socket, name), 0))
        self._replace(socket.socket, "sendto", self._guarded_method(socket.socket.sendto, -1))
        for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
            self._replace(socket, name, self._guarded_look_up(getattr(socket, name)))

    def uninstall(self) -> None:
        """Put everything back as it was."""
        while self._replaced:
            owner, name, original, own = self._replaced.pop()
            if own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)

    def _replace(self, owner: Any, name: str, replacement: Any) -> None:
        self._replaced.append((owner, name, getattr(owner, name), name in vars(owner)))
        setattr(owner, name, replacement)

    def _guarded_method(self, original: Any, position: int) -> Any:
        def guarded(sock: socket.socket, *args: Any) -> Any:
            if args and sock.family in (socket.AF_INET, socket.AF_INET6):
                self._check(args[position])
            return original(sock, *args)

        return guarded

    def _guarded_look_up(self, original: Any) -> Any:
        def guarded(host: Any, *args: Any, **kwargs: Any) -> Any:
            self._check((host, args[0] if args else None))
            return original(host, *args, **kwargs)

        return guarded

    def _check(self, address: Any) -> None:
        host = address[0] if isinstance(address, (tuple, list)) and address else address
        if is_loopback(host):
            return
        port = address[1] if isinstance(address, (tuple, list)) and len(address) > 1 else None
        target = f"{_shown(host)}:{port}" if port is not None else _shown(host)
        raise NetworkBlockedError(
            f"{self._where()}: connection to {target} blocked: strict replay allows loopback only; "
            "use a fake, a scripted model or a cassette"
        )


def is_loopback(host: Any) -> bool:
    """Whether a host is this machine; None and "" stand for it in look-ups."""
    if isinstance(host, (bytes, bytearray)):
        host = bytes(host).decode("ascii", "replace")
    if host is None or host == "":
        return True
    if not isinstance(host, str):
        return False
    if host.lower().rstrip(".") in _LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _shown(host: Any) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)

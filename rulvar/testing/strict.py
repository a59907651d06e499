"""Strict replay: no live call can happen.

Adapters that could reach a provider are refused when an engine is made, and connections to other
hosts are blocked in case something goes around the engine.

An audit hook cannot be removed, so one hook stands for all guards, and asks those that are installed.
"""

from __future__ import annotations

import gc
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rulvar.contracts.ports.provider import Adapter
from rulvar.errors import ConfigError
from rulvar.testing.fake import FakeAdapter
from rulvar.testing.recorder import RecordingAdapter
from rulvar.testing.replayer import ReplayAdapter
from rulvar.testing.script import ScriptedModel

if TYPE_CHECKING:
    from rulvar.engine.engine import Engine

__all__ = ["NetworkBlockedError", "NetworkGuard", "admit_offline", "engines_made", "refuse_live_calls"]

_GUARDS: list[NetworkGuard] = []
_HOOKED: list[bool] = []
_HARMLESS = frozenset({"caps", "id"})
"""What a subclass of a fake may replace."""
_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})


class NetworkBlockedError(RuntimeError):
    """A connection to another host was attempted where none may be made."""


class OwnNameBlockedError(NetworkBlockedError, OSError):
    """This machine's full name was looked up; ``socket.getfqdn`` is content with its short one then."""


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


def refuse_live_calls(
    adapters: Mapping[str, Adapter], *, listed: Iterable[str] = (), where: str = ""
) -> dict[str, Adapter]:
    """Put adapters that refuse every call in the place of those that could make a live one.

    Returns:
        What was replaced, by id.
    """
    own, replaced = set(listed), {}
    for adapter_id, adapter in list(adapters.items()):
        problem = _problem(adapter, adapter_id in own)
        if problem is not None and isinstance(adapters, dict):
            replaced[adapter_id] = adapter
            adapters[adapter_id] = _Refusing(adapter, f"{where}{': ' if where else ''}{problem}")
    return replaced


def engines_made() -> list[Engine]:
    """Return the engines that exist already: those of modules that were imported before a session began."""
    module = sys.modules.get("rulvar.engine.engine")
    if module is None:
        return []
    # asked of the type: a proxy among these objects must not be woken
    return [found for found in gc.get_objects() if issubclass(type(found), module.Engine)]


class _Refusing:
    """Declares what a live adapter declares, and answers nothing."""

    def __init__(self, adapter: Adapter, problem: str) -> None:
        self._problem = problem
        self.id = adapter.id
        self.caps = adapter.caps
        for name in ("provider", "usage_semantics"):
            if hasattr(adapter, name):
                setattr(self, name, getattr(adapter, name))

    def stream(self, request: Any, signal: Any = None) -> Any:
        raise ConfigError(
            f'no live call is made here: adapter "{self.id}" {self._problem}', data={"adapterId": self.id}
        )


def _problem(adapter: Any, is_listed: bool) -> str | None:
    if isinstance(adapter, ReplayAdapter) and not adapter.is_hermetic:
        return 'replays with on_miss="passthrough", which may go live; use on_miss="throw"'
    if isinstance(adapter, RecordingAdapter):
        return "records, which goes live; replay the cassette instead, or run without --rulvar-replay=strict"
    if is_listed:
        return None
    what = f"({type(adapter).__module__}.{type(adapter).__qualname__})"
    for harmless in (ScriptedModel, FakeAdapter, ReplayAdapter):  # the most derived first
        if isinstance(adapter, harmless):
            changed = _replaced_of(adapter, harmless)
            if not changed:
                return None
            what += f" replaces {changed[0]!r} of {harmless.__name__}, so it"
            break
    return (
        f"{what} may go live; use a fake, a scripted model or "
        "replay(), or list its id in the ini option rulvar_offline_adapters if it never leaves the machine"
    )


def _replaced_of(adapter: Any, kind: type) -> list[str]:
    """Return what decides where an answer comes from, and is not what ``kind`` defines."""
    own = {name for name in vars(kind) if not name.startswith("__")} - _HARMLESS
    classes = type(adapter).__mro__[: type(adapter).__mro__.index(kind)]
    replaced = {name for made in classes for name in vars(made) if name in own or name == "__getattribute__"}
    methods = {name for name in own if callable(getattr(kind, name))}
    return sorted(replaced | (methods & set(getattr(adapter, "__dict__", ()))))


class NetworkGuard:
    """Blocks connections, datagrams and name look-ups that leave the machine, in every thread.

    What Python's own sockets do is seen, however they are reached. Libraries that open sockets in C by
    themselves are not.

    Args:
        where: names the running test, for messages.
    """

    def __init__(self, where: Callable[[], str]) -> None:
        self._where = where

    def install(self) -> None:
        """Start blocking."""
        if not _HOOKED:
            _HOOKED.append(True)
            sys.addaudithook(_see)
        if self not in _GUARDS:
            _GUARDS.append(self)

    def uninstall(self) -> None:
        """Stop blocking."""
        if self in _GUARDS:
            _GUARDS.remove(self)

    def refuse(self, event: str, host: Any, port: Any) -> None:
        """Raise because something is about to leave the machine."""
        target = f"{_shown(host)}:{port}" if port is not None else _shown(host)
        kind = NetworkBlockedError
        if event == "socket.gethostbyaddr" and host == socket.gethostname():
            kind = OwnNameBlockedError
        raise kind(
            f"{self._where()}: connection to {target} blocked: strict replay allows loopback only; "
            "use a fake, a scripted model or a cassette"
        )


def _see(event: str, args: tuple[Any, ...]) -> None:
    """Hear of everything that is audited in the process; nearly all of it is something else."""
    if not event.startswith("socket."):
        return
    innermost = _GUARDS[-1:]
    if not innermost:
        return
    address_of = _ADDRESSES.get(event)
    if address_of is None:
        return
    address = address_of(args)
    if address is None:
        return
    host, port = address
    if not is_loopback(host):
        innermost[0].refuse(event, host, port)


def _peer(args: tuple[Any, ...]) -> tuple[Any, Any] | None:
    sock, address = args[0], args[1]
    if address is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    return _host_and_port(address)


def _host_and_port(address: Any) -> tuple[Any, Any]:
    if not isinstance(address, (tuple, list)) or not address:
        return address, None
    return address[0], address[1] if len(address) > 1 else None


_ADDRESSES: Mapping[str, Callable[[tuple[Any, ...]], tuple[Any, Any] | None]] = {
    "socket.connect": _peer,
    "socket.sendto": _peer,
    "socket.sendmsg": _peer,
    "socket.getaddrinfo": lambda args: (args[0], args[1]),
    "socket.gethostbyname": lambda args: (args[0], None),
    "socket.gethostbyaddr": lambda args: (args[0], None),
    "socket.getnameinfo": lambda args: _host_and_port(args[0]),
}
"""Audited events that may leave the machine, and whom they would reach."""


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

"""A real HTTP server on 127.0.0.1 that plays a provider: slow, broken and hostile where a test says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass
class Reply:
    """One answer.

    Attributes:
        pieces: body pieces; a float waits that many seconds, None drops the connection.
        declared: content length to declare; None streams in chunks.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Iterable[bytes | float | None] = ()
    declared: int | None = None


@dataclass
class Received:
    """One request, as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class LoopbackServer:
    """Answers requests in order with what it is given; the last reply repeats."""

    def __init__(self, *replies: Reply | Callable[[Received], Reply]) -> None:
        self.replies = list(replies)
        self.received: list[Received] = []
        self.connections = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def open(self) -> int:
        """How many connections are open."""
        return len(self._tasks)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (request := await self._read(reader)) is not None:
                at = min(len(self.received), len(self.replies) - 1)
                self.received.append(request)
                reply = self.replies[at]
                if not await self._write(writer, reply if isinstance(reply, Reply) else reply(request)):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> Received | None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        headers = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if colon:
                headers[name.strip().lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Received(method, path, headers, body)

    async def _write(self, writer: asyncio.StreamWriter, reply: Reply) -> bool:
        headers = {"content-type": "text/event-stream", **reply.headers}
        chunked = reply.declared is None
        headers["transfer-encoding" if chunked else "content-length"] = (
            "chunked" if chunked else str(reply.declared)
        )
        lines = [f"HTTP/1.1 {reply.status} X", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await writer.drain()
        for piece in reply.pieces:
            if piece is None:
                writer.transport.abort()
                return False
            if isinstance(piece, float):
                await asyncio.sleep(piece)
                continue
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            await writer.drain()
        if chunked:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return True


def sse(*events: Mapping[str, Any] | str) -> list[bytes]:
    """Return server-sent events, one piece each; a text is sent as it is."""
    pieces = []
    for event in events:
        if isinstance(event, str):
            pieces.append(event.encode("utf-8"))
        else:
            name = f"event: {event['type']}\n" if "type" in event else ""
            pieces.append(f"{name}data: {json.dumps(event)}\n\n".encode())
    return pieces


def failure(status: int, message: str = "", **headers: str) -> Reply:
    """Return an error answer as providers send it."""
    body = json.dumps({"type": "error", "error": {"type": "x_error", "message": message}}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"content-type": "application/json", **named}, [body], declared=len(body))

"""A proxy in front of a server that cuts one connection at a chosen moment: before a request, or before its answer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal, Self

__all__ = ["CuttingProxy"]


class CuttingProxy:
    """Passes bytes on, and counts what clients send.

    Args:
        port: of the server, on loopback.
        cut_at: the number of the request whose connection is cut, from 0; None cuts nothing.
        before: ``"request"`` loses the request itself; ``"answer"`` has it served, and loses the answer.

    Attributes:
        requests: how many pieces clients have sent so far.
    """

    def __init__(
        self, port: int, cut_at: int | None = None, before: Literal["request", "answer"] = "request"
    ) -> None:
        self._upstream = port
        self._cut_at = cut_at
        self._before = before
        self._tasks: set[asyncio.Task[None]] = set()
        self.requests = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        answers = asyncio.create_task(self._pass_on(up_reader, writer))
        try:
            while data := await reader.read(1 << 20):
                number, self.requests = self.requests, self.requests + 1
                if number == self._cut_at and self._before == "request":
                    break
                if number == self._cut_at:
                    answers.cancel()
                    await asyncio.wait([answers])
                    up_writer.write(data)
                    await up_reader.read(1)  # it has been served
                    break
                up_writer.write(data)
                await up_writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            answers.cancel()
            await asyncio.wait([answers])
            for end in (writer, up_writer):
                with contextlib.suppress(Exception):
                    end.transport.abort()

    @staticmethod
    async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                writer.write(data)
                await writer.drain()
            writer.close()

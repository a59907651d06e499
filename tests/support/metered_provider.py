"""A model provider on loopback that answers after a while, and keeps count of the calls under way."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from typing import Self

__all__ = ["MeteredProvider", "call_provider"]


class MeteredProvider:
    """Counts calls as a provider would: from the request to the answer, or to the end of the connection.

    Attributes:
        starts: when each call came, in order, by the monotonic clock.
        under_way: how many calls each process has under way.
        most: how many there ever were at once; set it back to measure anew.
    """

    def __init__(self, answers_after_s: float) -> None:
        self.answers_after_s = answers_after_s
        self.starts: list[float] = []
        self.under_way: Counter[int] = Counter()
        self.most = 0
        self.answered: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid, _, name = (await reader.readline()).decode().strip().partition(" ")
        self.starts.append(time.monotonic())
        self.under_way[int(pid)] += 1
        self.most = max(self.most, self.under_way.total())
        try:
            with contextlib.suppress(TimeoutError, ConnectionError):
                await asyncio.wait_for(reader.read(), self.answers_after_s)
                return  # the caller is gone
            self.answered[name] += 1
        finally:
            self.under_way[int(pid)] -= 1  # before the caller can know
            with contextlib.suppress(ConnectionError):
                writer.write(b"done\n")
                writer.close()


async def call_provider(port: int, pid: int, name: str) -> str:
    """Make one call and return the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{pid} {name}\n".encode())
        answer = (await reader.readline()).decode().strip()
        assert answer == "done", answer
        return answer
    finally:
        writer.close()

"""A side effect that counts: a service on loopback that hands out a receipt for every call it gets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socketserver
import threading
from collections import defaultdict
from collections.abc import Iterator

__all__ = ["CountingService", "call_service"]


class CountingService:
    """Hands out receipts 1, 2, 3 ...; remembers which ones each name got, in order, and which process asked."""

    def __init__(self) -> None:
        self.receipts: defaultdict[str, list[int]] = defaultdict(list)
        self.callers: dict[int, int] = {}
        self._guard = threading.Lock()
        self._count = 0
        service = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                name, _, pid = self.rfile.readline().decode().strip().partition(" ")
                if name:
                    self.wfile.write(f"{service.take(name, int(pid))}\n".encode())

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 256
            allow_reuse_address = True

            def handle_error(self, request: object, client_address: object) -> None:
                """A caller that was killed is nothing to print."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def take(self, name: str, pid: int) -> int:
        """Count one call of a process."""
        with self._guard:
            self._count += 1
            self.receipts[name].append(self._count)
            self.callers[self._count] = pid
            return self._count

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Answer nobody for a while; calls wait."""
        with self._guard:
            yield

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


async def call_service(port: int, name: str) -> int:
    """Call the service and return the receipt."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{name} {os.getpid()}\n".encode())
        return int(await reader.readline())
    finally:
        writer.close()

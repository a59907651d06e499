"""JSON-RPC as this server speaks it: every request is answered once, no message can stop the
server.

A subclass of pygls' protocol that replaces how messages are read, structured, dispatched and
answered (the tests in `tests/rulvar_lsp/edge/test_protocol.py` name the fault that each replacement
removes). Handlers are plain callables `(params) -> result or awaitable`; they start in the order of
the messages.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable, iscoroutine
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp
from pygls.protocol import LanguageServerProtocol

from rulvar_lsp.edge.sanitize import sanitized
from rulvar_lsp.edge.transport import Inbox, Malformed, frame

if TYPE_CHECKING:
    from typing import BinaryIO

    from cattrs import Converter
    from pygls.lsp.server import LanguageServer

logger = logging.getLogger(__name__)

Handler = Callable[[Any], Any]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_INITIALIZED = -32002
REQUEST_FAILED = -32803
SERVER_CANCELLED = -32802
CONTENT_MODIFIED = -32801
REQUEST_CANCELLED = -32800

# answers that hold positions: worthless once a newer text is on its way
_POSITIONED = frozenset(
    {
        lsp.TEXT_DOCUMENT_INLAY_HINT,
        lsp.TEXT_DOCUMENT_CODE_LENS,
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.TEXT_DOCUMENT_HOVER,
        lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL,
        lsp.TEXT_DOCUMENT_DOCUMENT_LINK,
        lsp.TEXT_DOCUMENT_DEFINITION,
        lsp.TEXT_DOCUMENT_REFERENCES,
    }
)


# read leniently by their handlers: capabilities, settings and arguments of any shape
_RAW = frozenset({lsp.INITIALIZE, lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, lsp.WORKSPACE_EXECUTE_COMMAND})


class ResponseFault(Exception):
    """An answer that is an error: a JSON-RPC code, a text for the log or the user, data for the
    client.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class RulvarProtocol(LanguageServerProtocol):
    """The message loop: inbox in, handlers called, answers out."""

    def __init__(self, server: LanguageServer, converter: Converter) -> None:
        super().__init__(server, converter)
        self.handlers: dict[str, Handler] = {}
        self.inbox: Inbox | None = None
        self.state = "new"  # new -> initialized -> shutdown
        self.on_exit: Callable[[int], None] = lambda code: None
        self._out: BinaryIO | None = None
        self._tasks: dict[int | str, asyncio.Future[Any]] = {}  # of the client's requests
        self._work: set[asyncio.Future[Any]] = set()  # of the server's own
        self._asked: dict[str, asyncio.Future[Any]] = {}
        self._ids = itertools.count(1)
        self._pending: Callable[[], None] | None = None

    def _register_builtin_features(self) -> None:
        """pygls' own handlers are not used: they keep documents in another way."""

    # -- wiring ---------------------------------------------------------------------------------
    def connect(self, inbox: Inbox, out: BinaryIO) -> None:
        """Read from `inbox` and write to `out` from now on."""
        self.inbox = inbox
        self._out = out

    def after_first_answer(self, work: Callable[[], None]) -> None:
        """Do this once the answer that is being made has been written, and before any other message."""
        self._pending = work
        asyncio.get_running_loop().call_soon(self._do_pending)

    def _do_pending(self) -> None:
        work, self._pending = self._pending, None
        if work is not None:
            work()

    def drain(self) -> None:
        """Handle every message that has arrived; at the end of input, exit."""
        inbox = self.inbox
        assert inbox is not None
        while (message := inbox.take()) is not None:
            if isinstance(message, Malformed):
                logger.warning("ignored a message: %s", message.reason)
                self._answer_fault(None, ResponseFault(PARSE_ERROR, message.reason))
                continue
            try:
                self.receive(message)
            except Exception:
                logger.exception("a message could not be handled")
        if inbox.closed:
            self.on_exit(0 if self.state == "shutdown" else 1)

    # -- incoming -------------------------------------------------------------------------------
    def receive(self, message: dict[str, Any]) -> None:
        """Handle one message of the client."""
        self._do_pending()
        method, msg_id = message.get("method"), message.get("id")
        if not isinstance(method, str):
            if "id" in message and ("result" in message or "error" in message):
                self._receive_answer(message)
            else:
                self._answer_fault(None, ResponseFault(INVALID_REQUEST, "no method"))
        elif "id" not in message:
            self._receive_notification(method, message.get("params"))
        elif isinstance(msg_id, int | str) and not isinstance(msg_id, bool):
            self._receive_request(msg_id, method, message.get("params"))
        else:
            fault = ResponseFault(INVALID_REQUEST, "id: expected an integer or a string")
            self._answer_fault(None, fault)

    def _receive_request(self, msg_id: int | str, method: str, raw: object) -> None:
        try:
            self._check_state(method)
            self._check_wanted(msg_id, method, raw)
            handler = self.handlers.get(method)
            if handler is None:
                raise ResponseFault(METHOD_NOT_FOUND, f"{method}: not supported by this server")
            result = handler(self._structure(method, raw))
        except ResponseFault as fault:
            self._answer_fault(msg_id, fault)
        except Exception as error:
            self._answer_fault(msg_id, self._internal(method, error))
        else:
            if isawaitable(result):
                task = asyncio.ensure_future(result)
                self._tasks[msg_id] = task
                task.add_done_callback(lambda done: self._finish(msg_id, method, done))
            else:
                self._answer(msg_id, result)

    def _finish(self, msg_id: int | str, method: str, task: asyncio.Future[Any]) -> None:
        if self._tasks.get(msg_id) is task:  # an id may come again before its answer
            del self._tasks[msg_id]
        if task.cancelled():  # perhaps before its first step: only a callback sees that
            self._answer_fault(msg_id, ResponseFault(REQUEST_CANCELLED, f"{method}: cancelled"))
        elif (error := task.exception()) is None:
            self._answer(msg_id, task.result())
        elif isinstance(error, ResponseFault):
            self._answer_fault(msg_id, error)
        else:
            self._answer_fault(msg_id, self._internal(method, error))

    def _check_state(self, method: str) -> None:
        if self.state == "new" and method != lsp.INITIALIZE:
            raise ResponseFault(NOT_INITIALIZED, f"{method}: the server is not initialized")
        if self.state == "initialized" and method == lsp.INITIALIZE:
            raise ResponseFault(INVALID_REQUEST, "initialize: the server is initialized already")
        if self.state == "shutdown":
            raise ResponseFault(INVALID_REQUEST, f"{method}: the server was shut down")

    def _check_wanted(self, msg_id: int | str, method: str, raw: object) -> None:
        inbox = self.inbox
        if inbox is None:
            return
        if inbox.is_cancelled(msg_id):
            raise ResponseFault(REQUEST_CANCELLED, f"{method}: cancelled")
        if method in _POSITIONED and isinstance(raw, dict):
            document = raw.get("textDocument")
            uri = document.get("uri") if isinstance(document, dict) else None
            if isinstance(uri, str) and inbox.has_newer(uri):
                raise ResponseFault(CONTENT_MODIFIED, f"{method}: the document changed")

    def _receive_notification(self, method: str, raw: object) -> None:
        if method == lsp.EXIT:
            self.on_exit(0 if self.state == "shutdown" else 1)
        elif method == lsp.CANCEL_REQUEST:
            self._cancel(raw)
        elif self.state != "initialized":
            logger.debug("ignored %s: the server is %s", method, self.state)
        elif (handler := self.handlers.get(method)) is not None:
            try:
                result = handler(self._structure(method, raw))
            except ResponseFault as fault:
                logger.warning("ignored %s: %s", method, fault.message)
            except Exception:
                logger.exception("%s failed", method)
            else:
                if isawaitable(result):
                    self.spawn(result, method)
        elif not method.startswith("$/"):
            logger.debug("ignored %s: not supported", method)

    def _cancel(self, raw: object) -> None:
        msg_id = raw.get("id") if isinstance(raw, dict) else None
        if isinstance(msg_id, int | str):
            if self.inbox is not None:
                self.inbox.forget(msg_id)
            if (task := self._tasks.get(msg_id)) is not None:
                task.cancel()

    def spawn(self, work: Awaitable[Any], name: str) -> asyncio.Task[Any]:
        """Run work that nobody waits for; a failure is logged under `name`."""

        async def guarded() -> None:
            try:
                await work
            except Exception:
                logger.exception("%s failed", name)

        task = asyncio.ensure_future(guarded())
        self._work.add(task)

        def done(ended: asyncio.Future[None]) -> None:
            self._work.discard(ended)
            if iscoroutine(work):
                work.close()  # it was never begun where the task was cancelled before its first step

        task.add_done_callback(done)
        return task

    def cancel_all(self) -> None:
        """Cancel every running handler."""
        for task in [*self._tasks.values(), *self._work]:
            task.cancel()

    @property
    def running(self) -> int:
        """Number of requests that are worked on."""
        return len(self._tasks)

    @property
    def working(self) -> int:
        """Number of things the server does that nobody waits for."""
        return len(self._work)

    @property
    def asking(self) -> int:
        """Number of requests that the client has not answered."""
        return len(self._asked)

    def _structure(self, method: str, raw: object) -> Any:
        kinds = lsp.METHOD_TO_TYPES.get(method)
        params_type: Any = kinds[2] if kinds else None
        if params_type is None or method in _RAW:
            return raw
        try:
            return self._converter.structure(raw, params_type)
        except Exception:
            pass
        try:  # foreign tools' values and absurd positions: repaired where the meaning is plain
            return self._converter.structure(sanitized(raw), params_type)
        except Exception as error:
            raise ResponseFault(INVALID_PARAMS, f"{method}: invalid params ({_first(error)})") from None

    def _internal(self, method: str, error: BaseException) -> ResponseFault:
        logger.error("%s failed", method, exc_info=error)
        return ResponseFault(INTERNAL_ERROR, f"{method}: internal error ({type(error).__name__})")

    # -- outgoing -------------------------------------------------------------------------------
    def _answer(self, msg_id: int | str, result: object) -> None:
        try:
            body = self._converter.unstructure(result)
            self.write({"jsonrpc": "2.0", "id": msg_id, "result": body})
        except OSError:
            raise
        except Exception as error:
            self._answer_fault(msg_id, self._internal("answer", error))

    def _answer_fault(self, msg_id: int | str | None, fault: ResponseFault) -> None:
        error: dict[str, object] = {"code": fault.code, "message": fault.message}
        if fault.data is not None:
            error["data"] = fault.data
        self.write({"jsonrpc": "2.0", "id": msg_id, "error": error})

    def prepare(self, received: Iterable[str], sent: Iterable[type]) -> None:
        """Make what converts the params of these methods and these values now: it takes milliseconds for each."""
        for method in received:
            self._converter.get_structure_hook(lsp.METHOD_TO_TYPES[method][2])
        for kind in sent:
            self._converter.get_unstructure_hook(kind)

    def plain(self, value: Any) -> Any:
        """The JSON form of a protocol value."""
        return self._converter.unstructure(value)

    def notify(self, method: str, params: Any | None = None) -> None:
        """Send a notification."""
        self.write({"jsonrpc": "2.0", "method": method, "params": self._converter.unstructure(params)})

    async def ask(self, method: str, params: Any | None = None, timeout: float = 30.0) -> Any:
        """Send a request to the client and return its raw result.

        Raises `ResponseFault` when the client refuses and `TimeoutError` when it does not answer.
        """
        key = f"rulvar-{next(self._ids)}"
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[key] = future
        try:
            body = self._converter.unstructure(params)
            self.write({"jsonrpc": "2.0", "id": key, "method": method, "params": body})
            return await asyncio.wait_for(future, timeout)
        finally:
            self._asked.pop(key, None)

    def _receive_answer(self, message: dict[str, Any]) -> None:
        future = self._asked.pop(str(message["id"]), None)
        if future is None or future.done():
            return
        error = message.get("error")
        if isinstance(error, dict):
            text = str(error.get("message", "refused"))
            future.set_exception(ResponseFault(REQUEST_FAILED, text))
        else:
            future.set_result(message.get("result"))

    def write(self, message: object) -> None:
        """Write a message; a client that is gone ends the server."""
        if self._out is None:
            return
        try:
            self._out.write(frame(message))
            self._out.flush()
        except (OSError, ValueError):
            self._out = None
            self.on_exit(1)


def _first(error: BaseException) -> str:
    """The innermost cause, without the nesting that a converter wraps around it."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:200]

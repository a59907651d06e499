"""Stand-ins for tools: a plain mock, and a fake that keeps to the tool's contract."""

from __future__ import annotations

from typing import Any, Self
from unittest.mock import DEFAULT, AsyncMock

from rulvar.contracts.envelope import ToolEnvelope, decode_envelope
from rulvar.contracts.jsonable import journal_value
from rulvar.errors import ConfigError, FakeResponderError
from rulvar.tools.tool import Tool

__all__ = ["ContractFake", "ToolMock", "contract_fake", "tool_mock"]


class ToolMock(AsyncMock):
    """An AsyncMock that stands for a tool and for the whole pipeline around it.

    It is called with the arguments object. Script it with ``returns(envelope)``, or as any mock with
    ``return_value`` and ``side_effect``; a call before that fails the run.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        tool_id = kwargs.pop("tool_id", None)
        super().__init__(*args, **kwargs)
        if tool_id is not None:
            self.side_effect = _Unscripted(self, tool_id)

    def _get_child_mock(self, /, **kwargs: Any) -> Any:
        return AsyncMock(**kwargs)

    async def _execute_mock_call(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super()._execute_mock_call(*args, **kwargs)
        except StopAsyncIteration:  # a list of side effects that is used up
            raise FakeResponderError(
                f"the mock of tool {self._mock_name} has no response left at call {self.await_count}: add one to "
                "side_effect, or find the call that is too many",
                data={"tool": self._mock_name},
            ) from None

    def returns(self, envelope: Any) -> Self:
        """Answer every call with an envelope (``{"data": ...}`` or ``{"error": ...}``) or plain data."""
        self.return_value = envelope
        return self


class _Unscripted:
    """What a mock does as long as nobody has told it."""

    def __init__(self, mock: ToolMock, tool_id: str) -> None:
        self._mock = mock
        self._tool_id = tool_id

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._mock._mock_return_value is not DEFAULT:
            return DEFAULT
        raise FakeResponderError(
            f"the mock of tool {self._tool_id} was called and has no response; script it with "
            f'returns({{"data": ...}}), return_value or side_effect',
            data={"tool": self._tool_id},
        )


def tool_mock(tool: Tool | str) -> ToolMock:
    """Return a mock to put in ``overrides={tool: mock}``; it checks nothing."""
    return ToolMock(name=_id(tool), tool_id=_id(tool))


class ContractFake:
    """A scripted stand-in whose every response fits the tool's result schema.

    Attributes:
        call: an AsyncMock that sees every call; assert on it.
    """

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._once: list[Any] = []
        self._standing: Any = DEFAULT
        self.call = AsyncMock(name=tool.id, side_effect=self._answer)

    def returns(self, envelope: Any) -> Self:
        """Answer every call, once what is queued is used up.

        Raises:
            ConfigError: it does not fit the tool's result schema, or is an error; names the tool.
        """
        self._standing = self._checked(envelope)
        return self

    def returns_once(self, envelope: Any) -> Self:
        """Answer one call; calls are answered in the order of scripting."""
        self._once.append(self._checked(envelope))
        return self

    def __call__(self, args: Any, **options: Any) -> Any:
        return self.call(args, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("assert_", "await")) or name in ("called", "call_count", "call_args"):
            return getattr(self.call, name)
        raise AttributeError(name)

    def _answer(self, args: Any, **options: Any) -> Any:
        if self._once:
            return self._once.pop(0)
        if self._standing is not DEFAULT:
            return self._standing
        raise FakeResponderError(
            f"the fake of tool {self._tool.id} was called and has no response; script it with "
            f'returns({{"data": ...}}) or returns_once(...)',
            data={"tool": self._tool.id},
        )

    def _checked(self, given: Any) -> ToolEnvelope:
        what = f"contract_fake({self._tool.id})"
        envelope = decode_envelope(given, what)
        if envelope.error is not None or envelope.pending is not None:
            raise ConfigError(
                f"{what}: only successful results have a contract; script an error with tool_mock or in a fixture",
                data={"tool": self._tool.id},
            )
        data = journal_value(envelope.data, what)
        result = self._tool.result
        issues = [] if result is None else result.issues(data)
        if issues:
            path = "".join(f"[{part!r}]" for part in issues[0].path)
            raise ConfigError(
                f"{what}: the scripted result does not fit its result_schema: data{path}: {issues[0].message}",
                data={"tool": self._tool.id, "issues": [issue.to_wire() for issue in issues]},
            )
        return envelope


def contract_fake(tool: Tool) -> ContractFake:
    """Return a fake to put in ``overrides={tool: fake}``; a response that drifts from the contract is refused."""
    if not isinstance(tool, Tool):
        raise ConfigError(
            f"contract_fake: expected a tool made by @tool, got {type(tool).__name__}", data={"field": "tool"}
        )
    return ContractFake(tool)


def _id(tool: Tool | str) -> str:
    if isinstance(tool, Tool):
        return tool.id
    if isinstance(tool, str) and tool:
        return tool
    raise ConfigError(
        f"tool_mock: expected a tool or its id, got {type(tool).__name__}", data={"field": "tool"}
    )

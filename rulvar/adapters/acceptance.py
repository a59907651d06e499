"""Whether a provider takes an agent's tools and answer: checked when the agent is defined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rulvar.contracts.messages import ToolContract
from rulvar.contracts.strictness import StrictIssue, strict_issues
from rulvar.errors import ConfigError

__all__ = ["MAX_TOOLS", "check_agent_shape", "check_media"]

MAX_TOOLS = 128


def check_agent_shape(
    tools: Sequence[ToolContract], output: Any, media: Sequence[str], seen: Sequence[str]
) -> None:
    """Check an agent against the strict rules that the providers share.

    Args:
        tools: what the agent may call.
        output: JSON Schema of its answer, or None for an answer in plain text.
        media: media types of its input.
        seen: prefixes of the media types that the model can see.

    Raises:
        ConfigError: something is refused; the message names it and its field.
    """
    if len(tools) > MAX_TOOLS:
        raise ConfigError(f"tools: {len(tools)}, and a provider takes {MAX_TOOLS}", data={"field": "tools"})
    for tool in tools:
        _check(f"tool {tool.name!r} input", tool.parameters)
    if output is not None:
        _check("output", output)
    check_media(media, seen)


def check_media(media: Sequence[str], seen: Sequence[str]) -> None:
    """Check that a model can see an agent's media.

    Raises:
        ConfigError: it cannot; names the media type.
    """
    for kind in media:
        if not kind.startswith(tuple(seen)):
            raise ConfigError(f"media: the model cannot see {kind}", data={"field": "media"})


def _check(where: str, schema: Any) -> None:
    issues = strict_issues(schema if isinstance(schema, Mapping) else None)
    if issues:
        raise _refused(where, issues)


def _refused(where: str, issues: list[StrictIssue]) -> ConfigError:
    first = issues[0]
    more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    return ConfigError(
        f"{where} at {first.pointer or '/'}: {first.message}{more}; strict_schema() makes such a schema strict",
        data={"field": first.name or where, "pointer": first.pointer, "where": where},
    )

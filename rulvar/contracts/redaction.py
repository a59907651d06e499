"""Masks credentials before anything is written: in texts, in JSON values, in streams of events.

A custom hook runs first, the built-in policy over its output. The policy knows the shapes of
credentials and the names they go by; it does not know a customer's data, which is what the hook is
for. Masking is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rulvar.contracts.credential_names import find_named_values, mask_spans, name_kind
from rulvar.contracts.messages import (
    ChatRequest,
    ImagePart,
    Msg,
    ProviderRawPart,
    ToolCallPart,
    ToolContract,
    ToolResultPart,
)
from rulvar.contracts.secret_shapes import MASK, Secret, find_shapes
from rulvar.contracts.stream import (
    Finish,
    FinishInfo,
    Refusal,
    StreamError,
    ToolCallDelta,
    ToolCallEnd,
    WireError,
)
from rulvar.contracts.usage import Usage
from rulvar.errors import ConfigError

__all__ = ["MASK", "Masked", "Redaction", "Redactor", "default_redact", "find_secrets"]

Redact = Callable[[str], str]
_MOST_PASSES = 8
_MOST_CLEAN_KEYS = 10_000
_FORMATS = (
    ChatRequest, Msg, ImagePart, ToolCallPart, ToolResultPart, ProviderRawPart, ToolContract, ToolCallDelta,
    ToolCallEnd, Finish, FinishInfo, Refusal, StreamError, WireError, Usage,
)  # fmt: skip
_OWN_NAMES = frozenset({"type", "text", "category", "explanation", "kind", "retryAfterMs"}).union(
    *(format_.__struct_encode_fields__ for format_ in _FORMATS)
)
"""Keys of requests and events. A hook is made for what people write, and never renames these."""


@dataclass(frozen=True, slots=True)
class Masked:
    """One masked place: the field path in the value, and the rule that fired (``custom`` for the hook)."""

    path: str
    rule: str


def default_redact(text: str) -> str:
    """Return the text with every credential replaced by ``[REDACTED]``.

    Masks API-key shapes of the known providers, bearer and basic credentials, values that are named
    ``authorization``, ``api_key``, ``*_token``, ``password`` and the like (inside escaped JSON too),
    JSON web tokens, passwords in URLs and private-key blocks. Prose is left alone.

    Raises:
        ConfigError: it is no text.
    """
    if not isinstance(text, str):
        raise ConfigError(f"default_redact: expected a text, got {type(text).__name__}")
    return _mask(text, None)


def find_secrets(text: str) -> list[Secret]:
    """Return the credentials in a text, in order, without overlaps; masked ones are not found again."""
    lower = text.lower()
    found = [*find_shapes(text, lower), *find_named_values(text, lower)]
    return _merge(found) if len(found) > 1 else found


@dataclass(frozen=True, slots=True)
class Redaction:
    """A redacted value, and what was masked where."""

    value: Any
    masked: tuple[Masked, ...]


class Redactor:
    """Redacts JSON values with the built-in policy, after an optional hook.

    The hook takes and returns a text; it sees every string of a value, and every key that is not a name of the
    formats themselves (``role``, ``inputTokens``).
    """

    def __init__(self, hook: Redact | None = None) -> None:
        if hook is not None and not callable(hook):
            raise ConfigError(f"redact: expected a function of a text, got {type(hook).__name__}")
        self._hook = hook
        self._clean_keys: set[str] = set()

    def redact(self, value: Any, path: str = "") -> Redaction:
        """Return a redacted copy of a JSON value; parts without a credential are shared with it.

        Raises:
            ConfigError: the hook failed or returned something else than a text.
        """
        masked: list[Masked] = []
        return Redaction(self._value(value, path, None, masked), tuple(masked))

    def redact_events(self, events: list[Any], path: str = "events") -> Redaction:
        """Return redacted chat events (plain JSON objects).

        Pieces of one text that arrive as several deltas are redacted as one text too, so that a
        credential cut in two by the stream is still masked: the whole text then stands in the first
        of the pieces.
        """
        redacted = self.redact(events, path)
        masked = list(redacted.masked)
        result = list(redacted.value)
        for field, indexes in _delta_runs(result):
            found: list[Masked] = []
            pieces = [(events[index][field], result[index][field]) for index in indexes]
            joined = self._joined(pieces, f"{path}[{indexes[0]}].{field}", found)
            if joined != "".join(redacted for _, redacted in pieces):
                masked += found
                for index in indexes:
                    result[index] = {**result[index], field: joined if index == indexes[0] else ""}
        return Redaction(result, tuple(masked))

    def _joined(self, pieces: list[tuple[str, str]], path: str, masked: list[Masked]) -> str:
        """Return the text of pieces (as they came, and redacted one by one), redacted as one.

        What was masked in a piece alone is masked in the whole too.
        """
        whole = self._apply_hook("".join(piece for piece, _ in pieces), path, masked)
        hooked = [self._apply_hook(piece, path, []) for piece, _ in pieces]
        secrets = find_secrets(whole)
        is_of_pieces = whole == "".join(hooked)
        position = 0
        for piece, (_, redacted) in zip(hooked, pieces, strict=True):
            if is_of_pieces and redacted != piece:
                secrets += [secret.moved(position) for secret in find_secrets(piece)]
            position += len(piece)
        masked.extend(Masked(path, secret.rule) for secret in secrets)
        joined = _mask(_replace(whole, _merge(secrets) if len(secrets) > 1 else secrets), None)
        if not is_of_pieces:  # the hook masked across pieces, and places moved
            for piece, (_, redacted) in zip(hooked, pieces, strict=True):
                joined = joined.replace(piece, redacted) if redacted != piece else joined
        return joined

    def _value(self, value: Any, path: str, name: str | None, masked: list[Masked]) -> Any:
        kind = type(value)
        if kind is str:
            return self._named(value, path, name, masked) if name else self._text(value, path, masked)
        if kind is dict:
            return self._object(value, path, masked)
        if kind is list or kind is tuple:
            items = [self._value(item, f"{path}[{i}]", name, masked) for i, item in enumerate(value)]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        return value

    def _object(self, value: dict[Any, Any], path: str, masked: list[Masked]) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        changed = False
        for key, item in value.items():
            new_key = self._key(key, path, result, masked)
            here = f"{path}.{new_key}" if path else str(new_key)
            new_item = self._value(item, here, key if isinstance(key, str) else None, masked)
            changed = changed or new_key is not key or new_item is not item
            result[new_key] = new_item
        return result if changed else value

    def _key(self, key: Any, path: str, taken: dict[Any, Any], masked: list[Masked]) -> Any:
        if not isinstance(key, str) or key in self._clean_keys or key in _OWN_NAMES:
            return key
        new = self._text(key, path, masked)
        if new == key:
            if len(self._clean_keys) < _MOST_CLEAN_KEYS:
                self._clean_keys.add(key)
            return key
        count = 2
        unique = new
        while unique in taken:
            unique, count = f"{new} {count}", count + 1
        return unique

    def _text(self, text: str, path: str, masked: list[Masked]) -> str:
        hooked = self._apply_hook(text, path, masked)
        rules: list[str] = []
        redacted = _mask(hooked, rules)
        masked.extend(Masked(path, rule) for rule in rules)
        return text if redacted == text else redacted

    def _named(self, text: str, path: str, name: str, masked: list[Masked]) -> str:
        redacted = self._text(text, path, masked)
        kind = name_kind(name) if len(name) <= 80 else None
        if kind is None:
            return redacted
        spans = [Secret(*span, f"{kind}-value") for span in mask_spans(kind, redacted, 0, len(redacted))]
        if not spans:
            return redacted
        masked.extend(Masked(path, span.rule) for span in spans)
        return _replace(redacted, spans)

    def _apply_hook(self, text: str, path: str, masked: list[Masked]) -> str:
        if self._hook is None:
            return text
        try:
            hooked = self._hook(text)
        except Exception as error:
            raise ConfigError(
                f"redact: the hook raised {type(error).__name__} at {path or 'the text'}"
            ) from error
        if not isinstance(hooked, str):
            raise ConfigError(f"redact: the hook must return a text, got {type(hooked).__name__} at {path}")
        if hooked != text:
            masked.append(Masked(path, "custom"))
        return hooked


def _mask(text: str, rules: list[str] | None) -> str:
    for _ in range(_MOST_PASSES):
        secrets = find_secrets(text)
        if not secrets:
            break
        if rules is not None:
            rules.extend(secret.rule for secret in secrets)
        masked = _replace(text, secrets)
        if masked == text:
            break
        text = masked
    return text


def _replace(text: str, secrets: Iterable[Secret]) -> str:
    out: list[str] = []
    position = 0
    for secret in secrets:
        out.append(text[position : secret.start])
        out.append(secret.mask)
        position = secret.end
    out.append(text[position:])
    return "".join(out)


def _merge(found: list[Secret]) -> list[Secret]:
    found.sort(key=lambda secret: (secret.start, -secret.end))
    merged = [found[0]]
    for secret in found[1:]:
        last = merged[-1]
        if secret.start >= last.end:
            merged.append(secret)
        elif secret.end > last.end:
            merged[-1] = Secret(last.start, secret.end, last.rule, last.mask)
    return merged


_DELTA_FIELDS = {"text-delta": "text", "reasoning-delta": "text", "tool-call-delta": "argsTextDelta"}


def _delta_runs(events: list[Any]) -> list[tuple[str, list[int]]]:
    """Return, per text that arrives in pieces, its field and the indexes of its deltas."""
    runs: dict[tuple[str, Any], list[int]] = {}
    for index, event in enumerate(events):
        if not isinstance(event, dict):
            continue
        field = _DELTA_FIELDS.get(event.get("type", ""))
        if field is not None and isinstance(event.get(field), str):
            runs.setdefault((event["type"], event.get("id")), []).append(index)
    return [(_DELTA_FIELDS[kind], run) for (kind, _), run in runs.items() if len(run) > 1]

"""Canonical JSON: the exact bytes that are hashed.

The form is RFC 8785: keys sorted by UTF-16 code units, no white space, ECMAScript number and string
formatting. ``orjson`` writes most values that way already; one walk turns the numbers that it writes
differently (integral and extreme floats, integers beyond 2^53) into ones that it does not, and an
exact encoder takes the rest (lone surrogates, keys whose UTF-16 order may differ from their code
point order).
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable
from enum import Enum
from hashlib import sha256
from typing import Any

import orjson

from rulvar.errors import NonSerializableValueError

__all__ = [
    "NeedsExactEncoder",
    "canonical_json",
    "decode_json",
    "encode_json",
    "format_number",
    "hash_canonical",
    "normal_json",
    "sha256_hex",
]

MAX_SAFE_INTEGER = 2**53 - 1
MAX_DEPTH = 400
"""Nesting deeper than this is refused: no document in the field comes near it."""

_PASSTHROUGH = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)
_SORTED = orjson.OPT_SORT_KEYS | _PASSTHROUGH
_FIRST_SURROGATE = "\ud800"  # below it, code point order is UTF-16 order
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}
_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')
_BIG_NUMBER = re.compile(r"\d{15}|[eE]\+?\d{3}")  # may not fit into what orjson reads


_NEVER_CHANGED = frozenset({str, bool, type(None)})
_AS_THEY_ARE = _NEVER_CHANGED | {int}
"""Types whose values orjson writes as JSON has them; asked in loops, where a call per value would cost more."""


class NeedsExactEncoder(Exception):
    """The fast way does not write a value canonically."""


def canonical_json(value: Any, *, lenient: bool = False) -> bytes:
    """Return the RFC 8785 form of a JSON value.

    Args:
        value: None, bool, int, float, str, list, tuple, or dict with str keys.
        lenient: format as ECMAScript's ``JSON.stringify`` does where RFC 8785 refuses: a
            non-finite number becomes null, and bytes become an object of index to byte.

    Raises:
        NonSerializableValueError: a value that JSON cannot hold; ``data["path"]`` names it.
    """
    try:
        return orjson.dumps(_normal(value, 0), option=_SORTED)
    except (NeedsExactEncoder, TypeError, orjson.JSONEncodeError):
        pass  # a lone surrogate, most often: the exact encoder decides
    out: list[str] = []
    _write(value, out, "$", 0, lenient)
    return "".join(out).encode("utf-8")


def hash_canonical(value: Any, *, lenient: bool = False) -> str:
    """Return the lowercase hex SHA-256 of the canonical JSON of a value."""
    return sha256(canonical_json(value, lenient=lenient)).hexdigest()


def sha256_hex(data: bytes) -> str:
    """Return the lowercase hex SHA-256 of some bytes."""
    return sha256(data).hexdigest()


def encode_json(value: Any) -> bytes:
    """Return compact JSON bytes of a value, in the order of its keys.

    Raises:
        NonSerializableValueError: a value that JSON cannot hold; ``data["path"]`` names it.
    """
    try:
        if _is_strict(value, 0):
            return orjson.dumps(value, option=_PASSTHROUGH)
    except (TypeError, orjson.JSONEncodeError):
        pass
    _check(value, "$", 0)
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def decode_json(data: bytes | str) -> Any:
    """Parse JSON text exactly as ECMAScript does, lone surrogates and big numbers included.

    Raises:
        ValueError: the text is not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as fast:
        text = data if isinstance(data, str) else _decode_utf8(data)
        if "\\u" not in text and "\\U" not in text and _BIG_NUMBER.search(text) is None:
            raise
        try:
            return json.loads(text, parse_constant=_refuse_constant)
        except RecursionError:
            raise ValueError("nested too deeply") from fast


def format_number(value: float) -> str:
    """Format a finite double as ECMAScript's Number::toString does."""
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return f"{sign}{digits}{'0' * (point - count)}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = point - 1
    tail = f"e{'+' if power >= 0 else '-'}{abs(power)}"
    return f"{sign}{digits[0]}{'.' + digits[1:] if count > 1 else ''}{tail}"


def normal_json(value: Any) -> Any:
    """Return a value that C encoders write canonically when they sort keys; the same object if it is one.

    Raises:
        NeedsExactEncoder: no such value exists.
    """
    return _normal(value, 0)


def _normal(value: Any, depth: int) -> Any:
    """Return a value that orjson writes, sorted, in canonical form; the same object when it is one.

    Raises:
        NeedsExactEncoder: orjson cannot write the value that way.
    """
    kind = type(value)
    if kind is int:
        if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            return value
        return _normal_float(float(value)) if abs(value) < 1 << 1000 else _refuse_value()
    if kind is float:
        return _normal_float(value)
    if kind is dict:
        return _normal_object(value, depth)
    if kind is list or kind is tuple:
        return _normal_array(value, depth)
    return value if kind in _NEVER_CHANGED else _refuse_value()


def _normal_object(value: dict[Any, Any], depth: int) -> dict[Any, Any]:
    if depth > MAX_DEPTH // 2:
        raise NeedsExactEncoder
    depth += 1
    changed: dict[Any, Any] | None = None
    normal: Any
    for key, item in value.items():
        if type(key) is not str or not (key.isascii() or max(key) < _FIRST_SURROGATE):
            raise NeedsExactEncoder
        kind = type(item)
        if kind is str or kind in _NEVER_CHANGED:
            continue
        if kind is dict:
            normal = _normal_object(item, depth)
        elif kind is list:
            normal = _normal_array(item, depth)
        else:
            normal = _normal(item, depth)
        if normal is not item:
            if changed is None:
                changed = dict(value)
            changed[key] = normal
    return value if changed is None else changed


def _normal_array(value: list[Any] | tuple[Any, ...], depth: int) -> list[Any] | tuple[Any, ...]:
    if depth > MAX_DEPTH // 2:
        raise NeedsExactEncoder
    depth += 1
    changed: list[Any] | None = None
    normal: Any
    for index, item in enumerate(value):
        kind = type(item)
        if kind is str or kind in _NEVER_CHANGED:
            continue
        if kind is dict:
            normal = _normal_object(item, depth)
        elif kind is list:
            normal = _normal_array(item, depth)
        else:
            normal = _normal(item, depth)
        if normal is not item:
            if changed is None:
                changed = list(value)
            changed[index] = normal
    return value if changed is None else changed


def _normal_float(value: float) -> Any:
    magnitude = abs(value)
    if magnitude <= MAX_SAFE_INTEGER and value.is_integer():
        return int(value)
    if 1e-4 <= magnitude < 1e15:
        return value
    if value - value != 0:
        raise NeedsExactEncoder
    return orjson.Fragment(format_number(value).encode("ascii"))


def _refuse_value() -> Any:
    raise NeedsExactEncoder


def _is_strict(value: Any, depth: int) -> bool:
    """Whether orjson writes the value without changing or accepting what JSON cannot hold."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return True
    if kind is dict:
        if depth > MAX_DEPTH // 2:
            return False
        depth += 1
        for key, item in value.items():
            if type(key) is not str:
                return False
            if type(item) not in _AS_THEY_ARE and not _is_strict(item, depth):
                return False
        return True
    if kind is list or kind is tuple:
        if depth > MAX_DEPTH // 2:
            return False
        depth += 1
        for item in value:
            if type(item) not in _AS_THEY_ARE and not _is_strict(item, depth):
                return False
        return True
    return kind is float and value - value == 0


def _write(value: Any, out: list[str], path: str, depth: int, lenient: bool) -> None:
    if depth > MAX_DEPTH:
        raise _refused(path, f"nested deeper than {MAX_DEPTH} levels")
    if value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, str):
        out.append(_quote(value))
    elif isinstance(value, (int, float)):
        out.append(_number(value, path, lenient))
    elif isinstance(value, dict):
        _write_object(value, out, path, depth, lenient)
    elif isinstance(value, (list, tuple)):
        out.append("[")
        for index, item in enumerate(value):
            if index:
                out.append(",")
            _write(item, out, f"{path}[{index}]", depth + 1, lenient)
        out.append("]")
    elif lenient and isinstance(value, (bytes, bytearray, memoryview)):
        members = {str(index): byte for index, byte in enumerate(bytes(value))}
        _write_object(members, out, path, depth, lenient)
    else:
        raise _refused(path, _unfit(value))


def _write_object(value: dict[Any, Any], out: list[str], path: str, depth: int, lenient: bool) -> None:
    for key in value:
        if not isinstance(key, str):
            raise _refused(path, f"has a key of type {type(key).__name__}; keys must be str")
    out.append("{")
    for index, key in enumerate(sorted(value, key=_utf16)):
        out.append("," if index else "")
        out.append(_quote(key))
        out.append(":")
        _write(value[key], out, _member(path, key), depth + 1, lenient)
    out.append("}")


def _number(value: float, path: str, lenient: bool) -> str:
    if isinstance(value, int) and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return int.__repr__(value)
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number - number != 0:
        if lenient:
            return "null"
        raise _refused(path, f"is {number}; JSON numbers are finite")
    return format_number(number)


def _quote(text: str) -> str:
    if not text.isascii():
        # joins surrogate halves that stand side by side, as UTF-16 does
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    return _ESCAPES.get(character) or f"\\u{ord(character):04x}"


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _check(value: Any, path: str, depth: int) -> None:
    """Raise for the first part of a value that JSON cannot hold."""
    if depth > MAX_DEPTH:
        raise _refused(path, f"nested deeper than {MAX_DEPTH} levels")
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise _refused(path, f"has a key of type {type(key).__name__}; keys must be str")
            _check(item, _member(path, key), depth + 1)
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth + 1)
    elif kind is float:
        if value - value != 0:
            raise _refused(path, f"is {value}; JSON numbers are finite")
    elif not (value is None or kind is str or kind is bool or kind is int):
        raise _refused(path, _unfit(value))


def _unfit(value: Any) -> str:
    kind = type(value)
    hint = _HINTS.get(kind.__name__, "pass None, bool, int, float, str, list or dict")
    if isinstance(value, Awaitable):
        hint = "write await before the call that makes it"
    elif isinstance(value, Enum):
        hint = "pass its value"
    return f"is of type {kind.__module__}.{kind.__qualname__}; {hint}".replace("builtins.", "")


_HINTS = {
    **dict.fromkeys(("set", "frozenset"), "a set has no order: pass sorted(...)"),
    **dict.fromkeys(("datetime", "date", "time"), "pass its isoformat()"),
    **dict.fromkeys(("Decimal", "UUID", "PosixPath", "WindowsPath"), "pass str(...)"),
    "bytes": "pass text, for instance base64",
}


def _refused(path: str, what: str) -> NonSerializableValueError:
    if len(path) > 240:  # into what is nested too deep: its middle says nothing
        path = f"{path[:120]}…{path[-60:]}"
    return NonSerializableValueError(f"{path} {what}", data={"path": path})


def _member(path: str, key: str) -> str:
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key)}]"


def _decode_utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")

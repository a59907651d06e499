"""Credentials that show by the name in front of them: headers, settings, JSON members, flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from rulvar.contracts.secret_shapes import MASK, PROSE, WHITE_SPACE, Secret

__all__ = ["NameKind", "find_named_values", "mask_spans", "name_kind"]

NameKind = Literal["authorization", "api-key", "password", "named", "generic"]

_NAME_END = re.compile(
    r"(?:authorization|key|token|secret|password|passwd|passphrase|pwd|credentials?)(?![A-Za-z0-9_-])",
    re.ASCII | re.IGNORECASE,
)
_SEPARATOR = re.compile(
    rf"(?:\\*[\"'`]|%2[27])?{WHITE_SPACE}*(?P<strong>(?:(?:[:=]>?|%3[ADad]){WHITE_SPACE}*)+)?"
    r"(?P<quote>\\*(?:\"\"\"|'''|[\"'`])|%2[27])?"
)
_TOKEN = re.compile(rf"(?:(?!{WHITE_SPACE})[^\"',}}\\]|\\(?![\"']))+")
_WIDE_TOKEN = re.compile(
    rf"(?:(?!{WHITE_SPACE})[^\"',}}\\]|\\(?![\"'])|}}(?=[.>:!?)\]}}]{{0,8}}[^\"',;.>:!?)\]}}\\\s]))+"
)  # a closing brace amid a value is part of it
_SCHEME_TOKEN = re.compile(r"bearer\b", re.ASCII | re.IGNORECASE)
_NEXT_TOKEN = re.compile(rf"{WHITE_SPACE}+((?:(?!{WHITE_SPACE})[^\"',}}\\])+)")
_PARAMETER = r"[A-Za-z][\w-]*=(?:\\*\"[^\"\n]*\"|[^\s,\"']+)"
_PARAMETERS = re.compile(rf"[\t ,]*{_PARAMETER}(?:[\t ]*,[\t ]*{_PARAMETER})*", re.ASCII)
_LONE = re.compile(rf"{WHITE_SPACE}*(?:\Z|[\"',}}\n])")
_SETTING_LINE = re.compile(r"[\s\"'{-]*[\w.-]+\\*[\"']?\s*:\s*\Z", re.ASCII)
_ALWAYS_SECRET = frozenset({"authorization", "api-key"})
"""Kinds whose values are never taken for words that stand for a credential."""
_LITERALS = frozenset({"true", "false", "null", "none", "undefined", "nil", "string", "..."})
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_NOT_SECRET_KEYS = frozenset(
    {
        "primary", "foreign", "sort", "partition", "cache", "public", "unique", "composite", "group", "dict",
        "index", "row", "column",
    }
)  # fmt: skip
_NOT_SECRET_TOKENS = frozenset(
    {
        "page", "continuation", "eos", "bos", "pad", "stop", "unk", "mask", "sep", "cls", "special", "next",
        "max", "min",
    }
)  # fmt: skip
_SECRET_HEADS = frozenset(
    {
        "access", "account", "api", "auth", "bearer", "bot", "client", "deploy", "encryption", "hmac", "id",
        "license", "master", "oauth", "personal", "private", "refresh", "security", "secret", "service",
        "session", "shared", "signing", "ssh", "webhook",
    }
)  # fmt: skip
_GLUED = ("apikey", "authtoken", "accesstoken", "refreshtoken", "apitoken", "secretkey", "accesskey")
_NAME_TRIGGERS = ("authorization", "key", "token", "secret", "passw", "passphrase", "pwd", "credential")
_IDENTIFIER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
_LONGEST_NAME = 80
_LONGEST_JOINT = 8


def find_named_values(text: str, lower: str) -> Iterator[Secret]:
    """Yield the values of credential names in a text; ``lower`` is the lower-cased text."""
    if any(trigger in lower for trigger in _NAME_TRIGGERS):
        yield from _named_values(text)


def name_kind(name: str) -> NameKind | None:
    """Return how far a name says that its value is a credential, or None when it does not.

    ``generic`` names (``token``, ``sort_of_key``) need a value that looks like one as well.
    """
    parts = _CAMEL.sub("_", name).lower().replace("-", "_").replace(".", "_").split("_")
    last = parts[-1]
    head = parts[-2] if len(parts) > 1 else ""
    if last == "authorization":
        return "authorization"
    if last.endswith("apikey") or (last == "key" and head == "api"):
        return "api-key"
    if last.endswith(("password", "passwd", "passphrase", "secret")) or last == "pwd":
        return "password"
    if last.endswith(_GLUED):
        return "named"
    if last in ("key", "token"):
        return _keyed_kind(last, head)
    return "generic" if last in ("credential", "credentials") else None


def mask_spans(kind: NameKind, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield what to mask in a delimited value (a quoted text, a JSON string) of a named credential."""
    value = text[start:end]
    if not value or value == MASK or _is_placeholder(kind, value):
        return
    if kind == "authorization" and _SCHEME_TOKEN.match(value):
        after = _NEXT_TOKEN.match(text, start + len("bearer"), end)
        if after and after.group(1) != MASK and not PROSE.match(after.group(1)):
            yield after.span(1)
        return
    if MASK in value and kind != "password" and not _continues_mask(kind, value):
        head = value.partition(MASK)[0].split(None, 1)[:1]
        if kind in _ALWAYS_SECRET and head and value.startswith(head[0]) and not PROSE.match(head[0]):
            yield start, start + len(head[0])
        return
    if kind == "generic" and not _looks_secret(value):
        return
    yield start, end


def _keyed_kind(last: str, head: str) -> NameKind | None:
    if head in (_NOT_SECRET_KEYS if last == "key" else _NOT_SECRET_TOKENS):
        return None
    if head in _SECRET_HEADS:
        return "named"
    if not head:
        return "generic" if last == "token" else None
    return "generic"


def _named_values(text: str) -> Iterator[Secret]:
    done = 0
    for match in _NAME_END.finditer(text):
        if match.start() < done and not _ends_value(text, match.end(), done):
            continue
        name = _identifier_before(text, match.start(), match.end())
        kind = name_kind(name)
        if kind is None and name.lower() == "key" and _follows_api(text, match.start()):
            kind = "generic"
        if kind is None:
            continue
        element = _element_text(text, match.end() - len(name), match.end())
        if element is not None:
            for start, end in mask_spans(kind, text, *element):
                yield Secret(start, end, f"{kind}-value")
                done = end
            continue
        separator = _SEPARATOR.match(text, match.end())
        if separator is None or separator.end() >= len(text):
            continue
        for start, end in _values_after(text, name, kind, separator):
            yield Secret(start, end, f"{kind}-value")
            done = end


def _ends_value(text: str, end: int, value_end: int) -> bool:
    """Whether a name is the last of a masked value, so that it has a value of its own behind it."""
    return value_end - end <= _LONGEST_JOINT and not text[end:value_end].strip("\\\"'`:= ")


def _element_text(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return the extent of the text of an XML element whose name stands there."""
    if text[end : end + 1] != ">" or text[max(0, start - 1) : start] != "<":
        return None
    close = text.find("<", end + 1)
    return end + 1, len(text) if close < 0 else close


def _follows_api(text: str, start: int) -> bool:
    return start >= 4 and text[start - 4 : start].lower() == "api "


def _identifier_before(text: str, start: int, end: int) -> str:
    lowest = max(0, start - _LONGEST_NAME)
    while start > lowest and text[start - 1] in _IDENTIFIER:
        start -= 1
    return text[start:end]


def _values_after(
    text: str, name: str, kind: NameKind, separator: re.Match[str]
) -> Iterator[tuple[int, int]]:
    strong, quote, start = separator.group("strong"), separator.group("quote"), separator.end()
    stands_alone = text[separator.start()].isspace() and quote != "`"  # `NAME` in prose is no value
    if quote is not None and (strong is not None or stands_alone):
        close = text.find(quote, start)
        if close >= 0:
            yield from mask_spans(kind, text, start, close)
            return
    token = (_WIDE_TOKEN if kind in _ALWAYS_SECRET else _TOKEN).match(text, start)
    if token is None or (token.group().startswith(MASK) and not _continues_mask(kind, token.group())):
        return
    if kind != "authorization" and token.group().lower() == "bearer":
        yield from _header_value(text, token)
        return
    if strong is None:
        # behind white space; behind a quote (the last of %22 and %27 is a digit) when it looks like one
        behind_quote = text[start - 1] in "\"'`\\27"
        follows = start > separator.start() and (not behind_quote or _starts_secret(token.group()))
        may = kind in ("authorization", "api-key") or name.startswith("--")
        if follows and may and not _reads_on(token.group()):
            yield token.span()
        return
    if _is_placeholder(kind, token.group()):
        return
    if kind == "authorization":
        yield from _header_value(text, token)
    elif kind == "api-key" or _is_unquoted_value(text, name, kind, strong, token):
        yield token.span()


def _is_unquoted_value(text: str, name: str, kind: NameKind, strong: str, token: re.Match[str]) -> bool:
    value = token.group()
    assigned = "=" in strong
    if kind == "generic":
        if not assigned or name.lower() == "token":
            return _looks_secret(value) or (assigned and value.isupper() and len(value) > 5)
        return not (value.isdigit() and len(value) < 6)
    if assigned or not PROSE.match(value):
        return True
    line = text[max(0, token.start() - 2 * _LONGEST_NAME) : token.start()].rpartition("\n")[2]
    return _LONE.match(text, token.end()) is not None and _SETTING_LINE.match(line) is not None


def _header_value(text: str, token: re.Match[str]) -> Iterator[tuple[int, int]]:
    start, end = token.span()
    after = _NEXT_TOKEN.match(text, end)
    credential = after if after and after.group(1) != MASK and not PROSE.match(after.group(1)) else None
    if _SCHEME_TOKEN.match(token.group()):
        if credential:
            yield credential.span(1)
        return
    parameters = _PARAMETERS.match(text, end)
    if parameters:
        yield start, parameters.end()
    elif credential and not credential.group(1).startswith(MASK):
        yield start, credential.end()
    else:
        yield start, end


def _continues_mask(kind: NameKind, value: str) -> bool:
    """Whether more of a value follows right behind the mask that it starts with."""
    if kind not in _ALWAYS_SECRET or not value.startswith(MASK):
        return False
    rest = value[len(MASK) :]
    return rest[:1].strip() != "" and any(character.isalnum() for character in rest.split(None, 1)[0])


def _reads_on(word: str) -> bool:
    """Whether a word behind a name is prose ("the authorization was granted"), not its value."""
    return PROSE.match(word) is not None and name_kind(word) is None


def _is_placeholder(kind: NameKind, value: str) -> bool:
    """Whether a value stands for a credential without being one; values of API keys never do."""
    if kind in _ALWAYS_SECRET:
        return False
    if (
        value.lower() in _LITERALS
        or value[0] in "<{$*"
        or (kind != "password" and value.isdigit() and len(value) < 6)
    ):
        return True
    return value.startswith(("os.environ", "process.env"))


def _starts_secret(value: str) -> bool:
    return value[0].isalnum() and _looks_secret(value)


def _looks_secret(value: str) -> bool:
    if len(value) < 6 or PROSE.match(value) or value.isdigit():
        return False
    letters = sum(character.isalpha() for character in value)
    if any(character.isspace() for character in value):
        return False
    return letters >= 2 and (any(c.isdigit() for c in value) or any(c.isupper() for c in value[1:]))

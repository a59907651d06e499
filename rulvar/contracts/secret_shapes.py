"""What a credential looks like by itself: the key shapes of providers, tokens, schemes, key blocks.

Finders are linear in the text. A rule runs only when one of its trigger words is there, so a text
without any of them costs a few substring searches.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["MASK", "PROSE", "WHITE_SPACE", "Secret", "find_shapes"]

MASK = "[REDACTED]"


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a credential stands in a text, the rule that found it, and what takes its place."""

    start: int
    end: int
    rule: str
    mask: str = MASK


# Every shape eats the word it stands in, so that masking one never uncovers the start of another.
_KEY_BLOCK = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_SHAPES: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (rule, tuple(triggers.split()), re.compile(pattern, re.ASCII))
    for rule, triggers, pattern in (
        ("provider-key", "sk- pk- rk-", r"(?<!\w)(?:sk|pk|rk)-[\w-]{8,}"),
        ("payment-key", "k_live_ k_test_ whsec_", r"(?<!\w)(?:[spr]k_(?:live|test)|whsec)_[\w-]{4,}"),
        ("github-token", "gh", r"(?<!\w)gh[pousr]_[A-Za-z0-9]{8}[\w-]*"),
        ("github-token", "github_pat_", r"(?<!\w)github_pat_\w{8}[\w-]*"),
        ("forge-token", "glpat- npm_ pypi- hf_", r"(?<!\w)(?:glpat-|npm_|pypi-|hf_)[A-Za-z0-9]{16}[\w-]*"),
        ("aws-key", "akia asia", r"(?<!\w)(?:AKIA[0-9A-Z]{8}|ASIA[0-9A-Z]{16})[\w-]*"),
        ("google-key", "aiza ya29.", r"(?<!\w)(?:AIza|ya29\.)[\w-]{8,}"),
        ("slack-token", "xox xapp-", r"(?<!\w)(?:xox[a-z]|xapp)-[\w-]{6,}"),
        ("jwt", "eyj", r"(?<![\w-])eyJ[\w-]{4,}(?:\.[\w-]*){2,}"),
        ("private-key", "-----begin", rf"-----BEGIN {_KEY_BLOCK}(?s:.*?)(?:-----END {_KEY_BLOCK}|\Z)"),
    )
)
_URL_PASSWORD = re.compile(r"://[^\s/:@\"']*:([^\s/@\"']+)@", re.ASCII)

_USER_OPTION = re.compile(
    r"\bcurl\b[^\n|;&]{0,400}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"']+:(?!\$)([^\s\"']+)", re.ASCII
)

# ECMAScript's white space, which is not Python's: no U+0085, but U+FEFF.
WHITE_SPACE = r"[\t\n\v\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
_BEARER = re.compile(rf"(?<!\w)bearer{WHITE_SPACE}+([\w.~+/=-]{{8,}})", re.ASCII | re.IGNORECASE)
_BASIC = re.compile(rf"(?<!\w)basic{WHITE_SPACE}+([\w+/-]{{8,}}={{0,2}})", re.ASCII | re.IGNORECASE)
_CAMEL_WORD = re.compile(r"(?:[A-Z]?[a-z]+){1,5}[.,;:!?)\]]*\Z", re.ASCII)
_PROSE_GOES_ON = re.compile(r"[ \t]+[a-z\[]")
_PROSE_AFTER_BEARER = re.compile(
    r"(?:authenti\w*|authoriz\w*|credentials?|certificates?|instruments?|securities|tokens?)[.,;:!?]*\Z",
    re.ASCII,
)
PROSE = re.compile(r"(?:[A-Z]?[a-z]+)(?:['’/-][a-z]+)*[.,;:!?)\]]*\Z", re.ASCII)


def find_shapes(text: str, lower: str) -> Iterator[Secret]:
    """Yield the credentials that show by their shape; ``lower`` is the lower-cased text."""
    for rule, triggers, pattern in _SHAPES:
        if any(trigger in lower for trigger in triggers):
            for match in pattern.finditer(text):
                yield Secret(*match.span(), rule)
    if "://" in lower:
        for match in _URL_PASSWORD.finditer(text):
            if match.group(1) != MASK:
                yield Secret(*match.span(1), "url-password")
    if "curl" in lower:
        for match in _USER_OPTION.finditer(text):
            if match.group(1) != MASK:
                yield Secret(*match.span(1), "basic-credential")
    if "bearer" in lower:
        yield from _bearer_tokens(text)
    if "basic" in lower:
        yield from _basic_credentials(text)


def _bearer_tokens(text: str) -> Iterator[Secret]:
    for match in _BEARER.finditer(text):
        token = match.group(1)
        if PROSE.match(token) and (
            _PROSE_GOES_ON.match(text, match.end()) or _PROSE_AFTER_BEARER.match(token.lower())
        ):
            continue
        yield Secret(*match.span(), "bearer-token", f"Bearer {MASK}")


def _basic_credentials(text: str) -> Iterator[Secret]:
    for match in _BASIC.finditer(text):
        token = match.group(1)
        if _decodes_to_pair(token) or not (_CAMEL_WORD.match(token) or token.isdigit()):
            yield Secret(*match.span(1), "basic-credential")


def _decodes_to_pair(token: str) -> bool:
    bare = token.rstrip("=")
    try:
        return b":" in b64decode(bare + "=" * (-len(bare) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return False

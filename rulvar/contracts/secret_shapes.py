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
_COMMON_ALPHABET = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a credential stands in a text, the rule that found it, and what takes its place."""

    start: int
    end: int
    rule: str
    mask: str = MASK

    def moved(self, by: int) -> Secret:
        """Return the same so many characters further on."""
        return Secret(self.start + by, self.end + by, self.rule, self.mask)


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

# signatures that let whoever holds the address in: Azure's sig= beside its expiry, those of AWS and of Google
_SIGNATURE = re.compile(
    r"(?<![\w-])(?:x-(?:amz|goog)-signature|signature|sig)=([\w%+/=.~-]{8,})", re.ASCII | re.IGNORECASE
)
_SIGNED = re.compile(
    r"[?&;](?:s[vrpte]|key-pair-id|expires|googleaccessid|x-(?:amz|goog)-[a-z]+)=", re.ASCII | re.IGNORECASE
)
_COOKIE = re.compile(
    r"(?<![\w-])(?:set-)?cookie\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?=[\w.-]+=)", re.ASCII | re.IGNORECASE
)
_COOKIE_PAIR = re.compile(r"[ \t]*([\w.!#$%&*+^|~-]+)=([^;,\s\"'\\]*)(;?)", re.ASCII)
_COOKIE_ATTRIBUTES = frozenset({"path", "domain", "expires", "max-age", "samesite", "priority", "version"})
_ENCODED = re.compile(
    r"(?<![\w+/=-])(?:[A-Za-z0-9+/_-]{4}){6,}[A-Za-z0-9+/_-]{0,3}={0,2}(?![\w+/=-])", re.ASCII
)
_COOKIE_FLAG = re.compile(r"[ \t]*(?:httponly|secure|partitioned)(;|(?![\w=]))", re.ASCII | re.IGNORECASE)
_LONGEST_ENCODED = 16_384
_ENCODED_RULES = frozenset(
    {
        "provider-key", "payment-key", "github-token", "forge-token", "aws-key", "google-key", "slack-token", "jwt",
        "private-key", "bearer-token", "encoded-credential",
    }
)  # fmt: skip

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
    if "sig" in lower:
        for match in _SIGNATURE.finditer(text):
            if _SIGNED.search(text[max(0, match.start() - 2048) : match.end() + 512]):
                yield Secret(*match.span(1), "signed-url")
    if "cookie" in lower:
        yield from _cookies(text)
    yield from _encoded(text)


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
    try:
        return b":" in b64decode(_padded(token), validate=True)
    except ValueError:
        return False


def _padded(token: str) -> str:
    """Return base64 of either alphabet in the common one, padded."""
    bare = token.rstrip("=").translate(_COMMON_ALPHABET)
    return bare + "=" * (-len(bare) % 4)


def _cookies(text: str) -> Iterator[Secret]:
    """Yield the values of the cookies of a header; what is said about a cookie is no secret."""
    for header in _COOKIE.finditer(text):
        position = header.end()
        while pair := _COOKIE_PAIR.match(text, position):
            name, value = pair.group(1).lower(), pair.group(2)
            if value and value != MASK and name not in _COOKIE_ATTRIBUTES:
                yield Secret(*pair.span(2), "cookie")
            position = pair.end()
            if not pair.group(3):
                break
            while (flag := _COOKIE_FLAG.match(text, position)) is not None:
                position = flag.end()


def _encoded(text: str) -> Iterator[Secret]:
    """Yield base64 texts that hold a credential which would be masked if it stood there in the open."""
    for match in _ENCODED.finditer(text):
        if len(match.group()) > _LONGEST_ENCODED:
            continue
        plain = _decoded(match.group())
        if plain is not None and any(
            secret.rule in _ENCODED_RULES for secret in find_shapes(plain, plain.lower())
        ):
            yield Secret(*match.span(), "encoded-credential")


def _decoded(token: str) -> str | None:
    try:
        text = b64decode(_padded(token)).decode("ascii")
    except ValueError:
        return None
    return text if all(char.isprintable() or char.isspace() for char in text) else None

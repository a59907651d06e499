"""Texts that look like credentials."""

from __future__ import annotations

import re
from typing import Final

_SHAPES: Final = (
    ("an API key", re.compile(r"(?<![A-Za-z0-9_-])[spr]k-[A-Za-z0-9_-]{16,}")),
    ("an API key", re.compile(r"(?<![A-Za-z0-9])[spr]k_(?:live|test|prod)_[A-Za-z0-9]{8,}")),
    (
        "a GitHub token",
        re.compile(r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    ),
    ("a GitLab token", re.compile(r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}")),
    ("an AWS access key", re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])")),
    ("a Google API key", re.compile(r"(?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{30,}")),
    ("a Google access token", re.compile(r"(?<![A-Za-z0-9])ya29\.[0-9A-Za-z_-]{20,}")),
    ("a Slack token", re.compile(r"(?<![A-Za-z0-9])(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}")),
    ("a Hugging Face token", re.compile(r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{24,}")),
    ("an npm token", re.compile(r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}")),
    ("a SendGrid key", re.compile(r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}")),
    (
        "a JSON web token",
        re.compile(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}"),
    ),
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")),
    ("a bearer token", re.compile(r"(?<![A-Za-z])[Bb](?:earer|EARER)\s+([A-Za-z0-9._~+/=-]{12,})")),
    (
        "an authorization value",
        re.compile(
            r"(?:authorization|x-api-key|api[-_]?key|access[-_]?token|client[-_]?secret|password|secret[-_]?key)"
            r'\\*"?\s*[:=]\s*\\*"?(?:(?:Basic|Bearer|Token)\s+)?([A-Za-z0-9._~+/=-]{12,})',
            re.I,
        ),
    ),
)
_GATE: Final = re.compile(
    r"[spr]k[-_]|gh[pousr]_|github_pat|glpat|AKIA|ASIA|AIza|ya29|xox|xapp-|hf_|npm_|SG\.|eyJ|PRIVATE "
    "KEY|earer|EARER"
    r"|authorization|api[-_]?key|token|secret|password",
    re.I,
)
_PLACEHOLDER: Final = re.compile(
    r"x{4,}|X{4,}|\*{3,}|\.\.\.|your|example|placeholder|redacted|dummy|change[-_]?me|<[^>]*>|0{8,}|insert",
    re.I,
)
# What these begin with is nothing else, whatever follows.
_CERTAIN: Final = re.compile(r"[spr]k_|gh[pousr]_|github_pat_|glpat-|AKIA|ASIA|AIza|xox|xapp|hf_|npm_|SG\.")
_DIGEST: Final = re.compile(
    r"(?:[0-9a-f]{64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z",
    re.I,
)


def find_secret(text: str) -> tuple[int, int, str] | None:
    """(start, end, what) of the first secret-shaped text in a line."""
    if not _GATE.search(text):
        return None
    for what, shape in _SHAPES:
        for match in shape.finditer(text):
            value = match[1] if shape.groups else match[0]
            if what == "a private key" or _is_credential(value):
                return match.start(), match.end(), what
    return None


def _is_credential(value: str) -> bool:
    """Whether a text is a credential rather than words, a placeholder or a digest."""
    shown = value.removesuffix("EXAMPLE") if value.startswith(("AKIA", "ASIA")) else value
    if _PLACEHOLDER.search(shown) or _DIGEST.match(value):
        return False
    if _CERTAIN.match(value):
        return len(set(value)) > 6
    body = re.sub(r"^(?:[spr]k[-_](?:ant|proj|live|test|prod|or|svcacct)?[-_]?|Bearer\s+)", "", value)
    if len(set(body)) < 4:
        return False
    if re.search(r"[A-Za-z0-9]{24}", body) and len(set(body)) > 9:
        return True  # longer than words are
    has_digit = any(char.isdigit() for char in body)
    mixed = any(char.islower() for char in body) and any(char.isupper() for char in body)
    upper = body.isupper() and has_digit
    return has_digit or mixed or upper

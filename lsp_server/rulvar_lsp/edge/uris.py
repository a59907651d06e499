"""URIs and paths. Clients spell one file in several ways; each gets its own spelling back."""

from __future__ import annotations

import os
import re
from urllib.parse import quote, unquote

_DRIVE = re.compile(r"/[A-Za-z]:")
ANALYSED_SCHEMES = ("file", "untitled")


def uri_scheme(uri: str) -> str:
    """The scheme, lower case; empty for what is no URI."""
    return uri.partition(":")[0].lower() if ":" in uri else ""


def uri_key(uri: str) -> str:
    """A key that is equal for all spellings of one file (escapes, case of a drive letter)."""
    key = unquote(uri)
    scheme, _, rest = key.partition("://")
    if _DRIVE.match(rest):
        rest = rest[0] + rest[1].lower() + rest[2:]
    return f"{scheme.lower()}://{rest}" if rest else key


def uri_to_path(uri: str) -> str | None:
    """The absolute path of a file URI, None for any other.

    `?` and `#` count as part of the path: some clients do not escape them.
    """
    if uri_scheme(uri) != "file":
        return None
    rest = uri.partition(":")[2]
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        if authority and authority != "localhost":
            rest = f"//{authority}{rest}"
    path = unquote(rest)
    if not path.startswith("/") or "\0" in path:
        return None
    if _DRIVE.match(path):
        path = path[1].lower() + path[2:]
    return os.path.normpath(path)


def path_to_uri(path: str) -> str:
    """The file URI of an absolute path."""
    path = path.replace(os.sep, "/")
    return "file://" + quote(path if path.startswith("/") else "/" + path, safe="/~")

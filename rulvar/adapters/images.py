"""Images and documents as they are sent: base64 text, or an address."""

from __future__ import annotations

import base64
from typing import Any

from rulvar.contracts.messages import ImagePart
from rulvar.errors import ConfigError

__all__ = ["PDF", "data_address", "image_base64", "image_url"]

PDF = "application/pdf"


def image_url(part: ImagePart) -> str | None:
    """Return the web address that an image part holds instead of data."""
    data = part.data
    return data if isinstance(data, str) and data.startswith(("http://", "https://")) else None


def image_base64(part: ImagePart) -> str:
    """Return an image's data as base64 text.

    Raises:
        ConfigError: data that is neither text nor bytes.
    """
    data: Any = part.data
    if isinstance(data, str):
        return data.partition(";base64,")[2] if data.startswith("data:") else data
    if isinstance(data, dict):  # bytes as they go over the wire: index to byte
        try:
            data = bytes(data[str(at)] for at in range(len(data)))
        except (KeyError, TypeError, ValueError):
            raise _no_image(part) from None
    if isinstance(data, (bytes, bytearray, memoryview)):
        return base64.b64encode(data).decode("ascii")
    raise _no_image(part)


def data_address(part: ImagePart) -> str:
    """Return a part as an address: a web address as it is, data as a ``data:`` address."""
    return image_url(part) or f"data:{part.media_type};base64,{image_base64(part)}"


def _no_image(part: ImagePart) -> ConfigError:
    return ConfigError(
        f"image part: expected base64 text, an address or bytes, got {type(part.data).__name__}",
        data={"field": "data"},
    )

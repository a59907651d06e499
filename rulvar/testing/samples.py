"""Small valid files to send to a model that can see."""

from __future__ import annotations

import struct
import zlib

__all__ = ["sample_pdf", "sample_png"]


def sample_png(width: int = 1, height: int = 1, rgb: tuple[int, int, int] = (200, 60, 60)) -> bytes:
    """Return a valid PNG of one colour.

    Args:
        width, height: pixels, from 1 to 4096.
        rgb: its colour, each from 0 to 255.

    Raises:
        ValueError: a size or colour out of range.
    """
    if not (0 < width <= 4096 and 0 < height <= 4096) or any(not 0 <= part <= 255 for part in rgb):
        raise ValueError("sample_png: sizes go from 1 to 4096 and colours from 0 to 255")
    row = b"\0" + bytes(rgb) * width
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(row * height)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def sample_pdf(text: str = "Sample") -> bytes:
    """Return a valid PDF of one page with a line of text.

    Raises:
        ValueError: text that is not printable ASCII of at most 80 characters.
    """
    if not text.isascii() or not text.isprintable() or len(text) > 80:
        raise ValueError("sample_pdf: use at most 80 printable ASCII characters")
    escaped = "".join("\\" + char if char in "()\\" else char for char in text)
    drawn = f"BT /F1 18 Tf 20 50 Td ({escaped}) Tj ET".encode("ascii")
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 100] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)

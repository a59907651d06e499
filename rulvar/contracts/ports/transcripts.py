"""The seam behind which transcripts and checkpoints are kept: blobs beside the journal."""

from __future__ import annotations

import re
from typing import Protocol

from rulvar.contracts.ids import check_run_id
from rulvar.errors import ConfigError

__all__ = ["TranscriptStore", "split_ref"]

_PART = re.compile(r"[A-Za-z0-9._-]{1,200}")
_DEPTH = 8
_REF = re.compile(rf"{_PART.pattern}(?:/{_PART.pattern}){{1,{_DEPTH}}}")
"""The commonest references at a glance; dots at the end of a part are looked at closely."""


class TranscriptStore(Protocol):
    """Keeps blobs by reference ``<run id>/<name>``, for instance ``r1/t0`` or ``r1/ckpt/4``.

    A store may also have ``refs(run_id) -> awaitable list of references``, which exporting uses.
    """

    async def put(self, ref: str, data: bytes) -> None:
        """Store a blob, replacing one of the same reference."""

    async def get(self, ref: str) -> bytes | None:
        """Return a blob, or None."""

    async def delete_run(self, run_id: str) -> None:
        """Forget every blob of a run."""


def split_ref(ref: str) -> tuple[str, str]:
    """Return the run id and the name of a reference.

    Raises:
        ConfigError: it is not ``<run id>/<name>``, or a part of it could leave its folder.
    """
    if isinstance(ref, str) and _REF.fullmatch(ref) and "./" not in ref and ref[-1] != ".":
        run_id, _, name = ref.partition("/")
        return run_id, name
    run_id, *rest = ref.split("/") if isinstance(ref, str) else ("",)
    check_run_id(run_id)
    if not 0 < len(rest) <= _DEPTH or any(not _PART.fullmatch(part) or part in {".", ".."} for part in rest):
        raise ConfigError(f"transcript reference {ref!r} is not <run id>/<name>", data={"field": "ref"})
    return run_id, "/".join(rest)

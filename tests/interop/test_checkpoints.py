"""Checkpoints that the original wrote are read, and ours say the same in the same form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rulvar.runtime.checkpoint import decode_checkpoint, encode_checkpoint


def test_every_recorded_checkpoint_is_read_and_written_as_it_was(vectors: Path) -> None:
    files = sorted((vectors / "journals" / "transcripts").glob("*/ckpt/*.bin"))
    if not files:
        pytest.skip("no checkpoint is in this set of vectors")
    for file in files:
        recorded = file.read_bytes()
        kept = json.loads(recorded[1:])
        [spent] = kept["usageByModel"]
        again = encode_checkpoint(decode_checkpoint(recorded), spent["servedBy"], spent["role"])
        assert again[:1] == recorded[:1], file
        assert json.loads(again[1:]) == kept, file

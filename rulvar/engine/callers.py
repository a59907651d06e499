"""Whose code is on a stack: a workflow's own, or that of a step, a tool, a model."""

from __future__ import annotations

import os
from types import CodeType, FrameType

__all__ = ["author_of", "callers_of", "is_of_rulvar"]

_RULVAR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_RUNS_BODIES = tuple(
    _RULVAR + path.replace("/", os.sep)
    for path in (
        "engine/bracket.py",
        "engine/profile_sensor.py",
        "engine/workflow.py",
        "engine/primitives/child.py",
        "engine/primitives/parallel.py",
        "engine/primitives/phase.py",
        "engine/primitives/pipeline.py",
        "machines/",
    )
)
"""What calls the workflow's own code; whatever else of rulvar calls user code calls a step or a tool."""


def author_of(frame: FrameType) -> FrameType | None:
    """Return the frame of written code: generated methods, of dataclasses say, have no file."""
    author: FrameType | None = frame
    while author is not None and author.f_code.co_filename == "<string>":
        author = author.f_back
    return author


def callers_of(frame: FrameType) -> tuple[list[FrameType], bool]:
    """Return the frames from one out to rulvar, and whether rulvar has called a workflow there."""
    frames: list[FrameType] = []
    caller: FrameType | None = frame
    while caller is not None and not caller.f_code.co_filename.startswith(_RULVAR):
        frames.append(caller)
        caller = caller.f_back
    return frames, caller is not None and caller.f_code.co_filename.startswith(_RUNS_BODIES)


def is_of_rulvar(code: CodeType) -> bool:
    """Whether it is the engine's own code: where it runs a workflow's, it sees to its being watched itself."""
    return code.co_filename.startswith(_RULVAR)

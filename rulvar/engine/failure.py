"""What ended a run, told to people: the exception's type, and where in their code it was raised."""

from __future__ import annotations

import os
import sysconfig
from traceback import walk_tb

from rulvar.contracts.outcome import Raised
from rulvar.engine.guard import shown_path

__all__ = ["describe_raised"]

_LIBRARIES = tuple(
    path + os.sep
    for path in {
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)


def describe_raised(error: BaseException) -> Raised:
    """Return an exception's type and the innermost frame of the user's code that it went through.

    A file under the working directory or the import path is named relative to it.
    """
    named = Raised(type=type(error).__name__)
    for frame, line in walk_tb(error.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith(("<", *_LIBRARIES)):
            file = shown_path(os.path.abspath(code.co_filename))
            named = Raised(type=named.type, file=file, line=line, function=code.co_name)
    return named

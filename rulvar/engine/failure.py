"""What ended a run, told to people: the exception's type, and where in their code it was raised."""

from __future__ import annotations

import inspect
import os
import sysconfig
from traceback import walk_tb
from typing import Any

from rulvar.contracts.jsonable import journal_form
from rulvar.contracts.outcome import Raised
from rulvar.engine.paths import absolute, shown_path
from rulvar.engine.workflow import Workflow
from rulvar.errors import NonSerializableValueError

__all__ = ["describe_raised", "returned_form"]

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
            file = shown_path(absolute(code.co_filename))
            named = Raised(type=named.type, file=file, line=line, function=code.co_name)
    return named


def returned_form(workflow: Workflow[Any], value: Any) -> bytes:
    """Return the JSON bytes of what a workflow's body returned.

    Raises:
        NonSerializableValueError: JSON cannot hold it; names the body's file and line, and the field.
    """
    try:
        return journal_form(value, f"workflow {workflow.name!r} returned")
    except NonSerializableValueError as error:
        code = getattr(inspect.unwrap(workflow.body), "__code__", None)
        written = f"{shown_path(absolute(code.co_filename))}:{code.co_firstlineno}: " if code else ""
        raise NonSerializableValueError(f"{written}{error.message}", data=error.data) from None

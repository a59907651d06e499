"""Arguments of runs that the command line started, kept so that a resume need not repeat them.

A journal holds a hash of the arguments and not the arguments. The command line puts them beside the
run's transcripts; whoever resumes is checked against the hash either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.jsonable import journal_form
from rulvar.engine.primitives.child import check_args
from rulvar.engine.submissions import kept_submission
from rulvar.errors import ConfigError
from rulvar.stores.bundle import KEPT_ARGS

if TYPE_CHECKING:
    from rulvar.contracts.ports.store import RunMeta
    from rulvar.contracts.ports.transcripts import TranscriptStore
    from rulvar.engine.workflow import Workflow

__all__ = ["kept_args", "recall_args"]


def kept_args(workflow: Workflow[Any], args: Any) -> dict[str, bytes]:
    """Return what a run that is about to start keeps of its arguments: blobs by their name.

    Raises:
        ConfigError: the workflow does not take such arguments; the run is not even begun then.
    """
    refused = check_args(workflow, args)
    if refused is not None:
        raise refused
    return {} if args is None else {KEPT_ARGS: journal_form(args, "args")}


async def recall_args(transcripts: TranscriptStore, run_id: str, meta: RunMeta, given: Any) -> Any:
    """Return the arguments that a run is resumed with: those that are given, or those that were kept.

    Raises:
        ConfigError: the run has arguments, and they are neither given nor kept.
    """
    if given is not None or not meta.get("argsProvided"):
        return given
    data = await transcripts.get(f"{run_id}/{KEPT_ARGS}")
    if data is None and (submitted := await kept_submission(transcripts, run_id)) is not None:
        data = (submitted.args or "null").encode("utf-8")
    if data is None:
        raise ConfigError(
            f"run {run_id!r} was started with arguments, which a journal does not hold; pass the same with --args",
            data={"field": "--args"},
        )
    try:
        return decode_json(data)
    except ValueError:
        raise ConfigError(
            f"run {run_id!r}: the kept arguments cannot be read; pass them with --args",
            data={"field": "--args"},
        ) from None

"""Arguments of runs that the command line started, kept so that a resume need not repeat them.

A journal holds a hash of the arguments and not the arguments. The command line puts them beside the
run's transcripts; whoever resumes is checked against the hash either way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rulvar.contracts.canonical import decode_json
from rulvar.contracts.ids import check_run_id
from rulvar.contracts.jsonable import journal_form
from rulvar.errors import ConfigError, LeaseHeldError
from rulvar.stores.bundle import KEPT_ARGS

if TYPE_CHECKING:
    from rulvar.contracts.ports.store import RunMeta
    from rulvar.contracts.ports.transcripts import TranscriptStore
    from rulvar.engine.engine import Engine

__all__ = ["keep_args", "recall_args"]


async def keep_args(engine: Engine, run_id: str, args: Any) -> None:
    """Keep the arguments of a run that is about to start.

    Raises:
        ConfigError: there is a run of that id; what is kept of it stays as it is.
    """
    if args is None:
        return
    from rulvar.engine.segment import run_exists

    data = journal_form(args, "args")
    if await engine.knows(check_run_id(run_id)):
        raise run_exists(run_id)
    try:
        held = await engine.hold(run_id)
    except LeaseHeldError:
        raise run_exists(run_id) from None
    try:
        if await engine.knows(run_id):  # it has been started meanwhile
            raise run_exists(run_id)
        await held.transcripts.put(f"{run_id}/{KEPT_ARGS}", data)
    finally:
        await held.release()


async def recall_args(transcripts: TranscriptStore, run_id: str, meta: RunMeta, given: Any) -> Any:
    """Return the arguments that a run is resumed with: those that are given, or those that were kept.

    Raises:
        ConfigError: the run has arguments, and they are neither given nor kept.
    """
    if given is not None or not meta.get("argsProvided"):
        return given
    data = await transcripts.get(f"{run_id}/{KEPT_ARGS}")
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

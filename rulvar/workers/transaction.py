"""A job in the caller's transaction: whatever comes of the job, the transaction stays the caller's."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from rulvar.errors import ConfigError, RulvarError, StoreError

if TYPE_CHECKING:
    from psycopg import AsyncConnection

__all__ = ["check_connection", "refusal", "savepoint"]

_SAVEPOINT = "rulvar_job"
_NO_TABLES = ("3F000", "42704", "42883", "42P01")


def check_connection(connection: object) -> None:
    """Refuse what is no connection that a job can be written on.

    Raises:
        ConfigError: not an open async psycopg connection.
    """
    from psycopg import AsyncConnection

    if not isinstance(connection, AsyncConnection):
        raise ConfigError(
            f"connection: expected an async psycopg connection, got {type(connection).__name__}",
            data={"field": "connection"},
        )
    if connection.closed:
        raise ConfigError("connection: it is closed", data={"field": "connection"})


@contextlib.asynccontextmanager
async def savepoint(connection: AsyncConnection[Any]) -> AsyncIterator[None]:
    """Undo what the block did when it raises, and leave the transaction around it as it was.

    psycopg's own block would commit the transaction that it begins on an idle connection; that is the caller's to do.
    """
    from psycopg.pq import TransactionStatus

    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        yield  # every statement is a transaction of its own
        return
    await connection.execute(f"SAVEPOINT {_SAVEPOINT}")
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):  # the connection broke: what happened is told, not this
            await connection.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            await connection.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")
        raise
    await connection.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")


def refusal(error: Exception) -> RulvarError:
    """Return what to tell a caller whose connection refused a job."""
    text, state = " ".join(str(error).split()), getattr(error, "sqlstate", None)
    if state in _NO_TABLES:
        return ConfigError(
            f"connection: the queue's tables are not in its database and search path ({text})",
            data={"field": "connection", "sqlstate": state},
        )
    return StoreError(
        f"the caller's connection: {text}; roll its transaction back, and submit again",
        data={"reason": "io", **({"sqlstate": state} if state else {})},
    )

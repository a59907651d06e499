"""Type parameters and `type` statements are understood by every Python that runs the lint."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from rulvar_lint import Diagnostic, fix_source
from rulvar_lint.core.type_parameters import erase_type_parameters

Check = Callable[..., list[Diagnostic]]

FLOW = """\
import time
from collections.abc import Callable
from rulvar import Ctx, workflow

type Pair[K, V] = tuple[K, V]
type Fn = Callable[[int], int]


def first[T: (int, str)](rows: list[T]) -> T: return rows[0]


async def each[
    T,
    *Ts,
    **P,
](ctx: Ctx, rows: list[T]) -> list[str]:
    at = time.time()
    return [await ctx.agent(f"{at} {r}") for r in rows]


class Größe[Ü, V: dict[str, list[int]]](dict[Ü, V]):
    def put[X](self, x: X) -> X: return x

    def stamp(self) -> float:
        type = time.time()
        return type


@workflow
async def flow[A](ctx: Ctx, args: dict):
    type Row = dict[str, A]
    type = args["type"]
    row: Row = first(args["rows"])
    a = Größe[str, dict]().put(row); b = Größe().stamp()
    return await each(ctx, [a, b, type])
"""


def test_generic_code_is_judged_where_it_stands(check: Check) -> None:
    assert [(d.line, d.column, d.code) for d in check(FLOW)] == [(17, 10, "RLV101"), (34, 42, "RLV101")]


def test_a_fix_in_generic_code_leaves_the_type_parameters(check: Check) -> None:
    made = fix_source(FLOW, check(FLOW))
    assert made == FLOW.replace("    at = time.time()", "    at = ctx.time()")


def test_what_is_erased_leaves_everything_else_in_its_place() -> None:
    data = FLOW.encode()
    older = erase_type_parameters(data)
    assert older is not None
    assert [len(line) for line in older.split(b"\n")] == [len(line) for line in data.split(b"\n")]
    names = {
        node.name for node in ast.walk(ast.parse(older)) if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    assert names == {"first", "Größe", "put", "stamp"}
    assert older.decode().splitlines()[4].split() == ["Pair", "=", "tuple[K,", "V]"]


def test_a_mistake_behind_generic_code_is_what_is_reported(check: Check) -> None:
    source = "from rulvar import workflow\n\n\ndef f[T](x: T) -> T:\n    return x\n\n\ndef g(:\n    pass\n"
    assert [(d.line, d.code) for d in check(source)] == [(8, "RLV001")]


@pytest.mark.parametrize(
    "source",
    [
        "def f(x): return x[0]\n",
        "type = 3\ntype [0]\n",
        "class A: x = [1]\n",
        "def f[T](x): return x\r",
        "# -*- coding: latin-1 -*-\ndef f[T](x): return x\n",
    ],
)
def test_text_without_type_parameters_is_left_alone(source: str) -> None:
    older = erase_type_parameters(source.encode())
    assert older is None or older == source.encode()


@pytest.mark.parametrize(
    "source", ["def f[", "class A[T", "type X[", "def f[T](x): '", "def f[\n\n\n](x): pass"]
)
def test_text_that_is_cut_off_does_no_harm(source: str, check: Check) -> None:
    erase_type_parameters(source.encode())
    assert {d.code for d in check(f"from rulvar import workflow\n{source}")} <= {"RLV001"}

"""RLV401, RLV402: what tells one journaled call from another."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Final, cast

from rulvar_lint.core.ancestry import ancestors, between, start_of
from rulvar_lint.core.containers import MUTATORS
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.freevars import known_bound, loop_bound, names_in
from rulvar_lint.core.identities import canonical, identity_parts
from rulvar_lint.core.nodes import children, walk
from rulvar_lint.core.values import (
    Class,
    Func,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.findings import Plan
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks

_JUDGED: Final = frozenset({"agent", "workflow", "await_external", "step", "brief"})
_COMPARED: Final = 50
Parts = list[tuple[str, ast.expr]]


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.region_end.append(_calls)


def _calls(f: Frame) -> None:
    if not f.calls:
        return
    calls = list({call.node: call for call in f.calls if call.name in _JUDGED and not call.refused}.values())
    if len(calls) > 1:
        _duplicates(f, calls)
    for call in calls:
        if call.loops:
            _constant_in_loop(f, call)


def _duplicates(f: Frame, calls: list[CtxCall]) -> None:
    alike: dict[object, list[tuple[CtxCall, Parts]]] = {}
    for call in calls:
        parts = identity_parts(call)
        if parts:
            sketch = (call.name, *((name, _sketch(node)) for name, node in parts))
            alike.setdefault(sketch, []).append((call, parts))
    groups: dict[str, list[CtxCall]] = {}
    for pairs in alike.values():
        for call, parts in pairs if len(pairs) > 1 else ():
            if not any(_volatile(node) for _, node in parts):
                text = call.name + ";" + ";".join(f"{name}={canonical(node)}" for name, node in parts)
                groups.setdefault(text, []).append(call)
    repeated = [group for group in groups.values() if len(group) > 1]
    if f.decl is not None:
        for group in repeated:
            _judge_group(f, group, f.decl.node)


def _sketch(node: ast.expr) -> object:
    """A cheap part of what `canonical` tells: expressions that differ in it are not the same."""
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, ast.JoinedStr):
        return tuple(v.value if isinstance(v, ast.Constant) else v.__class__ for v in node.values)
    return node.__class__


def _judge_group(f: Frame, group: list[CtxCall], root: ast.AST) -> None:
    group.sort(key=lambda call: start_of(call.node))
    chains = [ancestors(root, call.node) for call in group]
    for index, later in enumerate(group):
        for before in range(index - 1, max(-1, index - _COMPARED), -1):
            if not (chains[before] and chains[index] and _same_path(chains[before], chains[index])):
                continue
            # What changed since this call has changed since all calls before it as well.
            if not _changed(root, chains[before], chains[index], _names_of(later)):
                _repeats(f, group[before], later)
            break


def _repeats(f: Frame, earlier: CtxCall, later: CtxCall) -> None:
    line = start_of(earlier.node)[0]
    what = f"`ctx.{later.name}` repeats a call of line {line}: only their order tells them apart"
    cause = Cause("RLV401", what, f.place(later.node), (), "warning")
    places = [(f.place(earlier.node), "the first of the two calls")]
    f.m.report(f, later.node, cause, fix=_add_key(f, later), places=places)


def _names_of(call: CtxCall) -> set[str]:
    return {name for _, node in identity_parts(call) or () for name in names_in(node)}


def _changed(root: ast.AST, earlier: list[ast.AST], later: list[ast.AST], names: set[str]) -> bool:
    """Whether a variable of the identity may have another value at the second call."""
    if not names:
        return False
    around = set(earlier)
    for node in later:
        if node not in around and isinstance(node, _COMPREHENSIONS) and names & loop_bound(node):
            return True
    statement = next((node for node in earlier if isinstance(node, ast.stmt)), earlier[0])
    start = min(start_of(earlier[0]), start_of(statement))
    return any(not names.isdisjoint(_changes(node)) for node in between(root, start, start_of(later[0])))


_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _branch_of(parent: ast.AST, child: ast.AST) -> str:
    for name, value in ast.iter_fields(parent):
        if value is child or (isinstance(value, list) and child in value):
            return name
    return ""


def _same_path(first: list[ast.AST], second: list[ast.AST]) -> bool:
    """Whether one run can make both calls, the one at the start of `first` first."""
    common = next(node for node in first if node in set(second))
    below, other = first[: first.index(common)], second[: second.index(common)]
    if not below or not other:
        return True
    a, b = below[-1], other[-1]
    if isinstance(common, (ast.List, ast.Tuple)) and len(below) == len(other) == 1:
        return False  # coroutines that are started together: each has a branch of its own
    fields = (_branch_of(common, a), _branch_of(common, b))
    if isinstance(common, (ast.If, ast.IfExp)) and fields == ("body", "orelse"):
        return False
    if isinstance(common, ast.Match) and isinstance(a, ast.match_case) and isinstance(b, ast.match_case):
        return False
    if isinstance(common, (ast.Try, ast.TryStar)):
        if fields[0] == "handlers" and fields[1] in ("handlers", "orelse"):
            return False
        if fields[1] == "finalbody" or fields == ("body", "handlers"):
            return True
    return not any(_leaves_block(node, parent) for node, parent in itertools.pairwise(below)) and not (
        _leaves_between(common, a, b)
    )


def _leaves_block(node: ast.AST, parent: ast.AST) -> bool:
    """Whether control, once at `node`, must leave the function before the end of the block it is
    in.
    """
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and node in block:
            return any(
                isinstance(stmt, (ast.Return, ast.Raise)) for stmt in _until_jump(block[block.index(node) :])
            )
    return False


def _until_jump(block: list[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for stmt in block:
        if isinstance(stmt, (ast.Break, ast.Continue)):
            break
        found.append(stmt)
    return found


def _leaves_between(common: ast.AST, a: ast.AST, b: ast.AST) -> bool:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(common, name, None)
        if isinstance(block, list) and a in block:
            end = block.index(b) if b in block else len(block)
            return any(
                isinstance(stmt, (ast.Return, ast.Raise, ast.Break, ast.Continue))
                for stmt in block[block.index(a) : end]
            )
    return False


def _changes(node: ast.AST) -> set[str] | frozenset[str]:
    """Names that a node binds or may mutate."""
    cls = node.__class__
    if cls is ast.Name:
        return {node.id} if node.ctx.__class__ is not ast.Load else _NONE  # type: ignore[attr-defined]
    if cls is ast.Call:
        func: ast.expr = node.func  # type: ignore[attr-defined]
        if func.__class__ is ast.Attribute and func.attr in MUTATORS:
            return names_in(func.value)
        return _NONE
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {n.id for target in targets for n in walk(target) if isinstance(n, ast.Name)}
    return _NONE


_NONE: Final[frozenset[str]] = frozenset()
_FRESH: Final = names("now time random uuid pop popleft get_nowait readline next")


def _volatile(node: ast.AST) -> bool:
    """Whether an expression gives another value each time it is evaluated."""
    for inner in walk(node):
        if isinstance(inner, ast.Call):
            func = inner.func
            if isinstance(func, ast.Attribute):
                if func.attr in _FRESH:
                    return True
            elif isinstance(func, ast.Name) and func.id in ("next", "anext", "input"):
                return True
        elif isinstance(inner, (ast.Await, ast.NamedExpr)):
            return True
    return False


def _fresh_name(f: Frame, call: CtxCall) -> str:
    """A name that no other call of the function has: `agent`, `agent-2` and so on, by position."""
    nodes = {other.node for other in f.calls if other.name == call.name}
    number = sum(start_of(node) <= start_of(call.node) for node in nodes)
    keys = [other.expr("key") for other in f.calls]
    taken = {text for key in keys for text in _texts(key)}
    while number > 1 and any(text.startswith(f"{call.name}-{number}") for text in taken):
        number += len(nodes)
    return f"{call.name}-{number}" if number > 1 else call.name


def _texts(key: ast.expr | None) -> list[str]:
    nodes = walk(key) if key is not None else ()
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def _add_key(f: Frame, call: CtxCall) -> Plan | None:
    has_key = call.name == "await_external" or call.expr("key") is not None
    if has_key or call.loops or not isinstance(call.node, ast.Call):
        return None
    return (
        "unsafe",
        "Add a distinct `key`",
        [(call.node, f'key="{_fresh_name(f, call)}"')],
        "argument",
    )


_PURE: Final = names("""str repr len sorted list tuple dict set int float format join json dumps
strip lower upper min max sum range enumerate zip map filter title capitalize replace split
round abs bool isoformat model_dump asdict""")
_HARMLESS: Final = _JUDGED | _PURE | {"log", "parallel", "pipeline"}


def _constant_in_loop(f: Frame, call: CtxCall) -> None:
    loop = call.loops[-1]
    parts = identity_parts(call)
    if parts is None or not parts:
        return
    used = {name for _, node in parts for name in names_in(node)}
    if used & known_bound(f.module.bounds, loop) or (used and used & _mutated_in(loop)):
        return
    if _runs_once(loop, call.node):
        return
    if any(_volatile(node) or _calls_unknown(f, node) for _, node in parts):
        return
    what = f"every iteration of the loop makes `ctx.{call.name}` with the same identity"
    cause = Cause("RLV402", what, f.place(call.node))
    f.m.report(f, call.node, cause, fix=_vary(f, call))


def _vary(f: Frame, call: CtxCall) -> Plan | None:
    """Name the variables of the loops around a call in its key."""
    loops = {loop: _loop_variable(loop) for loop in call.loops}
    variables = [name for name in loops.values() if name is not None]
    if len(variables) < len(loops) or not isinstance(call.node, ast.Call):
        return None
    message = f"Put {', '.join(f'`{name}`' for name in variables)} into the key"
    tail = "".join(f"-{{{name}}}" for name in variables)
    key = call.expr("key")
    if key is None:
        text = f'key=f"{_fresh_name(f, call)}{tail}"'
        return ("unsafe", message, [(call.node, text)], "argument")
    written = key.value if isinstance(key, ast.Constant) else None
    if not isinstance(written, str) or not written.isprintable() or set(written) & set('{}"\\'):
        return None
    return ("unsafe", message, [(key, f'f"{written}{tail}"')], "replace")


def _loop_variable(loop: ast.AST) -> str | None:
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        target: ast.expr = loop.target
    elif isinstance(loop, _COMPREHENSIONS):
        target = loop.generators[-1].target
    else:
        return None
    while isinstance(target, (ast.Tuple, ast.List)) and target.elts:
        target = target.elts[0]
    return target.id if isinstance(target, ast.Name) else None


def _calls_unknown(f: Frame, node: ast.AST) -> bool:
    """Whether an identity is computed by code whose result may change from call to call."""
    for inner in walk(node):
        if isinstance(inner, ast.Call):
            func = inner.func
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            if name in _PURE:
                continue
            if isinstance(func, ast.Name):
                value = f.env.get(func.id) or f.m.static_global(f.module, func.id)
                if isinstance(value, (Func, Class)):
                    continue
            return True
    return False


def _mutated_in(loop: ast.AST) -> set[str]:
    """Names that an iteration may change without binding them. The bodies of steps do not count:
    what they change is lost (RLV306).
    """
    found: set[str] = set()
    todo = [loop]
    while todo:
        node = todo.pop()
        cls = node.__class__
        if cls is ast.Call:
            call = cast(ast.Call, node)
            func = call.func
            if func.__class__ is ast.Attribute and func.attr not in _PURE:
                found |= _receiver(func.value)
            if not _is_ctx_method(func):
                given = (*call.args, *(keyword.value for keyword in call.keywords))
                found.update(arg.id for arg in given if isinstance(arg, ast.Name))
            if getattr(func, "attr", "") == "step":
                todo += [below for below in children(node) if below.__class__ is not ast.Lambda]
                continue
        elif (cls is ast.Subscript or cls is ast.Attribute) and node.ctx.__class__ is not ast.Load:  # type: ignore[attr-defined]
            found |= _receiver(node.value)  # type: ignore[attr-defined]
        todo += children(node)
    return found


def _receiver(node: ast.AST) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _is_ctx_method(func: ast.expr) -> bool:
    if isinstance(func, ast.Name):
        return func.id in _PURE
    return isinstance(func, ast.Attribute) and func.attr in _HARMLESS


def _runs_once(loop: ast.AST, call: ast.AST) -> bool:
    """Whether the loop is always left after the call, so that no second iteration makes it
    again."""
    node: ast.AST = loop
    while True:
        block = next((b for b in _blocks(node) if any(_contains(stmt, call) for stmt in b)), None)
        if block is None:
            body = node.body if node is loop and isinstance(node, ast.While) else []
            return any(isinstance(stmt, (ast.Return, ast.Raise, ast.Break)) for stmt in body) and not any(
                isinstance(inner, ast.Continue) for stmt in body for inner in walk(stmt)
            )
        index = next(i for i, stmt in enumerate(block) if _contains(stmt, call))
        if isinstance(block[index], (ast.Return, ast.Raise)):
            return True
        for stmt in block[index + 1 :]:
            if isinstance(stmt, (ast.Return, ast.Raise, ast.Break)):
                return True
            if any(isinstance(inner, ast.Continue) for inner in walk(stmt)):
                return False
        node = block[index]
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar)):
            return False


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    blocks = [
        block
        for name in ("body", "orelse", "finalbody")
        if isinstance(block := getattr(node, name, None), list)
    ]
    blocks += [part.body for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ()))]
    return blocks


def _contains(node: ast.AST, inner: ast.AST) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or 0
    return first <= getattr(inner, "lineno", 0) <= last and any(found is inner for found in walk(node))


# RLV403, RLV404

"""RLV401-RLV404: what tells one journaled call from another."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.classes import is_data_class
from rulvar_lint.core.containers import MUTATORS
from rulvar_lint.core.decls import children, walk
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.frame import STEP
from rulvar_lint.core.freevars import free_names, loop_bound, names_in
from rulvar_lint.core.identities import canonical, identity_parts
from rulvar_lint.core.values import (
    Class,
    Const,
    Ctx,
    Ext,
    Func,
    Inst,
    LazyImport,
    ModuleRef,
    Obj,
    Partial,
    Value,
    options_of,
)
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.machine import Result

_JUDGED: Final = frozenset({"agent", "workflow", "await_external", "step", "brief"})


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.region_end.append(_calls)
    hooks.step.append(_dependencies)


def _calls(f: Frame) -> None:
    if not f.calls:
        return
    calls = list({call.node: call for call in f.calls if call.name in _JUDGED}.values())
    _duplicates(f, calls)
    varying: dict[ast.AST, set[str]] = {}
    for call in calls:
        if call.loops:
            _constant_in_loop(f, call, varying)


# RLV401


def _duplicates(f: Frame, calls: list[CtxCall]) -> None:
    groups: dict[str, list[CtxCall]] = {}
    for call in calls:
        parts = identity_parts(call)
        if not parts:
            continue
        if any(_volatile(node) for _, node in parts):
            continue
        text = call.name + ";" + ";".join(f"{name}={canonical(node)}" for name, node in parts)
        groups.setdefault(text, []).append(call)
    repeated = [group for group in groups.values() if len(group) > 1]
    if repeated and f.decl is not None:
        body = _Body(f.decl.node)
        for group in repeated:
            _judge_group(f, group, body)


def _judge_group(f: Frame, group: list[CtxCall], body: _Body) -> None:
    group.sort(key=lambda call: _position(call.node))
    for index, later in enumerate(group):
        for earlier in group[:index]:
            if _same_path(body.parents, earlier.node, later.node) and not body.changed(
                earlier, later
            ):
                line = _position(earlier.node)[0]
                what = f"`ctx.{later.name}` repeats a call of line {line}: only their order tells them apart"
                cause = Cause("RLV401", what, f.place(later.node), (), "warning")
                places = [(f.place(earlier.node), "the first of the two calls")]
                f.m.report(f, later.node, cause, fix=_add_key(f, later, index), places=places)
                break


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


class _Body:
    """A function body: who contains whom, and where names change."""

    __slots__ = ("events", "parents")

    def __init__(self, root: ast.AST) -> None:
        self.parents: dict[ast.AST, ast.AST] = {}
        self.events: list[tuple[tuple[int, int], set[str] | frozenset[str]]] = []
        todo = [root]
        while todo:
            node = todo.pop()
            for child in children(node):
                self.parents[child] = node
                todo.append(child)
                changed = _changes(child)
                if changed:
                    self.events.append((_position(child), changed))

    def changed(self, earlier: CtxCall, later: CtxCall) -> bool:
        """Whether a variable of the identity may have another value at the second call."""
        names: set[str] = set()
        for _, node in identity_parts(later) or ():
            names |= names_in(node)
        if not names:
            return False
        if any(names & loop_bound(node) for node in self._comprehensions(earlier, later)):
            return True
        start = min(_position(earlier.node), _position(_statement(self.parents, earlier.node)))
        end = _position(later.node)
        return any(
            start <= position <= end and changed & names for position, changed in self.events
        )

    def _comprehensions(self, earlier: CtxCall, later: CtxCall) -> list[ast.AST]:
        """The comprehensions around the second call that are not around the first."""
        outer = set(_chain(self.parents, earlier.node))
        return [
            node
            for node in _chain(self.parents, later.node)
            if node not in outer
            and isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        ]


def _chain(parents: dict[ast.AST, ast.AST], node: ast.AST) -> list[ast.AST]:
    chain = [node]
    while node in parents:
        node = parents[node]
        chain.append(node)
    return chain


def _branch_of(parent: ast.AST, child: ast.AST) -> str:
    for name, value in ast.iter_fields(parent):
        if value is child or (isinstance(value, list) and child in value):
            return name
    return ""


def _same_path(parents: dict[ast.AST, ast.AST], earlier: ast.AST, later: ast.AST) -> bool:
    """Whether one run can make both calls, the earlier one first."""
    first, second = _chain(parents, earlier), _chain(parents, later)
    common = next(node for node in first if node in set(second))
    below, other = first[: first.index(common)], second[: second.index(common)]
    if not below or not other:
        return True
    a, b = below[-1], other[-1]
    fields = (_branch_of(common, a), _branch_of(common, b))
    if isinstance(common, ast.If | ast.IfExp) and fields == ("body", "orelse"):
        return False
    if (
        isinstance(common, ast.Match)
        and isinstance(a, ast.match_case)
        and isinstance(b, ast.match_case)
    ):
        return False
    if isinstance(common, ast.Try | ast.TryStar):
        if fields[0] == "handlers" and fields[1] in ("handlers", "orelse"):
            return False
        if fields[1] == "finalbody" or fields == ("body", "handlers"):
            return True
    return not any(
        _leaves_block(node, parent) for node, parent in itertools.pairwise(below)
    ) and not (_leaves_between(common, a, b))


def _leaves_block(node: ast.AST, parent: ast.AST) -> bool:
    """Whether control, once at `node`, must leave the function before the end of the block it is
    in.
    """
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and node in block:
            return any(
                isinstance(stmt, ast.Return | ast.Raise)
                for stmt in _until_jump(block[block.index(node) :])
            )
    return False


def _until_jump(block: list[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for stmt in block:
        if isinstance(stmt, ast.Break | ast.Continue):
            break
        found.append(stmt)
    return found


def _leaves_between(common: ast.AST, a: ast.AST, b: ast.AST) -> bool:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(common, name, None)
        if isinstance(block, list) and a in block:
            end = block.index(b) if b in block else len(block)
            return any(
                isinstance(stmt, ast.Return | ast.Raise | ast.Break | ast.Continue)
                for stmt in block[block.index(a) : end]
            )
    return False


def _statement(parents: dict[ast.AST, ast.AST], node: ast.AST) -> ast.AST:
    while not isinstance(node, ast.stmt) and node in parents:
        node = parents[node]
    return node


def _changes(node: ast.AST) -> set[str] | frozenset[str]:
    """Names that a node binds or may mutate."""
    cls = node.__class__
    if cls is ast.Name:
        return {node.id} if node.ctx.__class__ is not ast.Load else _NONE  # type: ignore[attr-defined]
    if cls is ast.Call:
        func: ast.expr = node.func  # type: ignore[attr-defined]
        if func.__class__ is ast.Attribute and func.attr in MUTATORS:  # type: ignore[attr-defined]
            return names_in(func.value)  # type: ignore[attr-defined]
        return _NONE
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {n.id for target in targets for n in walk(target) if isinstance(n, ast.Name)}
    return _NONE


_NONE: Final[frozenset[str]] = frozenset()


def _volatile(node: ast.AST) -> bool:
    """Whether an expression gives another value each time it is evaluated."""
    for inner in walk(node):
        if isinstance(inner, ast.Call):
            func = inner.func
            if isinstance(func, ast.Attribute):
                if func.attr in (
                    "now",
                    "time",
                    "random",
                    "uuid",
                    "pop",
                    "popleft",
                    "get_nowait",
                    "readline",
                    "next",
                ):
                    return True
            elif isinstance(func, ast.Name) and func.id in ("next", "anext", "input"):
                return True
        elif isinstance(inner, ast.Await | ast.NamedExpr):
            return True
    return False


def _add_key(f: Frame, call: CtxCall, index: int) -> object:
    if (
        call.name == "await_external"
        or call.expr("key") is not None
        or not isinstance(call.node, ast.Call)
    ):
        return None
    return (
        "unsafe",
        "Add a distinct `key`",
        [(call.node, f'key="{call.name}-{index + 1}"')],
        "argument",
    )


# RLV402


_PURE: Final = names("""str repr len sorted list tuple dict set int float format join json dumps strip lower
    upper min max sum range enumerate zip map filter title capitalize replace split
    round abs bool isoformat model_dump asdict""")


def _constant_in_loop(f: Frame, call: CtxCall, varying: dict[ast.AST, set[str]]) -> None:
    loop = call.loops[-1]
    parts = identity_parts(call)
    if parts is None or not parts or _runs_once(loop, call.node):
        return
    if any(_volatile(node) or _calls_unknown(f, node) for _, node in parts):
        return
    bound = varying.get(loop)
    if bound is None:
        bound = varying[loop] = loop_bound(loop) | _mutated_in(loop)
    if any(names_in(node) & bound for _, node in parts):
        return
    what = f"every iteration of the loop makes `ctx.{call.name}` with the same identity"
    f.m.report(f, call.node, Cause("RLV402", what, f.place(call.node), (), "warning"))


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
                if isinstance(value, Func | Class):
                    continue
            return True
    return False


def _mutated_in(loop: ast.AST) -> set[str]:
    """Names that an iteration may change without binding them."""
    found: set[str] = set()
    for node in walk(loop):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr not in _PURE:
                found |= _receiver(node.func.value)
            for arg in (*node.args, *(keyword.value for keyword in node.keywords)):
                if isinstance(arg, ast.Name) and not _is_ctx_method(node.func):
                    found.add(arg.id)
        elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found |= _receiver(node.value)
    return found


def _receiver(node: ast.AST) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()


def _is_ctx_method(func: ast.expr) -> bool:
    if isinstance(func, ast.Name):
        return func.id in _PURE
    return isinstance(func, ast.Attribute) and func.attr in (
        _JUDGED | _PURE | {"log", "parallel", "pipeline"}
    )


def _runs_once(loop: ast.AST, call: ast.AST) -> bool:
    """Whether the loop is always left after the call, so that no second iteration makes it again."""
    node: ast.AST = loop
    while True:
        block = next((b for b in _blocks(node) if any(_contains(stmt, call) for stmt in b)), None)
        if block is None:
            body = node.body if node is loop and isinstance(node, ast.While) else []
            return any(
                isinstance(stmt, ast.Return | ast.Raise | ast.Break) for stmt in body
            ) and not any(isinstance(inner, ast.Continue) for stmt in body for inner in walk(stmt))
        index = next(i for i, stmt in enumerate(block) if _contains(stmt, call))
        if isinstance(block[index], ast.Return | ast.Raise):
            return True
        for stmt in block[index + 1 :]:
            if isinstance(stmt, ast.Return | ast.Raise | ast.Break):
                return True
            if any(isinstance(inner, ast.Continue) for inner in walk(stmt)):
                return False
        node = block[index]
        if isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.Try | ast.TryStar):
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
    return first <= getattr(inner, "lineno", 0) <= last and any(
        found is inner for found in walk(node)
    )


# RLV403, RLV404


def _dependencies(f: Frame, call: CtxCall, fn: Value | None, result: Result | None) -> None:
    if f.mode == STEP:
        return
    fn_node = call.expr("fn")
    if fn_node is None:
        return
    used = _captured_paths(f, fn_node, fn)
    if not used:
        return
    deps = call.expr("deps")
    if deps is None:
        names = ", ".join(f"`{name}`" for name in sorted({path[0] for path in used})[:3])
        what = f"the step uses {names} and declares no deps"
        f.m.report(f, call.node, Cause("RLV404", what, f.place(call.node), (), "warning"))
        return
    if isinstance(deps, ast.Starred) or not isinstance(deps, ast.List | ast.Tuple):
        covered = _paths(deps)
        if isinstance(deps, ast.Name) and deps.id not in f.env:
            return
        if isinstance(deps, ast.Name):
            covered |= _display_paths(f, deps.id)
    else:
        covered = _paths(deps)
    for extra in (call.expr("label"), call.expr("key")):
        if extra is not None:
            covered |= _paths(extra)
    missing = sorted({path for path in used if not any(path[: len(c)] == c for c in covered)})
    if missing:
        shown = ", ".join(f"`{_show(path)}`" for path in missing[:3])
        what = f"the step uses {shown}, which is missing from `deps`"
        f.m.report(
            f,
            call.node,
            Cause("RLV403", what, f.place(call.node), (), "warning"),
            fix=_add_dep(deps, missing),
        )


def _add_dep(deps: ast.expr, missing: list[tuple[str, ...]]) -> object:
    if not isinstance(deps, ast.List) or not deps.elts or isinstance(deps.elts[-1], ast.Starred):
        return None
    text = ", ".join(_show(path) for path in missing)
    return ("unsafe", f"Add {text} to deps", [(deps.elts[-1], f", {text}")], "after")


def _show(path: tuple[str, ...]) -> str:
    return path[0] + "".join(path[1:])


def _display_paths(f: Frame, name: str) -> set[tuple[str, ...]]:
    """What a list in a variable was built from, when the function says so."""
    found: set[tuple[str, ...]] = set()
    root = f.decl.node if f.decl is not None else None
    if root is None:
        return found
    for node in walk(root):
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == name for t in node.targets
        ):
            found |= _paths(node.value)
    return found


def _paths(node: ast.AST) -> set[tuple[str, ...]]:
    """Access paths in an expression: `cfg["a"].b` is ("cfg", "['a']", ".b")."""
    found: set[tuple[str, ...]] = set()
    todo: list[ast.AST] = [node]
    while todo:
        current = todo.pop()
        path = _path(current)
        if path is not None:
            found.add(path)
            continue
        if isinstance(current, ast.Call) and isinstance(current.func, ast.Attribute):
            todo.append(current.func.value)
            todo.extend([*current.args, *(keyword.value for keyword in current.keywords)])
            continue
        todo.extend(children(current))
    return found


def _path(node: ast.AST) -> tuple[str, ...] | None:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        base = _path(node.value)
        return None if base is None else (*base, f".{node.attr}")
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        base = _path(node.value)
        return None if base is None else (*base, f"[{node.slice.value!r}]")
    return None


def _captured_paths(f: Frame, fn_node: ast.expr, fn: Value | None) -> set[tuple[str, ...]]:
    """Access paths of the local variables that a step function uses."""
    found: set[tuple[str, ...]] = set()
    if isinstance(fn_node, ast.Call):
        for option in options_of(fn):
            if isinstance(option, Partial):
                for arg in (*fn_node.args, *(keyword.value for keyword in fn_node.keywords)):
                    found |= _paths(arg)
    for option in options_of(fn):
        func = option.func if isinstance(option, Partial) else option
        if isinstance(func, Func) and func.frame is not None:
            found |= _function_paths(f, func, set())
    return {path for path in found if _is_input(f, path[0])}


def _function_paths(f: Frame, func: Func, seen: set[ast.AST]) -> set[tuple[str, ...]]:
    node = func.decl.node
    if node in seen:
        return set()
    seen.add(node)
    free = set(free_names(node))
    body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    found: set[tuple[str, ...]] = set()
    for part in body:
        found |= {path for path in _paths(part) if path[0] in free}
    for param in func.decl.params:
        if param.default is not None:
            found |= _paths(param.default)
    for name in free:
        inner = f.env.get(name)
        if isinstance(inner, Func) and inner.frame is not None:
            found |= _function_paths(f, inner, seen)
    return found


def _is_input(f: Frame, name: str) -> bool:
    """Whether a name is a local variable whose value can differ between runs."""
    if name in f.env:
        value = f.env[name]
    else:
        owner = f.owner_of(name)
        if owner is None or owner.decl is None:
            return False
        value = owner.env.get(name)
        return _differs(owner, name, value)
    return _differs(f, name, value)


_DATA_TYPES: Final = ("builtins.", "datetime.", "uuid.", "pathlib.", "decimal.", "fractions.")


def _differs(f: Frame, name: str, value: Value | None) -> bool:
    if isinstance(value, Ctx | Func | Class | Ext | ModuleRef | LazyImport | Const):
        return False
    if isinstance(value, Inst) and not is_data_class(value.decl):
        return False  # a service, which has no place in deps
    if isinstance(value, Obj) and not value.type.startswith(_DATA_TYPES):
        return False
    decl = f.decl
    if decl is None or name in ("self", "cls", "args"):
        return False
    return not (decl in f.m.registered and any(param.name == name for param in decl.params))

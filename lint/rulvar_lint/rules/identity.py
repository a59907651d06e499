"""RLV401-RLV404: what tells one journaled call from another."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.containers import MUTATORS
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.frame import STEP
from rulvar_lint.core.freevars import free_names, loop_bound, names_in
from rulvar_lint.core.values import (
    Class,
    Const,
    Ctx,
    Ext,
    Func,
    LazyImport,
    ModuleRef,
    Partial,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.machine import Result

# Options that are no part of the identity of a call.
IGNORED: Final = frozenset(
    ["label", "on_error", "retry", "replay", "memoize_outcome", "limits", "est_cost", "stream", "fallback", "phase", "returns", "settle", "abort_siblings", "on_item_error"]
)
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
    for call in calls:
        if call.loops:
            _constant_in_loop(f, call)


# Identity


def identity_parts(call: CtxCall) -> list[tuple[str, ast.expr]] | None:
    """(name, expression) of what identifies a call; None when arguments are spread and cannot be seen."""
    args = call.args
    if args.rest is not None or any(isinstance(node, ast.Starred) for node in args.pos_nodes):
        return None
    if isinstance(call.node, ast.Call) and any(keyword.arg is None for keyword in call.node.keywords):
        return None
    key = call.expr("key")
    if isinstance(key, ast.Constant) and key.value is None:
        key = None
    parts: list[tuple[str, ast.expr]] = []
    if call.name == "step":
        if key is not None:
            parts = [("label", key)]
        else:
            label = call.expr("label")
            parts = [("label", label)] if label is not None else []
        deps = call.expr("deps")
        if deps is not None and not _is_empty(deps):
            parts.append(("deps", deps))
        return parts
    if call.name == "await_external":
        return [("key", key)] if key is not None else []
    if call.name == "workflow":
        child, given = call.expr("child"), call.expr("args")
        parts = [("child", child)] if child is not None else []
        second = key if key is not None else given
        return [*parts, ("args", second)] if second is not None else parts
    prompt = call.expr("prompt")
    first = key if key is not None else prompt
    parts = [("prompt", first)] if first is not None else []
    skip = IGNORED | {"key", "prompt"}
    parts += [
        (name, node)
        for name, node in sorted(args.kw_nodes.items())
        if name not in skip and not name.startswith("on_") and not _is_none(node)
    ]
    return parts


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple | ast.List) and not node.elts


def _canonical(node: ast.AST) -> str:
    """A text that is equal for expressions that mean the same: quotes and the order of dict keys do not count."""
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        pairs = sorted(
            (_canonical(key), _canonical(value)) for key, value in zip(node.keys, node.values, strict=True) if key
        )
        return "{" + ",".join(f"{k}:{v}" for k, v in pairs) + "}"
    if isinstance(node, ast.Call):
        args = ",".join(_canonical(arg) for arg in node.args)
        kws = ",".join(sorted(f"{keyword.arg}={_canonical(keyword.value)}" for keyword in node.keywords))
        return f"{_canonical(node.func)}({args};{kws})"
    if isinstance(node, ast.JoinedStr):
        return "f" + "|".join(_canonical(value) for value in _merged(node))
    if isinstance(node, ast.Constant):
        return f"{type(node.value).__name__}:{node.value!r}"
    fields = []
    for name, value in ast.iter_fields(node):
        if name == "ctx":
            continue
        if isinstance(value, ast.AST):
            fields.append(f"{name}={_canonical(value)}")
        elif isinstance(value, list):
            fields.append(f"{name}=[{','.join(_canonical(v) if isinstance(v, ast.AST) else repr(v) for v in value)}]")
        else:
            fields.append(f"{name}={value!r}")
    return f"{type(node).__name__}({','.join(fields)})"


def _merged(node: ast.JoinedStr) -> list[ast.AST]:
    return list(node.values)


# RLV401


def _duplicates(f: Frame, calls: list[CtxCall]) -> None:
    groups: dict[str, list[CtxCall]] = {}
    for call in calls:
        parts = identity_parts(call)
        if not parts:
            continue
        if any(_volatile(node) for _, node in parts):
            continue
        text = call.name + ";" + ";".join(f"{name}={_canonical(node)}" for name, node in parts)
        groups.setdefault(text, []).append(call)
    for group in groups.values():
        if len(group) > 1:
            _judge_group(f, group)


def _judge_group(f: Frame, group: list[CtxCall]) -> None:
    root = f.decl.node if f.decl is not None else None
    if root is None:
        return
    parents = _parents(root)
    group.sort(key=lambda call: (call.node.lineno, call.node.col_offset))  # type: ignore[attr-defined]
    for index, later in enumerate(group):
        for earlier in group[:index]:
            if _same_path(parents, earlier.node, later.node) and not _changed(parents, root, earlier, later):
                what = f"`ctx.{later.name}` repeats a call of line {earlier.node.lineno}: only their order tells them apart"  # type: ignore[attr-defined]
                cause = Cause("RLV401", what, f.place(later.node), (), "warning")
                f.m.report(f, later.node, cause, fix=_add_key(f, later, index), places=[(f.place(earlier.node), "the first of the two calls")])
                break


def _parents(root: ast.AST) -> dict[ast.AST, ast.AST]:
    found: dict[ast.AST, ast.AST] = {}
    todo = [root]
    while todo:
        node = todo.pop()
        for child in ast.iter_child_nodes(node):
            found[child] = node
            todo.append(child)
    return found


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
    if isinstance(common, ast.Match) and isinstance(a, ast.match_case) and isinstance(b, ast.match_case):
        return False
    if isinstance(common, ast.Try | ast.TryStar):
        if fields[0] == "handlers" and fields[1] in ("handlers", "orelse"):
            return False
        if fields[1] == "finalbody" or fields == ("body", "handlers"):
            return True
    return not any(_leaves_block(node, parent) for node, parent in zip(below, below[1:], strict=False)) and not (
        _leaves_between(common, a, b)
    )


def _leaves_block(node: ast.AST, parent: ast.AST) -> bool:
    """Whether control, once at `node`, must leave the function before the end of the block it is in."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and node in block:
            return any(isinstance(stmt, ast.Return | ast.Raise) for stmt in _until_jump(block[block.index(node) :]))
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


def _changed(parents: dict[ast.AST, ast.AST], root: ast.AST, earlier: CtxCall, later: CtxCall) -> bool:
    """Whether a variable of the identity may have another value at the second call."""
    names: set[str] = set()
    for _, node in identity_parts(later) or ():
        names |= names_in(node)
    if not names:
        return False
    start = (earlier.node.lineno, earlier.node.col_offset)  # type: ignore[attr-defined]
    end = (later.node.lineno, later.node.col_offset)  # type: ignore[attr-defined]
    for node in ast.walk(root):
        line = getattr(node, "lineno", None)
        if line is None or not (start <= (line, node.col_offset) <= end):  # type: ignore[attr-defined]
            statement = _statement(parents, earlier.node)
            if node is not statement:
                continue
        if _changes(node) & names:
            return True
    return False


def _statement(parents: dict[ast.AST, ast.AST], node: ast.AST) -> ast.AST:
    while not isinstance(node, ast.stmt) and node in parents:
        node = parents[node]
    return node


def _changes(node: ast.AST) -> set[str]:
    """Names that a node binds or may mutate."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        return {node.id}
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
        return names_in(node.func.value)
    return set()


def _volatile(node: ast.AST) -> bool:
    """Whether an expression gives another value each time it is evaluated."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            func = inner.func
            if isinstance(func, ast.Attribute):
                if func.attr in ("now", "time", "random", "uuid", "pop", "popleft", "get_nowait", "readline", "next"):
                    return True
            elif isinstance(func, ast.Name) and func.id in ("next", "anext", "input"):
                return True
        elif isinstance(inner, ast.Await | ast.NamedExpr):
            return True
    return False


def _add_key(f: Frame, call: CtxCall, index: int) -> object:
    if call.name == "await_external" or call.expr("key") is not None or not isinstance(call.node, ast.Call):
        return None
    return ("unsafe", "Add a distinct `key`", [(call.node, f'key="{call.name}-{index + 1}"')], "argument")


# RLV402


_PURE: Final = frozenset(
    ["str", "repr", "len", "sorted", "list", "tuple", "dict", "set", "int", "float", "format", "join", "json", "dumps", "strip", "lower", "upper", "min", "max", "sum", "range", "enumerate", "zip", "map", "filter", "title", "capitalize", "replace", "split", "round", "abs", "bool", "isoformat", "model_dump", "asdict"]
)


def _constant_in_loop(f: Frame, call: CtxCall) -> None:
    loop = call.loops[-1]
    parts = identity_parts(call)
    if parts is None or not parts or _runs_once(loop, call.node):
        return
    if any(_volatile(node) or _calls_unknown(f, node) for _, node in parts):
        return
    bound = loop_bound(loop) | _mutated_in(loop)
    if any(names_in(node) & bound for _, node in parts):
        return
    what = f"every iteration of the loop makes `ctx.{call.name}` with the same identity"
    f.m.report(f, call.node, Cause("RLV402", what, f.place(call.node), (), "warning"))


def _calls_unknown(f: Frame, node: ast.AST) -> bool:
    """Whether an identity is computed by code whose result may change from call to call."""
    for inner in ast.walk(node):
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
    for node in ast.walk(loop):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                if node.func.attr in MUTATORS or node.func.attr not in _PURE:
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
    return isinstance(func, ast.Attribute) and func.attr in (_JUDGED | _PURE | {"log", "parallel", "pipeline"})


def _runs_once(loop: ast.AST, call: ast.AST) -> bool:
    """Whether the body of a loop always leaves after the call, so that there is no second iteration."""
    body = getattr(loop, "body", None)
    if not isinstance(body, list):
        return False
    for stmt in body:
        if isinstance(stmt, ast.Return | ast.Raise | ast.Break):
            return True
        if isinstance(stmt, ast.Continue):
            return False
        if any(isinstance(node, ast.Continue) for node in ast.walk(stmt)):
            return False
    return False


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
        f.m.report(f, call.node, Cause("RLV403", what, f.place(call.node), (), "warning"), fix=_add_dep(deps, missing))


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
    for node in ast.walk(root):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
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
        todo.extend(ast.iter_child_nodes(current))
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


def _differs(f: Frame, name: str, value: Value | None) -> bool:
    if isinstance(value, Ctx | Func | Class | Ext | ModuleRef | LazyImport | Const):
        return False
    decl = f.decl
    if decl is None or name in ("self", "cls", "args"):
        return False
    if decl in f.m.registered and any(param.name == name for param in decl.params):
        return False
    return True

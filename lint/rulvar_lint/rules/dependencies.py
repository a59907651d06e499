"""RLV403, RLV404: the inputs of a step that its deps do not name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.ancestry import ancestors, start_of
from rulvar_lint.core.brackets import bracketed
from rulvar_lint.core.classes import is_data_class
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.frame import HOST, STEP
from rulvar_lint.core.freevars import free_names_of
from rulvar_lint.core.lasting import changed_inside
from rulvar_lint.core.nodes import children, own_nodes, walk
from rulvar_lint.core.values import (
    Class,
    Const,
    Container,
    Ctx,
    Ext,
    Func,
    Inst,
    LazyImport,
    ModuleRef,
    Obj,
    Partial,
    Set,
    Value,
    options_of,
)

if TYPE_CHECKING:
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.findings import Plan
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.memory import Result


# An access path: `cfg["a"].b` is ("cfg", "['a']", ".b").
Path = tuple[str, ...]


def install(hooks: Hooks) -> None:
    """Listen to what these rules judge."""
    hooks.step.append(_dependencies)


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
        shown = ", ".join(_dep(f, path) for path in sorted(used) if not _is_covered(path, used))
        fix: Plan | None = ("unsafe", "Declare deps", [(call.node, f"deps=[{shown}]")], "argument")
        if any(_outlives_runs(f, path[0]) for path in used):
            fix = None  # what runs change makes no good identity
        cause = Cause("RLV404", what, f.place(call.node), (), "warning")
        f.m.report(f, call.node, cause, fix=fix)
        return
    covered = _paths(deps)
    for name in _whole_lists(deps):
        if name not in f.env:
            return
        covered |= _display_paths(f, name)
    for extra in (call.expr("label"), call.expr("key")):
        if extra is not None:
            covered |= _paths(extra)
    missing = _missing(used, covered)
    if missing:
        texts = {path for name in covered if len(name) == 1 for path in _display_paths(f, name[0], _TEXTS)}
        missing = _missing(set(missing), texts)
    if missing:
        shown = ", ".join(f"`{_show(path)}`" for path in missing[:3])
        what = f"the step uses {shown}, which is missing from `deps`"
        f.m.report(
            f,
            call.node,
            Cause("RLV403", what, f.place(call.node), (), "warning"),
            fix=None if any(_outlives_runs(f, path[0]) for path in missing) else _add_dep(f, deps, missing),
        )


def _outlives_runs(f: Frame, name: str) -> bool:
    """Whether a name is a variable of the host function around a workflow, and runs change it."""
    owner = None if name in f.env else f.owner_of(name)
    if owner is None or owner.mode != HOST or owner.decl is None:
        return False
    changed, rebound = changed_inside(owner.decl)
    value = owner.env.get(name)
    return name in rebound or (isinstance(value, Container) and (name in changed or value.scope == "module"))


def _missing(used: set[Path], covered: set[Path]) -> list[Path]:
    return sorted(path for path in used if not any(path[: len(c)] == c for c in covered))


def _whole_lists(deps: ast.expr) -> list[str]:
    """Variables that stand for the list of deps, or for a part of it: `deps`, `[*deps]`, `a + b`."""
    if isinstance(deps, ast.Name):
        return [deps.id]
    if isinstance(deps, ast.BinOp):
        return [*_whole_lists(deps.left), *_whole_lists(deps.right)]
    if isinstance(deps, (ast.List, ast.Tuple)):
        return [name for elt in deps.elts if isinstance(elt, ast.Starred) for name in _whole_lists(elt.value)]
    return []


def _is_covered(path: Path, others: set[Path]) -> bool:
    """Whether a longer path says no more than a shorter one."""
    return any(path[:size] in others for size in range(1, len(path)))


def _dep(f: Frame, path: Path) -> str:
    is_unordered = len(path) == 1 and isinstance(f.env.get(path[0]), Set)
    return f"sorted({path[0]})" if is_unordered else _show(path)


def _add_dep(f: Frame, deps: ast.expr, missing: list[tuple[str, ...]]) -> Plan | None:
    if not isinstance(deps, (ast.List, ast.Tuple)):
        return None
    text = ", ".join(_dep(f, path) for path in missing)
    message = f"Add {text} to deps"
    if not deps.elts:
        made = f"[{text}]" if isinstance(deps, ast.List) else f"({text},)"
        return ("unsafe", message, [(deps, made)], "replace")
    if isinstance(deps.elts[-1], ast.Starred):
        return None
    return ("unsafe", message, [(bracketed(f.module.source, deps.elts[-1]), f", {text}")], "after")


def _show(path: tuple[str, ...]) -> str:
    return path[0] + "".join(path[1:])


# A variable that holds one of these stands for what is written in it.
_TEXTS: Final = (ast.JoinedStr, ast.Tuple, ast.List, ast.Dict)


def _display_paths(
    f: Frame, name: str, kinds: tuple[type[ast.expr], ...] = (ast.expr,)
) -> set[tuple[str, ...]]:
    """What a list or a text in a variable was built from, when the function says so."""
    found: set[tuple[str, ...]] = set()
    root = f.decl.node if f.decl is not None else None
    if root is None:
        return found
    for node in walk(root):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, kinds)
            and not (kinds is _TEXTS and any(isinstance(inner, ast.Await) for inner in walk(node.value)))
            and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
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
    return {path for path in found if _is_input(f, path[0], fn_node)}


def _function_paths(f: Frame, func: Func, seen: set[ast.AST]) -> set[tuple[str, ...]]:
    node = func.decl.node
    if node in seen:
        return set()
    seen.add(node)
    free = free_names_of(func.decl)
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


def _is_input(f: Frame, name: str, step: ast.expr) -> bool:
    """Whether a name is a local variable whose value can differ between runs."""
    if name in f.env:
        value = f.env[name]
    else:
        owner = f.owner_of(name)
        if owner is None or owner.decl is None:
            return False
        value = owner.env.get(name)
        return _differs(owner, name, value, step)
    return _differs(f, name, value, step)


def _may_be_rebound(f: Frame, name: str, step: ast.expr) -> bool:
    """Whether a variable that may hold a constant was given another value on the way to the step: by a
    later assignment in a branch or loop that the step is not in.
    """
    root = f.decl.node if f.decl is not None else None
    if root is None:
        return False
    position = start_of(step)
    around = set(ancestors(root, step))
    rebound = False
    for node in sorted(own_nodes(root), key=start_of):
        if start_of(node) >= position:
            break
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == name for target in node.targets):
            if not isinstance(node.value, ast.Constant):
                rebound = True
            elif ancestors(root, node)[1] in around:
                rebound = False
    return rebound


_DATA_TYPES: Final = ("builtins.", "datetime.", "uuid.", "pathlib.", "decimal.", "fractions.")


def _differs(f: Frame, name: str, value: Value | None, step: ast.expr) -> bool:
    if isinstance(value, (Ctx, Func, Class, Ext, ModuleRef, LazyImport)):
        return False
    if isinstance(value, Const) and not _may_be_rebound(f, name, step):
        return False
    if isinstance(value, Inst) and not is_data_class(value.decl):
        return False  # a service, which has no place in deps
    if isinstance(value, Obj) and not value.type.startswith(_DATA_TYPES):
        return False
    decl = f.decl
    if decl is None or name in ("self", "cls", "args"):
        return False
    return not (decl in f.m.registered and any(param.name == name for param in decl.params))

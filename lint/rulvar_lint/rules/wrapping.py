"""The change that an editor offers for inputs and outputs in replayed code: put it into a step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from rulvar_lint.core.ancestry import ancestors
from rulvar_lint.core.freevars import loop_bound, names_in
from rulvar_lint.core.nodes import walk
from rulvar_lint.core.words import names

if TYPE_CHECKING:
    from rulvar_lint.core.findings import Finding, Plan

_CODES: Final = names("RLV104 RLV105 RLV106 RLV107 RLV108 RLV109 RLV114")
# Functions whose result cannot leave a step: handles, connections, processes.
_HANDLES: Final = names("""open connect create_connection create_pool socket Popen urlopen Pool
acquire NamedTemporaryFile TemporaryFile TemporaryDirectory scandir create_subprocess_exec
create_subprocess_shell""")
_RESPONSES: Final = names("get post put patch delete head options request send stream")
_ITERATORS: Final = names("rglob iterdir glob walk enter_context enter_async_context")
_BARRIERS: Final = (ast.Lambda, ast.GeneratorExp, ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp)


def offer(finding: Finding) -> Plan | None:
    """A fix for one finding, or None if its expression cannot simply be moved."""
    frame = finding.frame
    if finding.cause.code not in _CODES or finding.in_text or frame is None or frame.decl is None:
        return None
    ctx = frame.ctx_name()
    root = frame.decl.node
    if ctx is None or not isinstance(root, ast.AsyncFunctionDef):
        return None
    chain = ancestors(root, finding.node)
    target = _whole(finding, chain)
    if target is None:
        return None
    inner = target.value if isinstance(target, ast.Await) else target
    text = finding.module.source.segment(inner)
    if text is None or any(
        isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)) for node in walk(inner)
    ):
        return None
    label = _label(inner)
    deps = sorted(names_in(inner) & _loop_names(chain)) or _loop_variables(chain)
    after = f", deps=[{', '.join(deps)}]" if deps else ""
    made = f'await {ctx}.step("{label}", lambda: {text}{after})'
    return ("manual", "Put it into a step", [(target, made)], "replace")


def _whole(finding: Finding, chain: list[ast.AST]) -> ast.expr | None:
    """The expression to move: what the finding points at, with the calls and attributes that are
    applied to it at once, and the `await` in front of it.
    """
    if not chain or not isinstance(chain[0], ast.expr):
        return None
    if any(isinstance(node, _BARRIERS) for node in chain[1:-1]):
        return None
    at = 0
    while at + 1 < len(chain) and _applies(chain[at + 1], chain[at]):
        at += 1
    if at + 1 < len(chain) and _is_handle(chain[at]):
        parent = chain[at + 1]
        if not isinstance(parent, ast.Call):
            return None
        at += 1
    if at + 1 < len(chain) and isinstance(chain[at + 1], ast.Await):
        at += 1
    found = chain[at]
    if _is_raw(found, finding.cause.code):
        return None
    above = chain[at + 1] if at + 1 < len(chain) else None
    if isinstance(above, (ast.withitem, ast.AsyncFor)) or not isinstance(found, ast.expr):
        return None
    if isinstance(above, (ast.Subscript, ast.Attribute, ast.Delete)):
        return None  # it is written to
    return found


def _applies(parent: ast.AST, node: ast.AST) -> bool:
    if isinstance(parent, (ast.Attribute, ast.Subscript)):
        return parent.value is node and isinstance(parent.ctx, ast.Load)
    return isinstance(parent, ast.Call) and parent.func is node


def _is_handle(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name(node.func) in _HANDLES


def _is_raw(node: ast.AST, code: str) -> bool:
    """Whether an expression gives something that cannot leave a step as it is."""
    call = node.value if isinstance(node, ast.Await) else node
    if not isinstance(call, ast.Call):
        return False
    name = _name(call.func)
    return (name in _RESPONSES and code == "RLV105") or name in _ITERATORS


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _label(node: ast.AST) -> str:
    """A label after the outermost function or attribute that has a telling name."""
    current: ast.AST = node
    while isinstance(current, (ast.Call, ast.Subscript, ast.Await)):
        current = current.func if isinstance(current, ast.Call) else current.value
    return _name(current).strip("_").replace("_", "-").lower() or "read"


def _loop_variables(chain: list[ast.AST]) -> list[str]:
    """The variable of the innermost loop, which tells its iterations apart."""
    for node in chain:
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return [node.target.id] if isinstance(node.target, ast.Name) else []
    return []


def _loop_names(chain: list[ast.AST]) -> set[str]:
    return {name for node in chain if isinstance(node, _LOOPS) for name in loop_bound(node)}

"""Results that are remembered, so that a function is run once per kind of arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core import calls
from rulvar_lint.core.choices import is_clock, is_filled
from rulvar_lint.core.frame import REGION, STEP
from rulvar_lint.core.values import (
    Class,
    Const,
    Container,
    Ctx,
    Ext,
    Func,
    Inst,
    Obj,
    Seq,
    Set,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from rulvar_lint.core.decls import FunctionDecl
    from rulvar_lint.core.effects import Cause
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.ledger import Entry
    from rulvar_lint.core.values import Env

MAX_CONTEXTS: Final = 16
MAX_CLOSURE_RUNS: Final = 64
_BY_IDENTITY: Final = "by identity"
NEVER: Final = 1 << 30


class Result:
    """What running a function gave."""

    __slots__ = ("attrs", "effects", "findings", "frame", "journals", "keep", "outward", "value")

    def __init__(self, frame: Frame | None, value: Value | None) -> None:
        self.frame = frame
        self.value = value
        self.effects: dict[str, Cause] = frame.effects if frame is not None else {}
        self.outward: dict[str, Cause] = frame.outward if frame is not None else {}
        self.journals = frame.journals if frame is not None else False
        self.findings: list[Entry] = []
        self.attrs: dict[str, Value | None] | None = None
        self.keep: object = None


class Memory:
    """What functions gave, by the kind of their arguments.

    A function that is met again while it runs gives a provisional answer. Results that rest on one
    are provisional too, until the function at the start of the cycle is done: `low` is the depth of
    the outermost function that a result rests on.
    """

    def __init__(self) -> None:
        self.low = NEVER
        self._provisional: dict[Any, tuple[Result, int]] = {}
        self._by_identity: dict[Any, Result] = {}
        self._contexts: dict[FunctionDecl, int] = {}

    def clear(self) -> None:
        """Forget results that belong to particular values."""
        self._contexts = {}
        self._by_identity = {}
        self._provisional = {}

    def key_of(self, func: Func, env: Env, mode: int, depth: int) -> Any:
        """What a result depends on; None if it must not be remembered."""
        decl = func.decl
        if func.frame is not None or (mode == STEP and depth == 0):
            return self._closure_key(decl, mode)
        parts: list[Any] = [decl, mode]
        simple = True
        for name, value in env.items():
            if value is None:
                parts.append(None)
                continue
            part = _shape(value)
            if part == "const" and "keyed" in decl.flags:
                part = self._named(decl, value)
            if part is None:
                if decl.name == "__init__" and isinstance(value, Inst) and not value.attrs:
                    part = ("new", value.decl, value.scope)
                else:
                    simple = False
                    part = id(value)
            parts.append((name, part))
        if not simple:
            parts.append(_BY_IDENTITY)
            self._contexts[decl] = count = self._contexts.get(decl, 0) + 1
            if count > MAX_CONTEXTS:
                for name, value in env.items():
                    calls.consume(value)
                    if isinstance(value, Container):
                        env[name] = None
                kinds = tuple(type(value) for value in env.values())
                return (decl, mode, "any", kinds, _BY_IDENTITY)
        return tuple(parts)

    def _named(self, decl: FunctionDecl, value: Value) -> Any:
        """A constant by which a function looks something up, up to a bound."""
        self._contexts[decl] = count = self._contexts.get(decl, 0) + 1
        return ("const", getattr(value, "value", None)) if count <= MAX_CLOSURE_RUNS else "const"

    def _closure_key(self, decl: FunctionDecl, mode: int) -> Any:
        """Closures depend on variables that change, so they are run each time, up to a bound."""
        if mode == REGION:
            return None
        self._contexts[decl] = count = self._contexts.get(decl, 0) + 1
        return (decl, mode, "closure", _BY_IDENTITY) if count > MAX_CLOSURE_RUNS else None

    def recall(self, key: Any, env: Env) -> Result | None:
        """The result of an earlier run."""
        memo = self._by_identity if key[-1] is _BY_IDENTITY else key[0].memo
        hit = memo.get(key)
        if hit is None:
            provisional = self._provisional.get(key)
            if provisional is None:
                return None
            hit = provisional[0]
            self.low = min(self.low, provisional[1])
        if hit.attrs is not None:
            first = next(iter(env.values()))
            if isinstance(first, Inst):
                first.attrs.update(hit.attrs)
        return hit

    def withdraw(self, index: int) -> None:
        """Forget provisional answers that rest on the function at depth `index`, or on one below."""
        for stale in [name for name, (_, low) in self._provisional.items() if low >= index]:
            del self._provisional[stale]

    def keep(self, key: Any, result: Result, index: int, env: Env) -> None:
        """Remember a result of the function at depth `index` of the stack."""
        complete = self.low >= index
        if complete and self._provisional:
            self.withdraw(index)
        if key is None:
            return
        first = next(iter(env.values()), None)
        if isinstance(first, Inst) and key[0].name == "__init__":
            result.attrs = dict(first.attrs)
        result.keep = list(env.values())
        if complete:
            memo = self._by_identity if key[-1] is _BY_IDENTITY else key[0].memo
            memo[key] = result
        else:
            self._provisional[key] = (result, self.low)


def _shape(value: Value) -> Any:
    """A hashable description of a value without identity; None for one that has identity."""
    cls = value.__class__
    if cls is Ctx:
        return Ctx
    if cls is Inst:
        return id(value) if value.scope != "local" else None  # type: ignore[attr-defined]
    if isinstance(value, Const):
        return ("const", value.value) if value.value in (None, True, False, 0, "") else "const"
    if isinstance(value, Ext):
        return value.path
    if isinstance(value, Obj):
        sure = value.type == "builtins.float" and is_clock(value)
        sure = sure or (value.type == "builtins.str" and is_filled(value))
        return ("obj", value.type, value.node is None, sure, value.lasts)
    if isinstance(value, (Ctx, Unknown)):
        return value.__class__
    if isinstance(value, Class):
        return value.decl
    if isinstance(value, Func) and value.frame is None and value.bound is None:
        return value.decl
    if isinstance(value, Set) and value.elem is None:
        return ("set", value.stable, value.home is None)
    if isinstance(value, Seq) and value.kind == "tuple" and value.items is not None and not any(value.items):
        return "tuple"
    return None

"""One activation of a function during interpretation: its variables and what was noticed while it
ran.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.alternatives import join
from rulvar_lint.core.effects import Cause, Place
from rulvar_lint.core.values import Coro, Ctx, Dict, Ext, Func, ModuleRef, Seq, Set, Unknown, Value

if TYPE_CHECKING:
    from rulvar_lint.core.ctxcalls import CtxCall
    from rulvar_lint.core.decls import FunctionDecl, Module
    from rulvar_lint.core.machine import Machine
    from rulvar_lint.core.order import Pending
    from rulvar_lint.core.values import Env

# How the code of a frame is judged.
REGION: Final = 0  # replayed: findings are reported where they are
PLAIN: Final = 1  # a helper: effects are collected for its callers
STEP: Final = 2  # inside a step or tool body: free, but watched for misuse of ctx and outer data
HOST: Final = 3  # import time and host code: free

# How a statement ends.
FALLS: Final = 0
LEAVES: Final = 1  # return or raise
JUMPS: Final = 2  # break or continue

# Effects of these rules matter only where replayed code has them itself.
NOT_TRANSITIVE: Final = frozenset({"RLV113", "RLV206", "RLV207", "RLV208"})

_MISSING: Final = object()


class Loop:
    """A loop or comprehension being interpreted. `order` is set while it runs over an arbitrary
    order; `serial` orders it with the containers that are made inside it.
    """

    __slots__ = ("before", "bound", "bounds", "is_retry", "node", "order", "serial")

    def __init__(self, node: ast.AST, serial: int, bounds: dict[ast.AST, frozenset[str]]) -> None:
        self.node = node
        self.bounds = bounds
        self.serial = serial
        self.is_retry = False
        self.before: Env | None = None
        self.bound: frozenset[str] | None = None
        self.order: Pending | None = None


class Guard:
    """A construct that journaled work must not be inside of: a handler, a timeout, a retry loop."""

    __slots__ = ("first", "kind", "node")

    def __init__(self, kind: str, node: ast.AST) -> None:
        self.kind = kind
        self.node = node
        self.first: ast.AST | None = None


class StepBody:
    """A function that `ctx.step` runs, or a tool: the identity of what is local to it."""

    __slots__ = ("call", "decl", "kind", "owner")

    def __init__(self, kind: str, call: ast.AST, owner: Frame, decl: FunctionDecl | None = None) -> None:
        self.kind = kind
        self.call = call
        self.owner = owner
        self.decl = decl


class Frame:
    """Variables and observations of one function activation."""

    __slots__ = (
        "alarms",
        "calls",
        "closure_uses",
        "closures",
        "coros",
        "decl",
        "declared",
        "depth",
        "effects",
        "env",
        "ev",
        "ex",
        "exempt",
        "globals_set",
        "guards",
        "in_region",
        "journals",
        "jumps",
        "loops",
        "m",
        "mode",
        "module",
        "outer",
        "outer_env",
        "outward",
        "returned",
        "step",
        "yield_order",
        "yielded",
    )

    def __init__(
        self,
        m: Machine,
        module: Module,
        decl: FunctionDecl | None,
        mode: int,
        env: Env,
        outer: Frame | None = None,
        outer_env: Env | None = None,
    ) -> None:
        self.m = m
        self.ev = m.expression_table
        self.ex = m.statement_table
        self.module = module
        self.decl = decl
        self.mode = mode
        self.in_region: bool = mode == REGION or (outer is not None and outer.in_region)
        self.env = env
        self.outer = outer
        self.outer_env = outer_env
        self.effects: dict[str, Cause] = {}
        self.outward: dict[str, Cause] = {}
        self.loops: list[Loop] = []
        self.guards: list[Guard] = []
        self.alarms: list[Guard] = []
        self.coros: list[Coro] = []
        self.closures: list[Func] = []
        self.closure_uses: list[tuple[Frame, Func, ast.AST]] = []
        self.calls: list[CtxCall] = []
        self.exempt: set[FunctionDecl] = outer.exempt if outer is not None else set()
        self.returned: list[tuple[ast.AST, Value | None]] = []
        self.yielded: Value | None = None
        self.yield_order: Pending | None = None
        self.declared: dict[str, str] | None = None
        self.globals_set: Env = {}
        self.step: StepBody | None = outer.step if outer is not None else None
        self.depth = 0
        self.jumps: list[Env] | None = None
        self.journals = False

    def forget(self) -> None:
        """Let go of everything that may lead back to this frame."""
        self.env = {}
        self.outer_env = self.outer = self.step = None
        self.closures, self.closure_uses, self.calls, self.coros, self.returned = [], [], [], [], []
        self.loops, self.guards, self.alarms = [], [], []
        self.yielded = self.yield_order = self.jumps = None
        self.globals_set, self.exempt = {}, set()

    # Positions

    def place(self, node: ast.AST) -> Place:
        """Where a node of this frame's file is."""
        line: int = getattr(node, "lineno", 1)
        offset: int = getattr(node, "col_offset", 0)
        return Place(self.module.path, line, self.module.source.column(line, offset))

    def segment(self, node: ast.AST, limit: int = 60) -> str:
        """The source of a node on one line, for messages."""
        text = " ".join((self.module.source.segment(node) or ast.unparse(node)).split())
        return text if len(text) <= limit else text[: limit - 1] + "\u2026"

    # New containers

    def new_seq(self, kind: str, items: list[Value | None] | None = None, elem: Value | None = None) -> Seq:
        """A list, tuple or iterator made here."""
        return Seq(kind, items, elem, self.step, self.m.tick)

    def new_set(self, elem: Value | None = None, stable: bool = False) -> Set:
        """A set made here."""
        return Set(elem, stable, self.step, self.m.tick)

    def new_dict(self, entries: dict[Any, Value | None] | None = None, elem: Value | None = None) -> Dict:
        """A mapping made here."""
        return Dict(entries, elem, self.step, self.m.tick)

    # What happens

    def emit(self, node: ast.AST, cause: Cause, **more: Any) -> None:
        """Something that a replay does not repeat happens at `node`."""
        mode = self.mode
        if mode == REGION:
            if self.decl is None or not self.decl.trusted:
                self.m.report(self, node, cause, **more)
        elif mode == PLAIN and cause.code not in NOT_TRANSITIVE and cause.code not in self.effects:
            line: int = getattr(node, "lineno", 1)
            if not self.m.suppressed(self.module, line, cause.code):
                self.effects[cause.code] = cause

    def effect(self, node: ast.AST, code: str, what: str, severity: str = "", **more: Any) -> Cause:
        """Emit a new root cause and return it."""
        cause = Cause(code, what, self.place(node), (), severity)
        self.emit(node, cause, **more)
        return cause

    def journal(self, node: ast.AST) -> None:
        """Journaled work is started at `node`."""
        self.journals = True
        for guard in (*self.guards, *self.alarms):
            if guard.first is None:
                guard.first = node
        if self.mode == STEP and self.depth == 0:
            for hook in self.m.hooks.nested:
                hook(self, node)

    def close_guards(self, depth: int) -> None:
        """The constructs opened since there were `depth` of them end."""
        for guard in self.guards[depth:]:
            if guard.first is not None:
                for hook in self.m.hooks.guard:
                    hook(self, guard)
        del self.guards[depth:]

    # Names

    def lookup(self, node: ast.Name, name: str) -> Value | None:
        """A name that is not a variable of this frame."""
        env, frame = self.outer_env, self.outer
        while frame is not None:
            value: Any = env.get(name, _MISSING) if env is not None else _MISSING
            if value is _MISSING:
                value = frame.env.get(name, _MISSING)
            if value is not _MISSING:
                if frame.mode == HOST and self.mode == REGION and frame.decl is not None:
                    for hook in self.m.hooks.closure_read:
                        hook(self, node, frame, name, value)
                if self.step is not None and self.step is not frame.step and value is None:
                    return Unknown(None, outer=True)
                return value  # type: ignore[no-any-return]
            env, frame = frame.outer_env, frame.outer
        found = self.m.global_name(self, node, self.module, name)
        return join(found, self.globals_set[name]) if name in self.globals_set else found

    def owner_of(self, name: str) -> Frame | None:
        """The enclosing function frame that has the variable `name`, if this one has not."""
        env, frame = self.outer_env, self.outer
        while frame is not None:
            if name in frame.env or (env is not None and name in env):
                return frame
            env, frame = frame.outer_env, frame.outer
        return None

    def is_local(self, name: str) -> bool:
        """Whether a name is a variable of this frame itself."""
        return name in self.env

    def ctx_name(self) -> str | None:
        """The variable that holds ctx here."""
        frame: Frame | None = self
        while frame is not None:
            for name, value in frame.env.items():
                if value.__class__ is Ctx:
                    return name
            frame = frame.outer
        return None

    # Branches

    def fork(self) -> Env:
        """Continue with a copy of the variables; the old ones are returned."""
        env = self.env
        self.env = env.copy()
        return env

    def merge(self, other: Env) -> None:
        """Join the variables of another path into the current ones."""
        env = self.env
        if env is other:
            return
        for name, value in other.items():
            mine: Any = env.get(name, _MISSING)
            if mine is _MISSING:
                env[name] = value
            elif mine is not value:
                env[name] = join(mine, value)

    def settle(self) -> None:
        """At the top level of a module the variables are the module's own, whatever branches were
        taken.
        """
        if (
            self.decl is None
            and self.env is not self.module.env
            and self.is_module()
            and type(self.env) is dict
        ):
            self.module.env.update(self.env)
            self.env = self.module.env

    def is_module(self) -> bool:
        """Whether this is the top level of a module."""
        return self.decl is None and self.outer is None


def is_boring(value: Value | None) -> bool:
    """Whether a global value can neither change nor be unstable."""
    cls = value.__class__
    return cls is Func or cls is ModuleRef or (cls is Ext and value.taint is None)  # type: ignore[union-attr]

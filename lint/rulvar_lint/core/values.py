"""Abstract values: what an expression may be, as far as it matters to replay.

`None` stands for "unknown and harmless" everywhere; it is the fast path. Values are objects, so
containers and instances keep their identity while they are passed through helpers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ast

    from rulvar_lint.core.decls import ClassDecl, FunctionDecl, Module
    from rulvar_lint.core.effects import Cause
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.order import Pending

    Taint = frozenset[Cause] | None
    Env = dict[str, "Value | None"]


class Value:
    """A known abstract value. `taint` holds the unstable reads that it was computed from."""

    __slots__ = ("taint",)

    def __init__(self, taint: Taint = None) -> None:
        self.taint = taint


class Unknown(Value):
    """A value of unknown kind that is tainted, or from outside a step body (`outer`)."""

    __slots__ = ("outer",)

    def __init__(self, taint: Taint = None, outer: bool = False) -> None:
        self.taint = taint
        self.outer = outer


class Const(Value):
    """A literal."""

    __slots__ = ("value",)

    def __init__(self, value: Any, taint: Taint = None) -> None:
        self.taint = taint
        self.value = value


class Ext(Value):
    """A name of code that is not analysed, of whatever kind, by its dotted path."""

    __slots__ = ("path", "receiver")

    def __init__(self, path: str, receiver: Obj | None = None) -> None:
        self.taint = receiver.taint if receiver is not None else None
        self.path = path
        self.receiver = receiver


class Obj(Value):
    """An instance of a type that is known by its dotted path only. `lasts`: as long as the process."""

    __slots__ = ("lasts", "node", "type")

    def __init__(self, type_: str, taint: Taint = None, node: ast.AST | None = None) -> None:
        self.taint = taint
        self.type = type_
        self.node = node
        self.lasts = False


class Ctx(Value):
    """The workflow context."""

    __slots__ = ()


class CtxMember(Value):
    """`ctx.agent`, `ctx.budget` and the like."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.taint = None
        self.name = name


class Coro(Value):
    """A coroutine or task that has not been awaited. `ctx` tells whether it does journaled work."""

    __slots__ = ("ctx", "finding", "held", "is_task", "label", "node", "result", "used")

    def __init__(self, node: ast.AST, ctx: bool, result: Value | None, label: str) -> None:
        self.taint = None
        self.node = node
        self.ctx = ctx
        self.result = result
        self.label = label
        self.used = False
        self.is_task = False
        self.held: tuple[Value, ...] = ()
        self.finding: tuple[str, int, str] | None = None


class Func(Value):
    """A function or lambda of the project, perhaps bound to `self`, and the variables around it."""

    __slots__ = ("bound", "decl", "env", "frame", "lasts", "late")

    def __init__(
        self,
        decl: FunctionDecl,
        frame: Frame | None = None,
        env: Env | None = None,
        bound: Value | None = None,
    ) -> None:
        self.taint = None
        self.decl = decl
        self.frame = frame
        self.env = env
        self.bound = bound
        self.late: tuple[tuple[ast.AST, str], ...] = ()
        self.lasts = False

    def bind(self, value: Value) -> Func:
        """The same function as a method of `value`."""
        func = Func(self.decl, self.frame, self.env, value)
        func.late, func.lasts = self.late, self.lasts
        return func


class Class(Value):
    """A class of the project."""

    __slots__ = ("decl",)

    def __init__(self, decl: ClassDecl) -> None:
        self.taint = None
        self.decl = decl


class Inst(Value):
    """An instance of a project class. `scope` is "local", "module" or "any" (a parameter or
    `self`).
    """

    __slots__ = ("attrs", "born", "decl", "home", "scope")

    def __init__(self, decl: ClassDecl, scope: str = "local", home: object = None, born: int = 0) -> None:
        self.taint = None
        self.born = born
        self.decl = decl
        self.attrs: dict[str, Value | None] = {}
        self.scope = scope
        self.home = home


class Super(Value):
    """`super()`: attribute look-up starts after `decl` in the order of the instance's classes."""

    __slots__ = ("bound", "decl")

    def __init__(self, decl: ClassDecl, bound: Value) -> None:
        self.taint = None
        self.decl = decl
        self.bound = bound


class Container(Value):
    """What lists, tuples, iterators, dicts and sets share.

    `order` is an arbitrary order that was fixed but has not been seen to matter yet. `home`
    identifies the step body that made it, `born` counts the loops begun before it, `scope` is
    "local", "module" or "default".
    """

    __slots__ = ("born", "elem", "home", "order", "scope")

    def __init__(self, elem: Value | None, home: object = None, born: int = 0) -> None:
        self.taint = None
        self.elem = elem
        self.home = home
        self.born = born
        self.order: Pending | None = None
        self.scope = "local"


class Seq(Container):
    """A list, tuple or iterator; `kind` is "list", "tuple", "iter", "gen", "map", "filter", "zip" or "keys"."""

    __slots__ = ("items", "kind")

    def __init__(
        self,
        kind: str,
        items: list[Value | None] | None = None,
        elem: Value | None = None,
        home: object = None,
        born: int = 0,
    ) -> None:
        super().__init__(elem, home, born)
        self.kind = kind
        self.items = items


class Set(Container):
    """A set. `stable`: its members hash to the same number in every process (small integers)."""

    __slots__ = ("stable",)

    def __init__(
        self, elem: Value | None = None, stable: bool = False, home: object = None, born: int = 0
    ) -> None:
        super().__init__(elem, home, born)
        self.stable = stable


class Dict(Container):
    """A mapping; `entries` holds the values of literal keys, `elem` joins all others."""

    __slots__ = ("entries",)

    def __init__(
        self,
        entries: dict[Any, Value | None] | None = None,
        elem: Value | None = None,
        home: object = None,
        born: int = 0,
    ) -> None:
        super().__init__(elem, home, born)
        self.entries: dict[Any, Value | None] = {} if entries is None else entries


class Partial(Value):
    """`functools.partial(func, ...)`."""

    __slots__ = ("args", "func", "keywords")

    def __init__(
        self, func: Value | None, args: list[Value | None], keywords: dict[str, Value | None]
    ) -> None:
        self.taint = None
        self.func = func
        self.args = args
        self.keywords = keywords


class Bound(Value):
    """A method of a tracked value, such as `rows.append`."""

    __slots__ = ("name", "receiver")

    def __init__(self, receiver: Value, name: str) -> None:
        self.taint = receiver.taint
        self.receiver = receiver
        self.name = name


class Union(Value):
    """One of several values."""

    __slots__ = ("options",)

    def __init__(self, options: tuple[Value, ...]) -> None:
        taint: Taint = None
        for option in options:
            taint = merge_taint(taint, option.taint)
        self.taint = taint
        self.options = options


class ModuleRef(Value):
    """A module of the project, or a package without `__init__.py` (then `module` is None)."""

    __slots__ = ("module", "name")

    def __init__(self, name: str, module: Module | None) -> None:
        self.taint = None
        self.name = name
        self.module = module


class LazyImport(Value):
    """A global name that an import binds; its module is read when the name is first used."""

    __slots__ = ("attr", "busy", "name")

    def __init__(self, name: str, attr: str | None) -> None:
        self.taint = None
        self.busy = False
        self.name = name
        self.attr = attr


class LazyChoice(LazyImport):
    """A global name that one of several imports binds, as in `try: import a; except ImportError:
    import b`.
    """

    __slots__ = ("options",)

    def __init__(self, options: tuple[Value, ...]) -> None:
        super().__init__("", None)
        self.options = options


class Star(Value):
    """`*value` in a call or display."""

    __slots__ = ("value",)

    def __init__(self, value: Value | None) -> None:
        self.taint = None if value is None else value.taint
        self.value = value


# Values that hold no other values.
ATOMS: Final = frozenset({Const, Ctx, Ext, Obj, Unknown})


def merge_taint(left: Taint, right: Taint) -> Taint:
    """Both taints together."""
    if left is None:
        return right
    if right is None or right is left:
        return left
    return left | right


def options_of(value: Value | None) -> tuple[Value, ...]:
    """The alternatives of a value; empty for an unknown one."""
    if value is None:
        return ()
    return value.options if value.__class__ is Union else (value,)


def with_taint(value: Value | None, taint: Taint) -> Value | None:
    """The value, also tainted by `taint`. Identity-bearing values are left as they are."""
    if taint is None:
        return value
    if value is None:
        return Unknown(taint)
    if isinstance(value, Unknown):
        return Unknown(merge_taint(value.taint, taint), value.outer)
    if isinstance(value, Const):
        return Const(value.value, merge_taint(value.taint, taint))
    if isinstance(value, Obj):
        return Obj(value.type, merge_taint(value.taint, taint), value.node)
    if isinstance(value, Union):
        return Union(tuple(with_taint(option, taint) or option for option in value.options))
    return value

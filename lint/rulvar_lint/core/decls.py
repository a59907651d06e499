"""Declarations of the project: modules, classes and functions, with what the syntax alone says
about them.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core.imports import import_lines
from rulvar_lint.core.nodes import own_nodes

if TYPE_CHECKING:
    from rulvar_lint.core.comments import Comments
    from rulvar_lint.core.frame import Frame
    from rulvar_lint.core.memory import Result
    from rulvar_lint.core.source import Source
    from rulvar_lint.core.values import Env, Func, LazyImport, Value

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Parameter:
    """One parameter; `default` and `annotation` are expressions or None. `says_nothing` is set when
    the annotation has been looked at in vain, `says` when it always gives the same value.
    """

    __slots__ = ("annotation", "default", "kind", "name", "says", "says_nothing")

    def __init__(self, name: str, kind: str, annotation: ast.expr | None, default: ast.expr | None) -> None:
        self.name = name
        self.kind = kind
        self.annotation = annotation
        self.default = default
        self.says_nothing = False
        self.says: Value | None = None


class FunctionDecl:
    """A function, method or lambda."""

    __slots__ = (
        "changed",
        "cls",
        "ctx_params",
        "decorators",
        "defaults",
        "flags",
        "free",
        "given",
        "gives_nothing",
        "is_async",
        "is_generator",
        "memo",
        "module",
        "name",
        "node",
        "params",
        "parent",
        "setter",
        "trusted",
        "wrapped",
    )

    def __init__(
        self,
        node: FunctionNode,
        module: Module,
        cls: ClassDecl | None,
        parent: FunctionDecl | None,
    ) -> None:
        self.node = node
        self.module = module
        self.cls = cls
        self.parent = parent
        self.name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        self.is_async = isinstance(node, ast.AsyncFunctionDef)
        self.params = _parameters(node.args)
        self.flags: set[str] = set()
        self.decorators: list[tuple[ast.expr, Value | None]] = []
        self.wrapped: tuple[ast.expr, Value] | None = None
        self.setter: Func | None = None
        self.defaults: dict[str, Value | None] = {}
        self.ctx_params: frozenset[str] | None = None
        self.is_generator: bool | None = None
        self.free: dict[str, ast.Name] | None = None
        # What functions inside change: (variables whose object they change, variables they rebind).
        self.changed: tuple[frozenset[str], frozenset[str]] | None = None
        self.gives_nothing = False  # the annotation of the result has been looked at in vain
        self.given: dict[str, Value] | None = None  # what a closure's parameters were seen to be
        self.memo: dict[Any, Result] = {}
        self.trusted = not isinstance(node, ast.Lambda) and module.comments.trusts(node)

    @property
    def body(self) -> list[ast.stmt]:
        """The statements of the body; for a lambda, none."""
        return [] if isinstance(self.node, ast.Lambda) else self.node.body

    @property
    def qualname(self) -> str:
        """A name for messages, such as `Api.fetch`."""
        return f"{self.cls.name}.{self.name}" if self.cls is not None else self.name

    def generator(self) -> bool:
        """Whether the body yields."""
        if self.is_generator is None:
            self.is_generator = self.module.has_yield and any(
                isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(self.node)
            )
        return self.is_generator


class Field:
    """An annotated attribute in a class body: a field of a dataclass or model. `aliases` are the
    other names that it may be given by.
    """

    __slots__ = ("aliases", "annotation", "default", "factory", "has_default", "is_given", "node")

    def __init__(
        self,
        node: ast.AnnAssign,
        default: Value | None,
        factory: Value | None,
        aliases: tuple[str, ...] = (),
    ) -> None:
        self.node = node
        self.annotation = node.annotation
        self.default = default
        self.factory = factory
        self.has_default = node.value is not None
        self.is_given: bool | None = None  # whether `__init__` takes it, once that is known
        self.aliases = aliases


class ClassDecl:
    """A class. `attrs` is filled when its body is interpreted; `is_local` tells that replayed code
    makes it anew in each run.
    """

    __slots__ = (
        "attrs",
        "bases",
        "decorators",
        "fields",
        "generic",
        "is_local",
        "may_be_set",
        "module",
        "mro",
        "mutated",
        "name",
        "node",
    )

    def __init__(self, node: ast.ClassDef, module: Module) -> None:
        self.node = node
        self.module = module
        self.name = node.name
        self.attrs: Env = {}
        self.bases: list[Value | None] = []
        self.decorators: list[Value | None] = []
        self.fields: dict[str, Field] = {}
        self.mro: list[ClassDecl] | None = None
        self.mutated: dict[str, bool] | None = None
        self.may_be_set: bool | None = None
        self.generic: Value | None = None
        self.is_local = False


_FORGOTTEN: Final = ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.Constant(None))
_EMPTY: Final = ast.Module([], [])


class Module:
    """A file of the project, or a part of one. `env` holds its global names once its top level has
    been run; `flags` is what the text as a whole says, which a part takes from its `whole`.
    """

    __slots__ = (
        "bounds",
        "changed_names",
        "classes",
        "comments",
        "ctx_calls",
        "decls",
        "env",
        "flags",
        "frames",
        "functions",
        "has_yield",
        "imports_rulvar",
        "is_package",
        "is_test",
        "mentions_replay",
        "path",
        "source",
        "stars",
        "state",
        "tree",
        "typing",
        "usage",
    )

    def __init__(
        self, source: Source, tree: ast.Module, comments: Comments, whole: Module | None = None
    ) -> None:
        self.path = source.path
        self.source = source
        self.tree = tree
        self.comments = comments
        self.is_package = source.path.endswith("__init__.py")
        self.env: Env = {}
        self.stars: list[str] = []
        self.typing: dict[str, LazyImport] = {}
        self.functions: list[Func] = []
        self.classes: list[ClassDecl] = []
        self.frames: list[Frame] = []
        self.decls: dict[ast.AST, FunctionDecl] = {}
        self.ctx_calls: dict[ast.Call, str] = {}
        self.bounds: dict[ast.AST, frozenset[str]] = {}
        self.state = 0
        self.flags: tuple[bool, ...] = _flags(source) if whole is None else whole.flags
        self.imports_rulvar: bool = self.flags[0]
        self.is_test: bool = self.flags[1]
        self.has_yield: bool = self.flags[2]
        self.mentions_replay: bool = self.flags[3]
        self.changed_names: dict[str, bool] = {}
        self.usage: object = None

    def dissolve(self) -> None:
        """The module is not needed any more: cut the cycles in what was learned about it, so that
        it goes at once and not when the garbage collector looks.
        """
        for decl in self.decls.values():
            decl.memo.clear()
            decl.node = _FORGOTTEN
            decl.free = None
        for frame in self.frames:
            frame.forget()
        for cls in self.classes:
            cls.attrs, cls.bases, cls.decorators, cls.fields = {}, [], [], {}
            cls.mro = cls.generic = None
        parts = (
            self.env,
            self.typing,
            self.decls,
            self.functions,
            self.classes,
            self.frames,
            self.ctx_calls,
            self.bounds,
        )
        for part in parts:
            part.clear()
        self.tree = _EMPTY
        self.usage = None


def _flags(source: Source) -> tuple[bool, ...]:
    data = source.data
    uses = imports_any(data, (b"rulvar",))
    is_test = is_test_path(source.path) or (uses and imports_any(data, (b"pytest", b"rulvar.testing")))
    return uses, is_test, b"yield" in data, b"replay" in data


def is_test_path(path: str) -> bool:
    """Whether a file belongs to a test suite, by pytest's habits."""
    parts = path.split("/")
    name = parts[-1]
    return (
        name == "conftest.py"
        or name.startswith("test_")
        or name.endswith("_test.py")
        or any(part in ("tests", "test", "testing") for part in parts[:-1])
    )


def _parameters(args: ast.arguments) -> list[Parameter]:
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    found = [
        Parameter(arg.arg, "pos", arg.annotation, default)
        for arg, default in zip(positional, defaults, strict=True)
    ]
    if args.vararg is not None:
        found.append(Parameter(args.vararg.arg, "var", args.vararg.annotation, None))
    for arg, kw_default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        found.append(Parameter(arg.arg, "kw", arg.annotation, kw_default))
    if args.kwarg is not None:
        found.append(Parameter(args.kwarg.arg, "varkw", args.kwarg.annotation, None))
    return found


_IMPORT: Final = re.compile(rb"[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+([^\n]*)|import[ \t]+([^\n]*))")


def imports_any(data: bytes, packages: tuple[bytes, ...]) -> bool:
    """Whether a file imports one of the packages anywhere, for type checking included."""
    packages = tuple(package for package in packages if all(part in data for part in package.split(b".")))
    if not packages:
        return False
    for match in import_lines(data, _IMPORT):
        if match[3] is not None:
            names = [part.strip() for part in match[3].split(b",")]
        else:
            names = [
                match[1],
                *(b"%s.%s" % (match[1], word) for word in re.findall(rb"\w+", match[2])),
            ]
        for name in names:
            if any(
                name == package or name.startswith((package + b".", package + b" ")) for package in packages
            ):
                return True
    return False

"""Declarations of the project: modules, classes and functions, with what the syntax alone says about them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rulvar_lint.core.comments import Comments
    from rulvar_lint.core.machine import Result
    from rulvar_lint.core.source import Source
    from rulvar_lint.core.values import Env, Func, LazyImport, Value

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Parameter:
    """One parameter; `default` and `annotation` are expressions or None."""

    __slots__ = ("annotation", "default", "kind", "name")

    def __init__(self, name: str, kind: str, annotation: ast.expr | None, default: ast.expr | None) -> None:
        self.name = name
        self.kind = kind
        self.annotation = annotation
        self.default = default


class FunctionDecl:
    """A function, method or lambda."""

    __slots__ = (
        "cls",
        "contexts",
        "ctx_params",
        "decorators",
        "defaults",
        "flags",
        "is_async",
        "is_generator",
        "memo",
        "module",
        "name",
        "node",
        "params",
        "parent",
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
        self.params = list(_parameters(node.args))
        self.flags: set[str] = set()
        self.decorators: list[tuple[ast.expr, Value | None]] = []
        self.wrapped: tuple[ast.expr, Value] | None = None
        self.defaults: dict[str, Value | None] = {}
        self.ctx_params: frozenset[str] | None = None
        self.is_generator: bool | None = None
        self.contexts = 0
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
            self.is_generator = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in own_nodes(self.node))
        return self.is_generator


class Field:
    """An annotated attribute in a class body: a field of a dataclass or model."""

    __slots__ = ("annotation", "default", "factory", "has_default", "node")

    def __init__(self, node: ast.AnnAssign, default: Value | None, factory: Value | None) -> None:
        self.node = node
        self.annotation = node.annotation
        self.default = default
        self.factory = factory
        self.has_default = node.value is not None


class ClassDecl:
    """A class. `attrs` is filled when its body is interpreted."""

    __slots__ = ("attrs", "bases", "decorators", "fields", "generic", "module", "mro", "mutated", "name", "node")

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
        self.generic: Value | None = None


class Module:
    """A file of the project. `env` holds its global names once its top level has been interpreted."""

    __slots__ = (
        "changed_names",
        "comments",
        "ctx_calls",
        "decls",
        "env",
        "functions",
        "imports_rulvar",
        "is_package",
        "is_test",
        "path",
        "source",
        "stars",
        "state",
        "tree",
        "typing",
        "usage",
    )

    def __init__(self, source: Source, tree: ast.Module, comments: Comments) -> None:
        self.path = source.path
        self.source = source
        self.tree = tree
        self.comments = comments
        self.is_package = source.path.endswith("__init__.py")
        self.is_test = is_test_path(source.path)
        self.env: Env = {}
        self.stars: list[str] = []
        self.typing: dict[str, LazyImport] = {}
        self.functions: list[Func] = []
        self.decls: dict[ast.AST, FunctionDecl] = {}
        self.ctx_calls: dict[ast.Call, str] = {}
        self.state = 0
        self.imports_rulvar = imports_any(tree, ("rulvar",))
        self.is_test = self.is_test or (self.imports_rulvar and imports_any(tree, ("pytest", "rulvar.testing")))
        self.changed_names: dict[str, bool] = {}
        self.usage: object = None


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


def _parameters(args: ast.arguments) -> Iterator[Parameter]:
    positional = [*args.posonlyargs, *args.args]
    missing = len(positional) - len(args.defaults)
    for index, arg in enumerate(positional):
        default = args.defaults[index - missing] if index >= missing else None
        yield Parameter(arg.arg, "pos", arg.annotation, default)
    if args.vararg is not None:
        yield Parameter(args.vararg.arg, "var", args.vararg.annotation, None)
    for arg, kw_default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield Parameter(arg.arg, "kw", arg.annotation, kw_default)
    if args.kwarg is not None:
        yield Parameter(args.kwarg.arg, "varkw", args.kwarg.annotation, None)


_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's body that run when it runs, without those of functions inside it."""
    todo: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(getattr(node, "body", ()))
    while todo:
        current = todo.pop()
        yield current
        if isinstance(current, _SCOPES):
            if not isinstance(current, ast.Lambda):
                todo.extend(current.decorator_list)
            continue
        todo.extend(ast.iter_child_nodes(current))


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements below `body`, however deep, functions and classes included."""
    todo = list(reversed(body))
    while todo:
        node = todo.pop()
        yield node
        for name in ("body", "orelse", "finalbody"):
            todo.extend(reversed(getattr(node, name, ())))
        for handler in getattr(node, "handlers", ()):
            todo.extend(reversed(handler.body))
        for case in getattr(node, "cases", ()):
            todo.extend(reversed(case.body))


def imports_any(tree: ast.Module, packages: tuple[str, ...]) -> bool:
    """Whether a module imports one of the packages anywhere, for type checking included."""
    for node in statements(tree.body):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        if any(name == package or name.startswith(f"{package}.") for name in names for package in packages):
            return True
    return False

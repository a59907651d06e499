"""The interpreter: runs functions on abstract values, remembers results, and collects findings.

A function is run once per kind of arguments. Running one in replayed code reports findings where they are; running
a helper collects its effects, which the caller reports at the call. Nothing is imported and nothing is executed.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from rulvar_lint.core import (
    annotations,
    calls,
    classes,
    containers,
    ctxcalls,
    definitions,
    expressions,
    functions,
    handlers,
    loops,
    operators,
    order,
    region,
    statements,
)
from rulvar_lint.core.effects import Cause
from rulvar_lint.core.findings import Finding, Key
from rulvar_lint.core.frame import HOST, PLAIN, REGION, STEP, Frame, StepBody
from rulvar_lint.core.values import (
    Class,
    Const,
    Container,
    Coro,
    Ctx,
    Ext,
    Func,
    Inst,
    LazyChoice,
    LazyImport,
    ModuleRef,
    Obj,
    Seq,
    Set,
    Union,
    Unknown,
    Value,
    join,
)

if TYPE_CHECKING:
    from rulvar_lint.core.decls import ClassDecl, FunctionDecl, FunctionNode, Module, Parameter
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.libraries.catalog import Catalog
    from rulvar_lint.core.values import Env, Taint

# A suppression comment in a helper that was needed: (path, line, code).
Used = tuple[str, int, str]

MAX_DEPTH: Final = 160
MAX_CONTEXTS: Final = 24
_NEVER: Final = 1 << 30
_MISSING: Final = object()
_BUILTINS: Final = frozenset(dir(builtins))


class Files(Protocol):
    """Where modules come from."""

    def find(self, name: str, importer: str) -> str | None:
        """The path of the module `name` as seen from the file `importer`; "" for a package without a file."""

    def module(self, path: str) -> Module | None:
        """The parsed module at `path`, or None if it does not parse."""

    def mentions(self, word: str) -> list[str]:
        """Paths of all files whose text contains `word`."""


class Result:
    """What running a function gave."""

    __slots__ = ("attrs", "effects", "findings", "frame", "journals", "keep", "outward", "value")

    def __init__(self, frame: Frame | None, value: Value | None) -> None:
        self.frame = frame
        self.value = value
        self.effects: dict[str, Cause] = frame.effects if frame is not None else {}
        self.outward: dict[str, Cause] = frame.outward if frame is not None else {}
        self.journals = frame.journals if frame is not None else False
        self.findings: list[Finding | Used] = []
        self.attrs: dict[str, Value | None] | None = None
        self.keep: object = None


class Machine:
    """One analysis session over a set of files."""

    def __init__(self, files: Files, catalog: Catalog, hooks: Hooks) -> None:
        self.files = files
        self.catalog = catalog
        self.hooks = hooks
        self.stdlib = sys.stdlib_module_names
        self.functions = functions.TABLE
        self.expression_table: dict[type, Callable[[Frame, Any], Value | None]] = {
            **expressions.TABLE,
            **calls.TABLE,
            **loops.EXPRESSIONS,
        }
        self.statement_table: dict[type, Callable[[Frame, Any], int]] = {
            **statements.TABLE,
            **loops.STATEMENTS,
            **handlers.STATEMENTS,
            **definitions.STATEMENTS,
        }
        self.tick = 0
        self.findings: dict[Key, Finding] = {}
        self.log: list[Finding | Used] = []
        self.used: set[Used] = set()
        self.edges: dict[str, set[str]] = {}
        self.registered: dict[FunctionDecl, Func] = {}
        self.registrars: dict[FunctionDecl, str] = {}
        self.region_files: set[str] = set()
        self.unsorted: dict[Cause, ast.AST] = {}
        self.words: dict[str, set[str]] = {}
        self._provisional: dict[Any, tuple[Result, int]] = {}
        self._active: dict[FunctionDecl, int] = {}
        self._low = _NEVER
        self._annotations: dict[object, bool] = {}

    # Running functions

    def run(self, func: Func, env: Env, mode: int, step: StepBody | None, depth: int) -> Result:
        """Run a function with its parameters bound to `env`."""
        decl = func.decl
        if decl in self._active or len(self._active) > MAX_DEPTH:
            self._low = min(self._low, self._active.get(decl, 0))
            result = Result(None, None)
            result.journals = mode == REGION or bool(decl.ctx_params)
            for value in env.values():
                calls.consume(value)
            return result
        key = self._memo_key(func, env, mode, depth)
        if key is not None:
            hit = self._remembered(key, env)
            if hit is not None:
                return hit
        saved_low, self._low = self._low, _NEVER
        index = len(self._active)
        self._active[decl] = index
        start = len(self.log)
        frame = Frame(self, decl.module, decl, mode, env, func.frame, func.env)
        if step is not None:
            frame.step = step
        frame.depth = depth
        try:
            result = self._execute(frame, decl)
        finally:
            del self._active[decl]
        result.findings = self.log[start:]
        self._remember(key, result, index, env)
        self._low = min(saved_low, self._low) if self._low < index else saved_low
        return result

    def _execute(self, f: Frame, decl: FunctionDecl) -> Result:
        node = decl.node
        if isinstance(node, ast.Lambda):
            f.returned.append((node.body, f.ev[node.body.__class__](f, node.body)))
        else:
            statements.exec_block(f, node.body)
        value: Value | None = None
        for _, returned in f.returned:
            value = join(value, returned)
        if not decl.is_async or f.mode != REGION:
            calls.consume(value)
        if f.mode == REGION:
            if f.outer is None or not f.outer.in_region:
                for at, returned in f.returned:
                    order.use_order(f, at, returned)
            self.region_files.add(decl.module.path)
            region.finish(f)
        if decl.generator():
            made = f.new_seq("gen", None, f.yielded)
            made.order = f.yield_order
            value = made
        return Result(f, value)

    def _memo_key(self, func: Func, env: Env, mode: int, depth: int) -> Any:
        if func.frame is not None or (mode == STEP and depth == 0):
            return None
        decl = func.decl
        parts: list[Any] = [decl, mode]
        simple = True
        for name, value in env.items():
            if value is None:
                parts.append(None)
                continue
            part = _shape(value)
            if part is None:
                if decl.name == "__init__" and isinstance(value, Inst) and not value.attrs:
                    part = ("new", value.decl, value.scope)
                else:
                    simple = False
                    part = id(value)
            parts.append((name, part))
        if not simple:
            decl.contexts += 1
            if decl.contexts > MAX_CONTEXTS:
                for name, value in env.items():
                    calls.consume(value)
                    if isinstance(value, Container):
                        env[name] = None
                return (decl, mode, "any", tuple(type(value) for value in env.values()))
        return tuple(parts)

    def _remembered(self, key: Any, env: Env) -> Result | None:
        hit = key[0].memo.get(key)
        if hit is None:
            provisional = self._provisional.get(key)
            if provisional is None:
                return None
            hit = provisional[0]
            self._low = min(self._low, provisional[1])
        if hit.attrs is not None:
            first = next(iter(env.values()))
            if isinstance(first, Inst):
                first.attrs.update(hit.attrs)
        for entry in hit.findings:
            if isinstance(entry, Finding):
                self.findings.setdefault(entry.key, entry)
            else:
                self.used.add(entry)
        self.log += hit.findings
        return hit

    def _remember(self, key: Any, result: Result, index: int, env: Env) -> None:
        complete = self._low >= index
        if complete and index == 0:
            self._provisional.clear()
        if key is None:
            return
        first = next(iter(env.values()), None)
        if isinstance(first, Inst) and result.frame is not None and result.frame.decl is not None:
            if result.frame.decl.name == "__init__":
                result.attrs = dict(first.attrs)
        result.keep = list(env.values())
        if complete:
            key[0].memo[key] = result
        else:
            self._provisional[key] = (result, self._low)

    def effects_of(self, f: Frame, node: ast.AST, func: Value | None) -> dict[str, Cause]:
        """What calling `func` without arguments would do."""
        scratch = Frame(self, f.module, f.decl, PLAIN, f.env, f.outer, f.outer_env)
        calls.call_value(scratch, node, func, calls.Args([], {}))
        return scratch.effects

    def new_frame(
        self,
        module: Module,
        decl: FunctionDecl | None,
        mode: int,
        env: Env,
        outer: Frame | None = None,
        outer_env: Env | None = None,
    ) -> Frame:
        """A frame for code that is not run as a function."""
        return Frame(self, module, decl, mode, env, outer, outer_env)

    def host_frame(self, module: Module) -> Frame:
        """The top level of a module."""
        return Frame(self, module, None, HOST, module.env)

    # Findings

    def report(self, f: Frame, node: ast.AST, cause: Cause, **more: Any) -> Finding:
        """Make a finding, unless there is one of this rule on this line."""
        finding = Finding(f.module, node, cause)
        known = self.findings.get(finding.key)
        if known is not None:
            self.log.append(known)
            return known
        self.log.append(finding)
        finding.fix = more.get("fix")
        finding.places = list(more.get("places", ()))
        self.findings[finding.key] = finding
        return finding

    def drop(self, start: int, end: int) -> None:
        """Take back the findings between two positions of the log."""
        for entry in self.log[start:end]:
            if isinstance(entry, Finding):
                self.findings.pop(entry.key, None)
        del self.log[start:end]

    def suppressed(self, module: Module, line: int, code: str) -> bool:
        """Whether a comment in a helper says that an effect there does not matter."""
        hits = module.comments.matching(line, code)
        for at, name in hits:
            used = (module.path, at, name)
            self.used.add(used)
            self.log.append(used)
        return bool(hits)

    def quiet(self, f: Frame) -> tuple[int, set[Key], dict[str, Cause]]:
        """Begin to look at something again without reporting it."""
        return len(self.log), set(self.findings), dict(f.effects)

    def loud(self, f: Frame, mark: tuple[int, set[Key], dict[str, Cause]]) -> None:
        """Forget what was found since `quiet`."""
        start, known, effects = mark
        for entry in self.log[start:]:
            if isinstance(entry, Finding) and entry.key not in known:
                self.findings.pop(entry.key, None)
        del self.log[start:]
        f.effects.clear()
        f.effects.update(effects)

    # Modules and names

    def prepare(self, module: Module) -> None:
        """Interpret the top level of a module, once."""
        if module.state:
            return
        module.state = 1
        frame = self.host_frame(module)
        statements.exec_block(frame, module.tree.body)
        for value in module.env.values():
            if isinstance(value, Container) and value.scope == "local":
                value.scope = "module"
        module.state = 2

    def absolute(self, module: Module, name: str, level: int) -> str:
        """The name of an imported module; for a relative import "/" and its path without suffix."""
        if not level:
            return name
        parts = module.path.split("/")[:-1]
        base = parts[: len(parts) - (level - 1)] if level - 1 <= len(parts) else []
        return "/" + "/".join([*base, *name.split(".")] if name else base)

    def resolve_import(self, importer: Module, name: str, attr: str | None) -> Value | None:
        """What `import name` or `from name import attr` binds."""
        if name.partition(".")[0] == "rulvar":
            return Ext(name if attr is None else f"{name}.{attr}")
        path = self.files.find(name, importer.path)
        if path is None:
            top = name.partition(".")[0]
            known = name.startswith("/") or (top and self.files.find(top, importer.path) is not None)
            full = name if attr is None else f"{name}.{attr}"
            return Ext(f".{full}" if known else classes.canonical(full))
        reference = ModuleRef(name, self.load(path, importer) if path else None)
        return reference if attr is None else self.module_member(reference, attr, importer)

    def load(self, path: str, importer: Module | None) -> Module | None:
        """The module at `path`, with its top level interpreted."""
        if importer is not None:
            self.edges.setdefault(importer.path, set()).add(path)
        module = self.files.module(path)
        if module is not None:
            self.prepare(module)
        return module

    def module_member(self, reference: ModuleRef, attr: str, importer: Module | None = None) -> Value | None:
        """`module.attr`: a global name, else a submodule."""
        module = reference.module
        if module is not None:
            value = self.binding(module, attr)
            if value is not _MISSING:
                return value  # type: ignore[no-any-return]
        origin = module or importer
        path = self.files.find(f"{reference.name}.{attr}", origin.path if origin is not None else "")
        if path is not None:
            return ModuleRef(f"{reference.name}.{attr}", self.load(path, origin) if path else None)
        return None

    def binding(self, module: Module, name: str) -> Any:
        """The value of a global name, or a marker if there is none."""
        value: Any = module.env.get(name, _MISSING)
        if value is _MISSING:
            return self._from_star(module, name) if module.stars else _MISSING
        if isinstance(value, LazyImport):
            return self.force(module, name, value)
        return value

    def _from_star(self, module: Module, name: str) -> Any:
        for star in module.stars:
            path = self.files.find(star, module.path)
            if path:
                loaded = self.load(path, module)
                if loaded is not None and not name.startswith("_"):
                    value = self.binding(loaded, name)
                    if value is not _MISSING:
                        return value
            elif path is None:
                full = classes.canonical(f"{star}.{name}")
                known = self.catalog.effects(full) or self.catalog.read(full) or self.catalog.result(full)
                if known or star.partition(".")[0] == "rulvar":
                    return Ext(full)
        return _MISSING

    def force(self, module: Module, name: str, lazy: LazyImport) -> Value | None:
        """Resolve an import that is needed now."""
        value: Value | None = None
        if isinstance(lazy, LazyChoice):
            for option in lazy.options:
                found = self.force(module, "", option) if isinstance(option, LazyImport) else option
                value = join(value, found)
        else:
            value = self.resolve_import(module, lazy.name, lazy.attr)
        if module.env.get(name) is lazy:
            module.env[name] = value
        return value

    def global_name(self, f: Frame, node: ast.AST, module: Module, name: str) -> Value | None:
        """A global or builtin name that code in `f` reads."""
        value = self.binding(module, name)
        if value is _MISSING:
            return Ext(f"builtins.{name}") if name in _BUILTINS else None
        return self._read_global(f, node, module, name, value)

    def _read_global(self, f: Frame, node: ast.AST, module: Module, name: str, value: Value | None) -> Value | None:
        if f.mode == HOST:
            return value
        cls = value.__class__
        if cls is Func or cls is Class or cls is ModuleRef:
            return value
        if f.mode == STEP:
            return Unknown(None, outer=True) if value is None else value
        if isinstance(value, Ext):
            entry = self.catalog.read(value.path)
            if entry is not None:
                fresh = Ext(value.path)
                fresh.taint = frozenset((f.effect(node, entry.code, f"`{value.path}` {entry.does}"),))
                return fresh
        for hook in self.hooks.global_read:
            hook(f, node, module, name, value)
        return value

    def module_attribute(self, f: Frame, node: ast.AST, base: ModuleRef, name: str) -> Value | None:
        """`module.name` in an expression."""
        value = self.module_member(base, name, f.module)
        if base.module is None or value is None and name not in base.module.env:
            return value
        return self._read_global(f, node, base.module, name, value)

    def static_global(self, module: Module, name: str) -> Value | None:
        """A global or builtin name, without it counting as a read. Imports for type checking are seen too."""
        value = self.binding(module, name)
        if value is _MISSING:
            lazy = module.typing.get(name)
            if lazy is not None:
                return self.force(module, "", lazy)
            return Ext(f"builtins.{name}") if name in _BUILTINS else None
        return value  # type: ignore[no-any-return]

    # Annotations and ctx

    def annotated(self, decl: FunctionDecl, param: Parameter) -> Value | None:
        """The value that a parameter's annotation promises."""
        if self._annotations.get(param) is False:
            return None
        value = annotations.parameter_value(self, decl, param)
        if value is None:
            self._annotations[param] = False
        return value

    def from_annotation(self, module: Module, annotation: ast.expr) -> Value | None:
        """The value that an annotation promises."""
        return annotations.from_annotation(self, module, annotation)

    def generic(self, decl: ClassDecl) -> Inst:
        """Some instance of a class."""
        return classes.generic_instance(self.host_frame(decl.module), decl)

    def fill_ctx(self, decl: FunctionDecl, env: Env) -> None:
        """Parameters that are declared to be ctx are ctx, whatever was passed."""
        for name in annotations.ctx_parameters(self, decl):
            if not isinstance(env.get(name), Ctx):
                env[name] = Ctx()

    # What interpretation modules call back for

    def typing_imports(self, module: Module, body: list[ast.stmt]) -> None:
        """Remember what is imported for type checking only."""
        definitions.typing_imports(self, module, body)

    def closure(self, f: Frame, node: FunctionNode) -> Func:
        """The value of a lambda."""
        return definitions.closure(f, node)  # type: ignore[arg-type]

    def exempt(self, f: Frame, node: ast.AST, value: Value | None, kind: str) -> Result | None:
        """A function runs outside replay."""
        return ctxcalls.exempt(f, node, value, kind)

    def bind(self, f: Frame, func: Func, args: calls.Args) -> tuple[Env, list[str]]:
        """Parameters to values."""
        env, defaulted = calls.bind(f, func, args)
        self.fill_ctx(func.decl, env)
        return env, defaulted

    def register(self, f: Frame, node: ast.AST, path: str, func: Func, value: Value | None) -> None:
        """A decorator of rulvar is applied to a function."""
        region.register(f, node, path, func, value)

    def rulvar_call(self, f: Frame, node: ast.AST, ext: Ext, args: calls.Args) -> Value | None:
        """A function of rulvar is called."""
        return region.rulvar_call(f, node, ext, args)

    def machine_class(self, f: Frame, decl: ClassDecl) -> None:
        """A class is complete."""
        region.state_machine(f, decl)

    def awaited(self, f: Frame, node: ast.Await, value: Value) -> Value | None:
        """`await value`."""
        for hook in self.hooks.awaited:
            hook(f, node.value, value, "await")
        found: Value | None = None
        for option in value.options if isinstance(value, Union) else (value,):
            if isinstance(option, Coro):
                calls.consume(option)
                found = join(found, option.result)
            elif isinstance(option, Inst):
                found = join(found, classes.call_special(f, node, option, "__await__", []))
            else:
                found = join(found, option)
        if f.loops and f.mode != STEP and not isinstance(value, Coro):
            order.order_event(f, node)
        return found

    def test(self, f: Frame, node: ast.AST, value: Value) -> None:
        """A value decides a branch."""
        if value.taint is not None:
            for hook in self.hooks.sink:
                hook(f, node, "branch", value)
        if isinstance(value, Inst):
            classes.call_special(f, node, value, "__bool__", [])

    def yielded(self, f: Frame, node: ast.AST, value: Value | None) -> None:
        """`yield value`."""
        f.yielded = join(f.yielded, value)
        calls.consume(value)
        found = order.loop_order(f)
        if found is not None:
            f.yield_order = f.yield_order or found

    def yielded_from(self, f: Frame, node: ast.YieldFrom, value: Value | None) -> None:
        """`yield from value`."""
        f.yielded = join(f.yielded, operators.iterate(f, node, value))
        f.yield_order = f.yield_order or order.order_of(f, node, value, "yields from")

    def bind_walrus(self, f: Frame, target: ast.Name, value: Value | None) -> None:
        """`(name := value)`."""
        f.env[target.id] = value

    def store_target(self, f: Frame, node: ast.AST, target: ast.Attribute, base: Value | None, value: Value | None) -> None:
        """`base.attr = value`."""
        if base is None:
            for hook in self.hooks.store:
                hook(f, node, target, base, target.attr, value)
        else:
            classes.store_attribute(f, node, target, base, target.attr, value)

    def augment_container(self, f: Frame, node: ast.AST, container: Container, value: Value | None) -> None:
        """`container += value` and the like."""
        if isinstance(value, Container):
            container.elem = join(container.elem, operators.element_of(value))
            if isinstance(container, Seq):
                container.order = container.order or order.order_of(f, node, value, "extends a list by")
        if isinstance(container, Set):
            container.stable = container.stable and isinstance(value, Set) and value.stable
        order.grow(f, node, container)

    def is_quiet(self, f: Frame, func: ast.expr) -> bool:
        """Whether a call that is made for its effect is known to be harmless in any order."""
        return region.is_quiet(f, func)

    def outward(self, f: Frame, node: ast.AST, cause: Cause, func: Func, args: calls.Args) -> None:
        """An effect of a callee that is judged by what the caller passed."""
        region.outward(f, node, cause, func, args)

    def tainted_text(self, taint: Taint) -> Value:
        """A string."""
        return expressions.STR if taint is None else Obj("builtins.str", taint)

    binary = staticmethod(operators.binary)
    text = staticmethod(operators.text)
    elements = staticmethod(operators.iterate)
    grow = staticmethod(order.grow)
    attribute = staticmethod(classes.attribute)
    construct = staticmethod(classes.construct)
    call_special = staticmethod(classes.call_special)
    call_key = staticmethod(classes.call_key)
    result_of = staticmethod(classes.result_of)
    store_attribute = staticmethod(classes.store_attribute)
    container_method = staticmethod(containers.container_method)
    ctx_call = staticmethod(ctxcalls.ctx_call)
    async_iterated = staticmethod(handlers.async_iterated)


def _shape(value: Value) -> Any:
    """A hashable description of a value without identity; None for one that has identity."""
    if isinstance(value, Const):
        return ("const", value.value) if value.value in (None, True, False, 0) else "const"
    if isinstance(value, Ext):
        return value.path
    if isinstance(value, Obj):
        return ("obj", value.type)
    if isinstance(value, Ctx | Unknown):
        return value.__class__
    if isinstance(value, Class):
        return value.decl
    if isinstance(value, Func) and value.frame is None and value.bound is None:
        return value.decl
    if isinstance(value, Set) and value.elem is None:
        return ("set", value.stable, value.home is None)
    if isinstance(value, Inst) and value.scope != "local":
        return id(value)
    if isinstance(value, Seq) and value.kind == "tuple" and value.items is not None and not any(value.items):
        return "tuple"
    return None

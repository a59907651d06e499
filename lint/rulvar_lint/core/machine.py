"""The interpreter: runs functions on abstract values, remembers results, and collects findings.

A function is run once per kind of arguments. Running one in replayed code reports findings where
they are; running a helper collects its effects, which the caller reports at the call. Nothing is
imported and nothing is executed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from rulvar_lint.core import (
    calls,
    classes,
    containers,
    copies,
    ctxcalls,
    definitions,
    expressions,
    functions,
    getters,
    handlers,
    hints,
    instances,
    lasting,
    loops,
    newer_syntax,
    operators,
    order,
    protocols,
    region,
    statements,
)
from rulvar_lint.core.alternatives import join
from rulvar_lint.core.arguments import Args, bind
from rulvar_lint.core.frame import HOST, PLAIN, REGION, Frame, StepBody
from rulvar_lint.core.ledger import Ledger
from rulvar_lint.core.linker import Files, Linker
from rulvar_lint.core.memory import NEVER, Memory, Result
from rulvar_lint.core.values import Const, Ctx, Func, Inst, Obj, Value

if TYPE_CHECKING:
    from rulvar_lint.core.decls import ClassDecl, FunctionDecl, Module, Parameter
    from rulvar_lint.core.effects import Cause
    from rulvar_lint.core.hooks import Hooks
    from rulvar_lint.core.libraries.catalog import Catalog
    from rulvar_lint.core.values import Env

MAX_DEPTH: Final = 160
# Values that no run changes.
_LASTING: Final = frozenset({Ctx, Obj})


class Machine(Linker, Ledger):
    """One analysis session over a set of files."""

    def __init__(self, files: Files, catalog: Catalog, hooks: Hooks) -> None:
        Linker.__init__(self, files, catalog, hooks)
        Ledger.__init__(self)
        self.memory = Memory()
        self.stdlib = sys.stdlib_module_names
        self.functions = {**functions.TABLE, **getters.TABLE, **instances.TABLE, **copies.TABLE}
        self.named_methods = containers.NAMED
        self.mutators = containers.MUTATORS
        self.expression_table: dict[type, Callable[[Frame, Any], Value | None]] = {
            **newer_syntax.EXPRESSIONS,
            **expressions.TABLE,
            **calls.TABLE,
            **loops.EXPRESSIONS,
        }
        self.statement_table: dict[type, Callable[[Frame, Any], int]] = {
            **newer_syntax.STATEMENTS,
            **statements.TABLE,
            **loops.STATEMENTS,
            **handlers.STATEMENTS,
            **definitions.STATEMENTS,
        }
        self.registered: dict[FunctionDecl, Func] = {}
        self.registrars: dict[FunctionDecl, str] = {}
        self.words: dict[str, set[str]] = {}
        self._active: dict[FunctionDecl, int] = {}
        # How many tests were decided by what a helper was given, and whether none may be just now.
        self.decisions = 0
        self.undecided = 0

    # Running functions

    def run(self, func: Func, env: Env, mode: int, step: StepBody | None, depth: int) -> Result:
        """Run a function with its parameters bound to `env`."""
        decl = func.decl
        memory = self.memory
        if decl in self._active or len(self._active) > MAX_DEPTH:
            outermost = self._active.get(decl, 0)
            memory.low = min(memory.low, outermost)
            for other, at in self._active.items():
                if at >= outermost:
                    other.flags.add("cyclic")
            result = Result(None, None)
            result.journals = mode == REGION or bool(decl.ctx_params)
            for value in env.values():
                calls.consume(value)
            return result
        if "keyed" in decl.flags:
            self.keyed()
        key = memory.key_of(func, env, mode, depth)
        if key is not None:
            hit = memory.recall(key, env)
            if hit is not None:
                self.repeat(hit.findings)
                return hit
        saved_low, memory.low = memory.low, NEVER
        index = len(self._active)
        self._active[decl] = index
        start = len(self.log)
        decisions, given = self.decisions, env.copy()
        try:
            result = self._execute(self._begin(func, env, mode, step, depth), decl)
            if self.decisions != decisions and "cyclic" in decl.flags:
                # What a function that calls itself is given at first decides nothing.
                memory.withdraw(index)
                self.undecided += 1
                result = self._execute(self._begin(func, given, mode, step, depth), decl)
                self.undecided -= 1
        finally:
            del self._active[decl]
        result.findings = self.once(start)
        memory.keep(key, result, index, env)
        memory.low = min(saved_low, memory.low) if memory.low < index else saved_low
        return result

    def _begin(self, func: Func, env: Env, mode: int, step: StepBody | None, depth: int) -> Frame:
        decl = func.decl
        frame = Frame(self, decl.module, decl, mode, env, func.frame, func.env)
        decl.module.frames.append(frame)
        if step is not None:
            frame.step = step
        frame.depth = depth
        return frame

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
            region.finish(f)
        elif f.journals and f.mode == PLAIN and decl.decorators:
            for hook in self.hooks.helper_end:
                hook(f)
        if decl.generator():
            made = f.new_seq("gen", None, f.yielded)
            made.order = f.yield_order
            value = made
        return Result(f, value)

    def keyed(self) -> None:
        """The functions that are running look something up by what they are given."""
        for decl in self._active:
            decl.flags.add("keyed")

    def begin_unit(self) -> None:
        """Forget what was found, and results that belong to values of the last unit."""
        self.clear()
        self.memory.clear()

    def effects_of(self, f: Frame, node: ast.AST, func: Value | None) -> dict[str, Cause]:
        """What calling `func` without arguments would do."""
        scratch = Frame(self, f.module, f.decl, PLAIN, f.env, f.outer, f.outer_env)
        calls.call_value(scratch, node, func, Args([], {}))
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

    # Modules and names

    def prepare(self, module: Module) -> None:
        """Interpret the top level of a module, once."""
        if module.state:
            return
        module.state = 1
        frame = self.host_frame(module)
        statements.exec_block(frame, module.tree.body)
        if b"global " in module.source.data:
            definitions.late_globals(self, module)
        for name, value in list(module.env.items()):
            made = lasting.outlive(value)
            if made is not value:
                module.env[name] = made
        module.state = 2

    # Annotations and ctx

    def annotated(self, decl: FunctionDecl, param: Parameter) -> Value | None:
        """The value that a parameter's annotation promises."""
        if param.says_nothing:
            return None
        if param.says is not None:
            return param.says
        value = hints.parameter_value(self, decl, param)
        param.says_nothing = value is None
        if value.__class__ in _LASTING and decl.module.state == 2:
            param.says = value
        return value

    def generic(self, decl: ClassDecl) -> Inst:
        """Some instance of a class."""
        return hints.generic_instance(self.host_frame(decl.module), decl)

    def fill_ctx(self, decl: FunctionDecl, env: Env, called: bool = False) -> None:
        """Parameters that are declared to be ctx are ctx, whatever was passed; in a call they may be None."""
        for name in hints.ctx_parameters(self, decl):
            given = env.get(name)
            if not isinstance(given, Ctx) and not (
                called and isinstance(given, Const) and given.value is None
            ):
                env[name] = Ctx()

    def bind(self, f: Frame, func: Func, args: Args) -> tuple[Env, list[str]]:
        """Parameters to values."""
        env, defaulted = bind(f, func, args)
        self.fill_ctx(func.decl, env)
        return env, defaulted

    # What the modules of the interpreter need of each other

    from_annotation = hints.from_annotation
    typing_imports = definitions.typing_imports
    closure = staticmethod(definitions.closure)
    register = staticmethod(region.register)
    rulvar_call = staticmethod(region.rulvar_call)
    machine_class = staticmethod(region.state_machine)
    is_quiet = staticmethod(region.is_quiet)
    outward = staticmethod(region.outward)
    exempt = staticmethod(ctxcalls.exempt)
    ctx_call = staticmethod(ctxcalls.ctx_call)
    awaited = staticmethod(handlers.awaited)
    enter = staticmethod(handlers.enter)
    async_iterated = staticmethod(handlers.async_iterated)
    yielded = staticmethod(order.yielded)
    yielded_from = staticmethod(order.yielded_from)
    augment_container = staticmethod(order.augment_container)
    grow = staticmethod(order.grow)
    consume = staticmethod(calls.consume)
    tainted_text = staticmethod(expressions.tainted_text)
    binary = staticmethod(operators.binary)
    augmented = staticmethod(protocols.augmented)
    contains = staticmethod(protocols.contains)
    text = staticmethod(operators.text)
    elements = staticmethod(operators.iterate)
    test = staticmethod(protocols.test)
    compare = staticmethod(protocols.compare)
    unary = staticmethod(protocols.unary)
    write = staticmethod(protocols.write)
    shown = staticmethod(protocols.shown)
    sort = staticmethod(protocols.sort)
    convert = staticmethod(protocols.convert)
    attribute = staticmethod(classes.attribute)
    construct = staticmethod(classes.construct)
    call_special = staticmethod(classes.call_special)
    class_item = staticmethod(classes.class_item)
    may_be_false = staticmethod(classes.may_be_false)
    call_key = staticmethod(classes.call_key)
    result_of = staticmethod(classes.result_of)
    store_target = staticmethod(classes.store_target)
    store_attribute = staticmethod(classes.store_attribute)
    container_method = staticmethod(containers.container_method)

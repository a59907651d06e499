"""Which arguments a workflow needs and takes, told before there is a run that nobody can use.

A declared type or schema says it. Where there is none, the body's text does, as far as it is certain:
``args["version"]`` in a statement that always runs needs ``version``.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import os
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rulvar.engine.workflow import takes_args
from rulvar.errors import ConfigError

if TYPE_CHECKING:
    from rulvar.contracts.outcome import Outcome
    from rulvar.contracts.schema import SchemaContract
    from rulvar.engine.workflow import Workflow

__all__ = ["hint_of", "wanted_args"]


@dataclass(frozen=True, slots=True)
class BodyReads:
    """What the text of a body reads of its arguments.

    Attributes:
        always: keys that every run reads, with the line that does.
        known: every key that is read; None when the arguments are used in other ways too.
    """

    file: str = ""
    always: Mapping[str, int] = field(default_factory=dict)
    known: frozenset[str] | None = None


def wanted_args(workflow: Workflow[Any], args: Any) -> tuple[Any, str | None]:
    """Return the arguments that a run is started with, and a warning about some that nothing reads.

    Raises:
        ConfigError: one is missing, or one is not wanted; names it and how it is given.
    """
    if args is not None and not takes_args(workflow.body):
        raise _refused(workflow, "takes no arguments; leave --arg and --args out")
    if workflow.args is not None:
        return _declared(workflow, workflow.args, args), None
    reads = _reads_of(workflow)
    if args is not None and not isinstance(args, dict):
        return args, None
    missing = [name for name in reads.always if name not in (args or {})]
    unread = [name for name in args or () if reads.known is not None and name not in reads.known]
    if missing:
        place = f"{os.path.relpath(reads.file)}:{reads.always[missing[0]]}"
        raise _refused(
            workflow, f"needs {_listed(missing)}: {_how(missing)} ({place} reads it){_meant(unread, missing)}"
        )
    if unread:
        return (
            args,
            f"workflow {workflow.name!r} does not read {_listed(unread)}{_it_takes(unread, reads.known or ())}",
        )
    return args, None


def hint_of(workflow: Workflow[Any], args: Any, outcome: Outcome) -> str | None:
    """Return what to say when a run ended because of an argument that was not given, or None."""
    raised, error = outcome.raised, outcome.error
    if workflow.args is not None or raised is None or error is None:
        return None
    known = _reads_of(workflow).known or frozenset()
    if args is None and raised.type in ("TypeError", "AttributeError") and "'NoneType'" in error.message:
        read = f", and it reads {_listed(sorted(known))}" if known else ""
        return f"the run was started without arguments{read}: {_how(sorted(known))}"
    if isinstance(args, dict) and raised.type == "KeyError":
        absent = [name for name in known if name not in args and error.message == repr(name)]
        return f"the run was started without {_listed(absent)}: {_how(absent)}" if absent else None
    return None


def _declared(workflow: Workflow[Any], contract: SchemaContract, args: Any) -> Any:
    """Return arguments that have the names which a schema declares; whether they fit is judged later."""
    schema = contract.canonical
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return args
    properties = schema.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    required = [name for name in schema.get("required") or () if isinstance(name, str)]
    if args is None and not required:
        return {}
    given = {} if args is None else args
    if not isinstance(given, dict):
        raise _refused(workflow, f"takes named arguments, not {_kind(given)}: {_how(required or names)}")
    is_open = schema.get("additionalProperties") or schema.get("patternProperties") or not names
    unwanted = [] if is_open else [name for name in given if name not in names]
    missing = [name for name in required if name not in given]
    if missing:
        raise _refused(workflow, f"needs {_listed(missing)}: {_how(missing)}{_meant(unwanted, missing)}")
    if schema.get("additionalProperties") is not False:
        unwanted = [name for name in unwanted if not _is_read(contract, given, name)]
    if unwanted:
        raise _refused(workflow, f"has no {_listed(unwanted)}{_it_takes(unwanted, names)}")
    return args


def _is_read(contract: SchemaContract, given: dict[str, Any], name: str) -> bool:
    """Whether a name that a schema leaves open makes a difference: a model may take several for one field."""
    try:
        value = contract.revive(given)
    except Exception:  # whatever a model's own checks raise is told when the run begins
        return False
    try:
        return bool(value != contract.revive({key: given[key] for key in given if key != name}))
    except Exception:
        return True


def _refused(workflow: Workflow[Any], problem: str) -> ConfigError:
    return ConfigError(f"workflow {workflow.name!r} {problem}", data={"field": "args"})


def _listed(names: Sequence[str]) -> str:
    return f"argument{'' if len(names) == 1 else 's'} {', '.join(map(repr, names))}"


def _how(names: Sequence[str]) -> str:
    """Return how arguments are given."""
    if not names:
        return "--arg NAME=VALUE or --args JSON"
    pairs = " ".join(f"--arg {name}=VALUE" for name in names[:3])
    return f"{pairs}{' ...' if len(names) > 3 else ''} or --args JSON"


def _meant(given: Sequence[str], names: Sequence[str]) -> str:
    near = [(name, found[0]) for name in given if (found := difflib.get_close_matches(name, names, 1))]
    return "".join(f"; did you mean {wanted!r} by {name!r}?" for name, wanted in near[:1])


def _it_takes(given: Sequence[str], names: Any) -> str:
    near = difflib.get_close_matches(given[0], names, 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; it takes {', '.join(map(repr, sorted(names)))}" if names else ""


def _kind(value: Any) -> str:
    kinds = {str: "a text", list: "a list", bool: "a yes or no", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")


def _reads_of(workflow: Workflow[Any]) -> BodyReads:
    """Read the text of a body; nothing is known of one that has none, that is wrapped, or that rulvar has made."""
    body = workflow.body
    if workflow.source is not None or workflow.is_driver or hasattr(body, "__wrapped__"):
        return BodyReads()  # a decorator may hand on other arguments than it was given
    try:
        lines, first = inspect.getsourcelines(body)
        function = ast.parse(textwrap.dedent("".join(lines))).body[0]
        name = list(inspect.signature(body).parameters)[1]
    except (OSError, TypeError, ValueError, SyntaxError, SystemError, IndexError):
        return BodyReads()
    if not isinstance(function, ast.AsyncFunctionDef):
        return BodyReads()
    ast.increment_lineno(function, first - 1)
    always: dict[str, int] = {}
    for key, line in _sure_reads(function.body, name):
        always.setdefault(key, line)
    return BodyReads(inspect.getsourcefile(body) or "", always, _known_keys(function, name))


def _sure_reads(statements: Sequence[ast.stmt], name: str) -> Iterator[tuple[str, int]]:
    """Yield the keys that are read whenever a body runs to its end, with their lines."""
    for statement in statements:
        if _hands_on(statement, name):
            return
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.withitem):
                child = child.context_expr
            for read in _evaluated(child) if isinstance(child, ast.expr) else ():
                key, held = _key_and_holder(read)
                if isinstance(read, ast.Subscript) and held is not None and held.id == name:
                    yield key, read.lineno
        if any(_may_end(node, name) for node in ast.walk(statement)):
            return


def _hands_on(statement: ast.stmt, name: str) -> bool:
    """Whether a statement does more with the arguments than read them by key: something may put keys in."""
    nodes = list(ast.walk(statement))
    held = (_key_and_holder(node)[1] for node in nodes)
    plain = {id(found) for found in held if found is not None}
    for node in nodes:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Name() as tested):
                plain.add(id(tested))
            case ast.Compare(left=ast.Name() as tested, ops=[ast.Is() | ast.IsNot()]):
                plain.add(id(tested))
            case ast.If(test=ast.Name() as tested) | ast.IfExp(test=ast.Name() as tested):
                plain.add(id(tested))
    return any(
        isinstance(node, ast.Name) and node.id == name and id(node) not in plain
        for node in nodes
        if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    )


def _may_end(node: ast.AST, name: str) -> bool:
    """Whether what stands behind a statement need not run, or may find other arguments."""
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    return isinstance(node, (ast.Return, ast.Raise, ast.Match))


def _evaluated(expression: ast.expr) -> Iterator[Any]:
    """Yield the nodes of an expression that are evaluated whenever it is."""
    yield expression
    below: Sequence[ast.AST | None]
    match expression:
        case ast.Lambda():
            below = ()
        case ast.IfExp(test=test):
            below = (test,)
        case ast.BoolOp(values=values):
            below = values[:1]
        case ast.Compare(left=left, comparators=comparators):
            below = (left, *comparators[:1])
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            below = (expression.generators[0].iter,)
        case _:
            below = tuple(ast.iter_child_nodes(expression))
    for child in below:
        if isinstance(child, ast.keyword):
            child = child.value
        if isinstance(child, ast.expr):
            yield from _evaluated(child)


def _known_keys(function: ast.AsyncFunctionDef, name: str) -> frozenset[str] | None:
    """Return every key that is read, or None when the arguments are used in other ways too."""
    keys: set[str] = set()
    explained: set[int] = set()
    own = function.args.posonlyargs + function.args.args
    for node in ast.walk(function):
        if isinstance(node, ast.arg) and node.arg == name and node not in own:
            return None  # a helper's own parameter of that name
        key, held = _key_and_holder(node)
        if held is not None and held.id == name:
            keys.add(key)
            explained.add(id(held))
    uses = (node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name)
    return frozenset(keys) if all(id(node) in explained for node in uses) else None


def _key_and_holder(node: ast.AST) -> tuple[str, ast.Name | None]:
    """Return the key of ``args["key"]``, ``args.get("key")`` or ``"key" in args``, and the name ``args``."""
    match node:
        case (
            ast.Subscript(value=ast.Name() as held, slice=ast.Constant(value=str(key)), ctx=ast.Load())
            | ast.Call(
                func=ast.Attribute(value=ast.Name() as held, attr="get"),
                args=[ast.Constant(value=str(key)), *_],
            )
            | ast.Compare(
                left=ast.Constant(value=str(key)),
                ops=[ast.In() | ast.NotIn()],
                comparators=[ast.Name() as held],
            )
        ):
            return key, held
    return "", None

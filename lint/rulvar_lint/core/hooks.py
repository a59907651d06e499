"""Where rules listen. Each list holds functions that are called when the interpreter sees
something.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Hook = Callable[..., Any]


class Hooks:
    """The listeners of one rule set.

    Attributes:
        selected: the rules whose findings anybody will see.
        calls: by dotted name, called as (frame, node, ext, args) for a call of that name.
        unknown_call: (frame, node, args) for a call that cannot be resolved.
        any_call: (frame, node, callee, args) for each call in replayed code.
        ctx_call: (frame, CtxCall) for each call on ctx.
        text: (frame, node, value, way) for a value that becomes text by one of the methods `way`.
        format_spec: (frame, node, spec, value) for a format specification.
        dumps: (frame, node, args, value) -> value for serialisation.
        awaited: (frame, node, value) for awaited values.
        global_read: (frame, node, module, name, value) for global names that may change or be
            unstable.
        closure_read: (frame, node, owner, name, value) for variables of the host function around
            replayed code.
        instance_read, class_read, function_attribute: reads of attributes.
        store: (frame, node, target, base, name, value) for attribute stores.
        store_item: (frame, node, target, base, value) for item stores and deletions.
        store_name: (frame, node, name, kind, value) for names declared global or nonlocal.
        mutation: (frame, node, receiver, method, args) for methods that change a container.
        construct: (frame, node, instance, given fields).
        decorated: (frame, declaration, node, value) for decorators.
        dropped: (frame, node, coroutine) for statements that are nothing but a coroutine.
        helper_end: (frame) after a decorated helper that does journaled work.
        nested: (frame, node) for journaled work inside a step body or tool.
        guard: (frame, guard) when a construct around journaled work ends.
        contexts: (frame, node, value, is_async) for context expressions of `with`; may return a
            Guard kind.
        escaping: (frame, node, value, reason) for values that outlive the loop iteration they were
            made in.
        region_end: (frame) after a replayed function.
        step: (frame, CtxCall, function value) after the body of a step.
        sink: (frame, node, kind, value) for values that reach identity, a branch or a result.
    """

    __slots__ = (
        "any_call",
        "awaited",
        "calls",
        "class_read",
        "closure_read",
        "construct",
        "contexts",
        "ctx_call",
        "decorated",
        "dropped",
        "dumps",
        "escaping",
        "format_spec",
        "function_attribute",
        "global_read",
        "guard",
        "helper_end",
        "instance_read",
        "mutation",
        "nested",
        "region_end",
        "selected",
        "sink",
        "step",
        "store",
        "store_item",
        "store_name",
        "text",
        "unknown_call",
    )

    def __init__(self, selected: frozenset[str]) -> None:
        self.calls: dict[str, list[Hook]] = {}
        self.selected = selected
        for name in self.__slots__:
            if name not in ("calls", "selected"):
                setattr(self, name, [])

    any_call: list[Hook]
    awaited: list[Hook]
    class_read: list[Hook]
    closure_read: list[Hook]
    construct: list[Hook]
    contexts: list[Hook]
    ctx_call: list[Hook]
    decorated: list[Hook]
    dropped: list[Hook]
    dumps: list[Hook]
    escaping: list[Hook]
    format_spec: list[Hook]
    function_attribute: list[Hook]
    global_read: list[Hook]
    guard: list[Hook]
    helper_end: list[Hook]
    instance_read: list[Hook]
    mutation: list[Hook]
    nested: list[Hook]
    region_end: list[Hook]
    sink: list[Hook]
    step: list[Hook]
    store: list[Hook]
    store_item: list[Hook]
    store_name: list[Hook]
    text: list[Hook]
    unknown_call: list[Hook]

    def on_call(self, paths: str, hook: Hook) -> None:
        """Listen to calls of the names in `paths`, which are separated by white space."""
        for path in paths.split():
            self.calls.setdefault(path, []).append(hook)

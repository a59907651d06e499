"""The comparable rule for Fixit: calls of a few unstable functions, found by their qualified names."""

from __future__ import annotations

import fixit
import libcst
from libcst.metadata import QualifiedNameProvider

UNSTABLE = frozenset(
    {
        "time.time",
        "random.random",
        "uuid.uuid4",
        "os.getenv",
        "datetime.datetime.now",
        "builtins.open",
        "os.listdir",
    }
)


class UnstableCalls(fixit.LintRule):
    """Reports each call whose qualified name is on the list."""

    METADATA_DEPENDENCIES = (QualifiedNameProvider,)

    def visit_Call(self, node: libcst.Call) -> None:
        names = self.get_metadata(QualifiedNameProvider, node.func, set())
        if any(name.name in UNSTABLE for name in names):
            self.report(node, "unstable call")

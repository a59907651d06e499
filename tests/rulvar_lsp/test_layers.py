"""Who may import whom in the server: edge -> features -> snapshot -> report -> text; protocol at the edge."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rulvar_lsp

PACKAGE = Path(rulvar_lsp.__file__).parent
RANKS = {"text": 0, "report": 1, "snapshot": 2, "features": 3, "edge": 4, "__main__": 5}
EDGE_ONLY = {"pygls", "lsprotocol", "cattrs", "rulvar", "asyncio"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def imports(tree: ast.AST) -> list[str]:
    """Names of imported modules, those for type checkers left out."""
    found: list[str] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
        else:
            found += imports(node)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_what_lies_below_it(path: Path) -> None:
    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for name in imports(ast.parse(path.read_text("utf-8"))):
        top, _, rest = name.partition(".")
        if top == "rulvar_lsp" and rest:
            assert RANKS[rest.partition(".")[0]] <= RANKS[layer], name
        elif top in EDGE_ONLY:
            assert layer == "edge", name
        elif top == "rulvar_lint":
            assert layer in ("edge", "features"), name


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.count("\n") < 400
    if path.name != "__init__.py" or text.strip():
        assert ast.get_docstring(ast.parse(text))


def test_what_the_first_answer_needs_is_little() -> None:
    """The rest is imported once the client has its answer."""
    import subprocess
    import sys

    code = "import sys, rulvar_lsp.edge.server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    for late in ("libcst", "msgspec", "orjson", "rulvar", "rulvar_lint", "rulvar_lsp.edge.workbench"):
        assert late not in loaded, late

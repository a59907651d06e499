"""What comes from outside is data: nothing that is read can run code."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("rulvar", "lint/rulvar_lint", "lsp_server/rulvar_lsp")
MODULES = {"pickle", "cPickle", "dill", "marshal", "shelve", "yaml", "xmlrpc", "jsonpickle", "joblib"}
CALLS = {"eval", "exec", "__import__"}
ALLOWED = {
    # the annotations of the user's own function, as typing.get_type_hints() reads them
    ("rulvar/tools/signature.py", "eval"),
}


def found_in(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {(node.module or "").partition(".")[0]} & MODULES
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found |= {node.func.id} & CALLS
    return found


def test_no_yaml_pickle_or_eval_anywhere() -> None:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    assert len(paths) > 300
    found = {(path.relative_to(ROOT).as_posix(), what) for path in paths for what in found_in(path)}
    assert found == ALLOWED

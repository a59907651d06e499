"""What the bare package costs and loads."""

from __future__ import annotations

import json
import subprocess
import sys

import rulvar
import rulvar.testing

OPTIONAL = (
    "pytest",
    "libcst",
    "pygls",
    "lsprotocol",
    "httpx",
    "rich",
    "opentelemetry",
    "httpx2",
    "pydantic",
    "anthropic",
    "openai",
)


def loaded_by(code: str) -> set[str]:
    program = f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_import_rulvar_loads_no_optional_dependency() -> None:
    assert not loaded_by("import rulvar") & set(OPTIONAL)


def test_using_the_engine_and_the_testing_tier_loads_no_optional_dependency() -> None:
    code = (
        "from rulvar import Engine, workflow; from rulvar.testing import create_test_engine, replay, record"
    )
    assert not loaded_by(code) & set(OPTIONAL)


def test_the_plugin_module_is_as_small_as_a_pytest_plugin_can_be() -> None:
    loaded = loaded_by("import pytest; before = set(sys.modules); import rulvar.testing.pytest_plugin")
    assert not {name for name in loaded if name.startswith("rulvar.engine")}
    assert "msgspec" not in loaded


def test_every_public_name_is_there() -> None:
    for module in (rulvar, rulvar.testing):
        assert len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            assert getattr(module, name) is not None, name


def test_public_names_that_start_like_tests_are_not_collected() -> None:
    for module in (rulvar, rulvar.testing):
        for name in module.__all__:
            if name.startswith(("Test", "test_")):
                assert getattr(module, name).__test__ is False, name

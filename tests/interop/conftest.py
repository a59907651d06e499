"""Vectors made by running the TypeScript original; ``--interop-dir`` takes another set of the same shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parent / "vectors"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--interop-dir", default=None, help="another directory of interop vectors")


def vectors_dir(config: pytest.Config) -> Path:
    other = config.getoption("--interop-dir", default=None)
    return Path(other) if other else VECTORS


@pytest.fixture(scope="session")
def vectors(pytestconfig: pytest.Config) -> Path:
    """The directory of vectors."""
    return vectors_dir(pytestconfig)


@pytest.fixture(scope="session")
def is_own_set(vectors: Path) -> bool:
    """Whether the vectors are those that are kept here: how many there are of a kind is known of them only."""
    return vectors == VECTORS


@pytest.fixture(scope="session")
def load_vectors(vectors: Path) -> Any:
    """Read one vector file, or skip when another set does not have it."""

    def load(name: str) -> Any:
        path = vectors / name
        if not path.exists():
            pytest.skip(f"{name} is not in this set of vectors")
        return json.loads(path.read_text("utf-8"))

    return load

"""A fresh set of reference tools and machines per test."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from reference_machines import reference_machines


@pytest.fixture
def ref() -> SimpleNamespace:
    return reference_machines()

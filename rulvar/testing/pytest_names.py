"""Names that the parts of the pytest plugin share."""

import pytest

RECORD_MODES = ("none", "once", "new_episodes", "all")
SESSION = "rulvar-session"
"""The name under which what watches a pytest run is registered."""
WORKER_OUTPUT = "rulvar"
"""The key under which a pytest-xdist worker hands its tests to the controller."""
SHAKE_FOLDER = "rulvar_shake_folder"
"""The key under which a pytest-xdist worker is told where it leaves what it kept for a shake."""
STARTED_INPUT = "rulvar_started"
"""The key under which a pytest-xdist worker is told when the run began."""
STARTED = pytest.StashKey[float]()
"""When the run began, in seconds since the epoch; the same in every worker."""
COVERAGE = "rulvar-coverage"
"""The name under which what watches machines is registered, and the key of what a pytest-xdist worker saw."""
CRITERION_MARKER = (
    "criterion(*ids): the acceptance criteria that the test shows; --rulvar-coverage lists them"
)

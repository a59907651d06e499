"""Names that the parts of the pytest plugin share."""

RECORD_MODES = ("none", "once", "new_episodes", "all")
WORKER_OUTPUT = "rulvar"
"""The key under which a pytest-xdist worker hands its tests to the controller."""
SHAKE_FOLDER = "rulvar_shake_folder"
"""The key under which a pytest-xdist worker is told where it leaves what it kept for a shake."""
STARTED_INPUT = "rulvar_started"
"""The key under which a pytest-xdist worker is told when the run began."""

"""Names that the parts of the pytest plugin share."""

RECORD_MODES = ("none", "once", "new_episodes", "all")
WORKER_OUTPUT = "rulvar"
"""The key under which a pytest-xdist worker hands its tests to the controller."""
SHAKE_FOLDER = "rulvar_shake_folder"
"""The key under which a pytest-xdist worker is told where it leaves what it kept for a shake."""

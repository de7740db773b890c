"""The oldest version of the `kubernetes` package that images pin, beside the one installed here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: kfp 2.16 pins kubernetes<31; GKE's GPU image for JupyterLab carries it.
PINNED = "30.1.0"


@pytest.mark.soak
def test_what_holds_for_the_newest_client_holds_for_the_pinned_one(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--target", packages, f"kubernetes=={PINNED}"],
        check=True,
    )  # fmt: skip
    here = Path(__file__).parent
    root = here.parents[1]
    path = os.pathsep.join([str(packages), str(root)])
    environment = {**os.environ, "PYTHONPATH": path}
    version = subprocess.run(
        [sys.executable, "-c", "import kubernetes; print(kubernetes.__version__)"],
        env=environment, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    assert version == PINNED
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not soak", str(here)],
        env=environment, cwd=root, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]

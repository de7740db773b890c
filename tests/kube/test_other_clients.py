"""The oldest version of the `kubernetes` package that images pin, beside the one installed here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from . import real_server

#: kfp 2.16 pins kubernetes<31; GKE's GPU image for JupyterLab carries it.
PINNED = "30.1.0"


@pytest.mark.soak
@pytest.mark.timeout(1800)
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
    # its home is ours, a temporary one: what was built for the real server is not in there
    cache = {"GKEWS_KUBE_CACHE": str(real_server.CACHE)}
    environment = {**os.environ, **cache, "PYTHONPATH": path}
    version = subprocess.run(
        [sys.executable, "-c", "import kubernetes; print(kubernetes.__version__)"],
        env=environment, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    assert version == PINNED
    report = tmp_path / "report.xml"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not soak", f"--junitxml={report}", str(here)],
        env=environment, cwd=root, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
    skipped = {
        str(case.get("name")): str(why.get("message"))
        for case in ElementTree.parse(report).iter("testcase")
        for why in case.iter("skipped")
    }
    missing = real_server.why_not()
    assert {name: why for name, why in skipped.items() if why != missing} == {}
    if missing is not None:  # then this has not shown all that it is there for
        pytest.skip(f"{len(skipped)} tests were not run with kubernetes {PINNED}: {missing}")

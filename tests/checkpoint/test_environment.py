"""What differs between where a checkpoint was made and where it is loaded is told truly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

from jupyter_gkews.kernel.checkpoint import environment
from jupyter_gkews.kernel.checkpoint.environment import capture, differences, present
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore


def asked(python: str = sys.executable) -> dict[str, Any]:
    """What an interpreter says of itself, with nothing of ours in it."""
    source = Path(environment.__file__).read_text()
    done = subprocess.run(
        [python, "-I", "-c", source, "present"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows(made: dict[str, Any], here: dict[str, Any], *modules: str) -> dict[str, Any]:
    return {row["what"]: row for row in differences(made, here, modules)}


def test_the_versions_of_all_imported_distributions_are_recorded() -> None:
    import importlib.metadata

    import yaml  # its distribution has another name

    made = capture()
    assert made["packages"]["numpy"] == numpy.__version__
    assert made["packages"]["pyyaml"] == yaml.__version__ and made["modules"]["yaml"] == "pyyaml"
    installed = {
        environment.normalized(each.metadata["Name"]): each.version
        for each in importlib.metadata.distributions()
    }
    known = {name: version for name, version in made["packages"].items() if name in installed}
    assert len(known) > 5 and known == {name: installed[name] for name in known}
    assert not {"os", "json", "sys"} & set(made["packages"])


def test_an_interpreter_says_what_it_has_and_nothing_differs_from_itself() -> None:
    here = asked()
    assert here["packages"]["numpy"] == numpy.__version__
    assert here["python"] == ".".join(map(str, sys.version_info[:3]))
    assert differences(capture(), here, ["numpy", "numpy.linalg", "yaml", "os"]) == []
    assert {**present(), "executable": 0} == {**here, "executable": 0}


MADE: dict[str, Any] = {
    "python": "3.11.7",
    "implementation": "CPython",
    "system": "Linux",
    "machine": "x86_64",
    "packages": {"numpy": "1.26.4", "scikit-learn": "1.4.0", "PyYAML": "6.0", "torch": "2.2"},
    "modules": {"sklearn": "scikit-learn", "yaml": "PyYAML"},
    "gpus": ["H200"],
    "cuda": "12.1",
}


@pytest.mark.parametrize(
    ("change", "what", "severity"),
    [
        ({"python": "3.11.9"}, "Python", "note"),
        ({"python": "3.12.1"}, "Python", "may_lose"),
        ({"implementation": "PyPy"}, "implementation of Python", "may_lose"),
        ({"machine": "aarch64"}, "kind of processor", "may_lose"),
        ({"system": "Darwin"}, "operating system", "may_lose"),
        ({"gpus": []}, "GPU", "may_lose"),
        ({"gpus": ["A100"]}, "GPU", "note"),
        ({"cuda": None}, "CUDA", "may_lose"),
        ({"packages": {**MADE["packages"], "numpy": "1.26.5"}}, "numpy", "note"),
        ({"packages": {**MADE["packages"], "numpy": "2.1.0"}}, "numpy", "may_lose"),
        (
            {"packages": {"numpy": "1.26.4", "pyyaml": "6.0", "torch": "2.2"}},
            "scikit-learn",
            "loses",
        ),
    ],
)
def test_each_difference_says_what_it_may_break(
    change: dict[str, Any], what: str, severity: str
) -> None:
    found = rows(MADE, {**MADE, **change}, "numpy", "sklearn.svm", "yaml", "torch")
    assert set(found) == {what} and found[what]["severity"] == severity
    assert found[what]["means"].endswith(".")


def test_packages_that_the_checkpoint_needs_nothing_of_are_no_matter() -> None:
    here = {**MADE, "packages": {"numpy": "1.26.4"}}
    assert rows(MADE, here, "numpy") == {}
    assert "sklearn" in rows(MADE, here, "numpy", "sklearn")["scikit-learn"]["means"]


def test_a_checkpoint_that_cannot_be_checked_there_is_said_to_be_so() -> None:
    here = {**MADE, "packages": {}}
    (row,) = differences({**MADE, "gpus": [], "cuda": None}, {**here, "gpus": []}, [], {"blake3"})
    assert row["what"] == "blake3" and row["severity"] == "loses"
    brought = {"packages": {"cloudpickle": "3.1.1", "jupyter_gkews": "1"}}
    modules = ["cloudpickle.cloudpickle", "jupyter_gkews.kernel"]
    assert differences(brought, {"packages": {}}, modules) == [], "the server brings them along"
    assert differences({}, {}, []) == [], "an old checkpoint says little"


def test_the_manifest_has_the_environment(store: CheckpointStore) -> None:
    summary = save({"x": numpy.ones(3)}, store, checkpoint="one", prove=False)
    assert summary["environment"]["packages"]["numpy"] == numpy.__version__
    assert summary["python"] == summary["environment"]["python"]

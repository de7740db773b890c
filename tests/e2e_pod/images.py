"""Where the stand-in keeps the images of PodSnapshots: what GKE keeps in a bucket.

Each lies beside the hash of the pod that it was taken of: it fits no other.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def spec_hash(pod: Json) -> str:
    """Of what GKE compares (KUBERNETES.md section 5): containers and volumes, not where it runs."""
    wanted = ("name", "image", "command", "args", "workingDir", "ports", "volumeMounts")
    spec = pod["spec"]
    containers = [{key: one[key] for key in wanted if one.get(key)} for one in spec["containers"]]
    about = json.dumps([containers, spec.get("volumes") or []], sort_keys=True)
    return hashlib.sha256(about.encode()).hexdigest()


class Images:
    """Below one folder, by the names of their PodSnapshots."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, name: str, pod: Json) -> Path:
        """The folder for a new one, which does not exist yet."""
        (self.folder / name).mkdir(parents=True)
        (self.folder / name / "spec-hash").write_text(spec_hash(pod))
        return self.folder / name / "image"

    def find(self, name: str, pod: Json) -> Path | None:
        """The image for a start of this pod; None if it is gone or does not fit."""
        about = self.folder / name / "spec-hash"
        if not about.is_file() or about.read_text() != spec_hash(pod):
            return None
        return self.folder / name / "image"

    def remove(self, name: str) -> None:
        shutil.rmtree(self.folder / name, ignore_errors=True)

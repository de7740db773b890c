"""The schemas of the events that this package emits on the server's event bus."""

from __future__ import annotations

from pathlib import Path

#: The id of the events about kernels and checkpoints.
LIFECYCLE_SCHEMA_ID = "https://events.jupyter.org/jupyter_gkews/lifecycle/v1"
LIFECYCLE_SCHEMA = Path(__file__).parent / "lifecycle" / "v1.yaml"

"""The parties that a cluster with GKE Workspaces has besides its API server, played by scripts.

Each follows objects through the API as its original does, so it plays on the fake server and on a
real one alike: controller.py (Kubeflow's), addon.py (GKE's snapshot addon, webhook included),
gke.py (Pod Snapshots), nodes.py (scheduler and kubelet), makers.py (Deployments and the like),
platform.py and self_managed.py (all that there are with and without Workspaces).
"""

from .platform import Platform
from .self_managed import SelfManaged

__all__ = ["Platform", "SelfManaged"]

"""An API server in this process, on real sockets: what tests of the Kubernetes client talk to.

It behaves as a kube-apiserver where test_conformance.py says so (the same file runs against a real
one), and can be told to fail. It is no kubelet, scheduler or controller: actors/ plays those.
"""

from .faults import Fault, Faults
from .server import FakeCluster

__all__ = ["FakeCluster", "Fault", "Faults"]

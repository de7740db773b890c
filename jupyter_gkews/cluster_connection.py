"""How the command line finds its cluster: a kubeconfig as kubectl has it, else the pod's account.

Asks nothing by itself. What a command has to say of a failed request is said as a GkewsError.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engines.cluster.cluster import Cluster
    from .engines.pod_account import InPod


def cluster_options() -> argparse.ArgumentParser:
    """The options of all commands that ask a cluster, as a parent of theirs."""
    found = argparse.ArgumentParser(add_help=False)
    found.add_argument("--kubeconfig", metavar="FILE", help="default: as kubectl has it")
    found.add_argument("--context", help="of the kubeconfig, instead of its current one")
    # one that is set already before the action must not be set back
    found.add_argument("--json", action="store_true", default=argparse.SUPPRESS)
    return found


@contextmanager
def connected(options: argparse.Namespace) -> Iterator[tuple[Cluster, InPod | None]]:
    """The cluster; and the pod that this process lives in, if it is asked as that."""
    from .engines.cluster.cluster import Cluster
    from .engines.cluster.connection import Kubeconfig
    from .engines.cluster.problems import ClusterError
    from .engines.pod_account import InPod

    pod = InPod()
    given = options.kubeconfig or options.context or os.environ.get("KUBECONFIG")
    outside = given or (Path.home() / ".kube" / "config").is_file() or pod.why_not() is not None
    cluster = Cluster(Kubeconfig(options.kubeconfig, options.context) if outside else pod)
    try:
        yield cluster, None if outside else pod
    except ClusterError as error:
        raise error.explain() from error
    finally:
        cluster.close()

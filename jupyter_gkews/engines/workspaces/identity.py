"""Which workspace this process lives in, found out from the pod: token, pod label, Workspace.

Asks the API server at most three times. Must be asked anew after a restore: the pod is another.
"""

from __future__ import annotations

import base64
import json
import re
import socket
from dataclasses import dataclass, replace

from ...errors import GkewsError
from ..cluster.cluster import Cluster
from ..cluster.problems import ClusterError
from ..cluster.words import PODS, WORKSPACE_LABEL, WORKSPACES, Json, labels_of
from ..pod_account import InPod

#: JupyterLab in a workspace: /workspace/connect/<namespace>/<workspace>/<port>/
_BASE_URL = re.compile(r"/workspace/connect/(?P<namespace>[^/]+)/(?P<name>[^/]+)/")


@dataclass(frozen=True)
class Identity:
    """Where we are. `workspace` is empty in a pod that belongs to none; then `why_not` says so."""

    namespace: str
    account: str
    pod: str
    pod_uid: str
    workspace: str = ""
    how: str = ""
    """What told the workspace: pod label | base URL | service account."""
    why_not: str | None = None


def from_token(token: str) -> Json:
    """The Kubernetes part of a service-account token: who it is for. Not verified: it is ours."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        claims = json.loads(base64.urlsafe_b64decode(padded))
    except ValueError:
        return {}
    found = claims.get("kubernetes.io") if isinstance(claims, dict) else None
    return found if isinstance(found, dict) else {}


def find_identity(cluster: Cluster, pod: InPod, base_url: str = "") -> Identity:
    """Ask. Raises ClusterError if the API server cannot be reached, GkewsError without a token."""
    claims = from_token(pod.token())
    namespace = str(claims.get("namespace") or pod.namespace)
    account = str((claims.get("serviceaccount") or {}).get("name") or "")
    about = claims.get("pod") or {}
    name = str(about.get("name") or pod.environ.get("HOSTNAME") or socket.gethostname())
    found = Identity(namespace, account, name, str(about.get("uid") or ""))
    if not namespace:
        return _but(found, why_not="The pod's namespace is not known: it has no such file.")
    hidden = ""
    try:
        here = cluster.get(PODS, namespace, name)
    except ClusterError as error:
        if not (error.forbidden or error.missing):
            raise
        hidden = " (the pod itself may not be read)" if error.forbidden else ""
    else:
        uid = str(here["metadata"].get("uid") or "")
        label = labels_of(here).get(WORKSPACE_LABEL, "")
        found = _but(found, pod_uid=uid)
        if label:
            return _but(found, workspace=label, how="pod label")
    # without the right to read pods, what else could tell; the Workspace itself confirms it
    guesses = []
    match = _BASE_URL.match(base_url)
    if match and match["namespace"] == namespace:
        guesses.append((match["name"], "base URL"))
    if account.startswith("ws-"):
        guesses.append((account.removeprefix("ws-"), "service account"))
    for guess, how in guesses:
        try:
            if cluster.find(WORKSPACES, namespace, guess) is not None:
                return _but(found, workspace=guess, how=how)
        except ClusterError as error:
            if not error.forbidden:
                raise
            return _but(found, why_not=f"The Workspace {guess} may not be read: {error.message}")
    return _but(found, why_not=f"This pod belongs to no Workspace{hidden}.")


def parse_place(text: str) -> tuple[str, str]:
    """`NS/NAME` of the command line. Raises GkewsError (`bad_request`)."""
    namespace, slash, name = text.partition("/")
    if not (slash and namespace and name) or "/" in name:
        raise GkewsError(
            "bad_request",
            f"{text!r} is not NAMESPACE/NAME.",
            "Nothing was changed. `kubectl get workspaces -A` lists them.",
        )
    return namespace, name


def _but(found: Identity, **changed: str) -> Identity:
    return replace(found, **changed)

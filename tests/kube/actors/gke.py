"""GKE Pod Snapshots: a trigger becomes a PodSnapshot, step by step.

`outcome`: "ok", "failed" (the trigger says so), "hang" (nothing more happens), "lost" (the trigger
is complete, the snapshot never becomes ready), "not stored" (complete, and then it fails). `pace`:
seconds between two steps. `wedged`: the finalizer of a deleted snapshot is not taken away.
"""

from __future__ import annotations

import uuid
from typing import Any

from ..admin import SNAPSHOT
from .controller import PODS, WORKSPACE_LABEL, condition
from .following import Actor
from .nodes import SNAPSHOTS, distilled, now

Json = dict[str, Any]
TRIGGERS = f"{SNAPSHOT} podsnapshotmanualtriggers"
POLICIES = f"{SNAPSHOT} podsnapshotpolicies"
FINALIZER = "podsnapshot.gke.io/podsnapshot-finalizer"
TRIGGERED_BY = "gke-pod-snapshot-triggered-by"


class PodSnapshots(Actor):
    follows = (TRIGGERS, SNAPSHOTS)

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.outcome = "ok"
        self.message = "snapshot upload failed: googleapi: Error 403: Forbidden"
        self.pace = 0.02
        self.wedged = False
        self.name_as_text = False
        """`snapshotCreated` as the reference types it, a string; else as it is seen, an object."""

    def go_on(self) -> None:
        """What hung goes on."""
        self.outcome = "ok"
        self.poke()

    def policy_of(self, pod: Json) -> str | None:
        """The name of one that lets the pod be snapshotted by a manual trigger."""
        labels = pod["metadata"].get("labels") or {}
        for policy in self.admin.list(self.path(POLICIES)):
            wanted = policy["spec"]["selector"].get("matchLabels") or {}
            if policy["spec"]["triggerConfig"]["type"] == "manual" and wanted.items() <= (
                labels.items()
            ):
                return str(policy["metadata"]["name"])
        return None

    def reconcile(self) -> None:
        snapshots = self.admin.list(self.path(SNAPSHOTS))
        for snapshot in snapshots:
            deleted = "deletionTimestamp" in snapshot["metadata"]
            if deleted and snapshot["metadata"].get("finalizers") and not self.wedged:
                self.forget(snapshot["metadata"]["name"])
                self.admin.merge(
                    self.path(SNAPSHOTS), snapshot["metadata"]["name"],
                    {"metadata": {"finalizers": None}},
                )  # fmt: skip
        for trigger in self.admin.list(self.path(TRIGGERS)):
            name = trigger["metadata"]["name"]
            mine = [
                snapshot for snapshot in snapshots
                if (snapshot["metadata"].get("annotations") or {}).get("uid")
                == trigger["metadata"]["uid"]
            ]  # fmt: skip
            if condition(trigger, "Triggered").get("status") != "True":
                self._trigger(trigger, name, mine)
            elif mine and self.outcome == "ok":
                self._go_on(mine[0])
            elif mine and self.outcome == "not stored":
                failed = ("False", "Failed", self.message)
                if not condition(mine[0], "StorageReplicated"):
                    self._set(SNAPSHOTS, mine[0], "StorageReplicated", *failed)

    # -- what takes the snapshots: here nothing, for a real one see tests/e2e_pod ----------------

    def take(self, pod: str, snapshot: str) -> str | None:
        """Why it failed; "" once it is taken, None while that goes on (then it wakes us)."""
        del pod, snapshot
        return self.message if self.outcome == "failed" else ""

    def forget(self, snapshot: str) -> None:
        """The object goes: its content, too."""

    # -- a trigger -----------------------------------------------------------------------------

    def _trigger(self, trigger: Json, name: str, mine: list[Json]) -> None:
        if condition(trigger, "Triggered").get("status") == "False":
            return
        if self.outcome == "hang":
            if not condition(trigger, "Triggered"):
                self._set(TRIGGERS, trigger, "Triggered", "Unknown", "InProgress", "")
            return
        if not mine:
            pod = self.admin.find(self.path(PODS), trigger["spec"]["targetPod"])
            policy = self.policy_of(pod) if pod else None
            if pod is None:
                why = f"pod {trigger['spec']['targetPod']} not found"
                self._set(TRIGGERS, trigger, "Triggered", "False", "Failed", why)
                return
            if policy is None and WORKSPACE_LABEL not in (pod["metadata"].get("labels") or {}):
                why = "no PodSnapshotPolicy with a manual trigger selects the pod"
                self._set(TRIGGERS, trigger, "Triggered", "False", "Failed", why)
                return
            self.admin.create(
                self.path(SNAPSHOTS),
                {
                    "apiVersion": "podsnapshot.gke.io/v1",
                    "kind": "PodSnapshot",
                    "metadata": {
                        "name": str(uuid.uuid4()),
                        "labels": {TRIGGERED_BY: name},
                        "annotations": {
                            "podsnapshot.gke.io/origin-pod": trigger["spec"]["targetPod"],
                            "uid": trigger["metadata"]["uid"],
                            "spec": distilled(pod),
                        },
                        "finalizers": [FINALIZER],
                    },
                    "spec": {"policyName": policy or "policy"},
                },
            )
            self.again(self.pace)
            return
        made: Any = mine[0]["metadata"]["name"]
        why_not = self.take(trigger["spec"]["targetPod"], made)
        if why_not is None:
            return
        if why_not:
            self._set(SNAPSHOTS, mine[0], "Checkpoint", "False", "Failed", why_not)
            self._set(TRIGGERS, trigger, "Triggered", "False", "Failed", why_not)
            return
        created = made if self.name_as_text else {"name": made}
        self._set(TRIGGERS, trigger, "Triggered", "True", "Complete", "", snapshotCreated=created)
        self.again(self.pace)

    def _go_on(self, snapshot: Json) -> None:
        for kind, reason in (("Checkpoint", "Succeeded"), ("StorageReplicated", "Succeeded"),
                             ("Ready", "AllSnapshotsAvailable")):  # fmt: skip
            if condition(snapshot, kind).get("status") != "True":
                self._set(SNAPSHOTS, snapshot, kind, "True", reason, "", lastAccessTime=now())
                self.again(self.pace)
                return

    def _set(
        self,
        where: str,
        found: Json,
        kind: str,
        status: str,
        reason: str,
        message: str,
        **more: Any,
    ) -> None:
        conditions = (found.get("status") or {}).get("conditions") or []
        conditions = [one for one in conditions if one["type"] != kind]
        made = {"type": kind, "status": status, "reason": reason, "message": message}
        conditions.append({**made, "lastTransitionTime": now()})
        self.admin.merge(
            self.path(where), found["metadata"]["name"],
            {"status": {"conditions": conditions, **more}}, "status",
        )  # fmt: skip

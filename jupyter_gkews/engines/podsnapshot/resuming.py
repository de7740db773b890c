"""Bring a paused pod back, once, and find out what came: the same processes, or a fresh start.

Asked by whoever is first, onto the version that was judged; all others join. What comes back is
restored only if GKE says so and names the snapshot that was wanted.
"""

from __future__ import annotations

import time
from dataclasses import replace

from ...errors import GkewsError
from ..cluster.problems import ClusterError
from ..cluster.words import (
    MACHINE_TYPE_LABEL,
    PODS,
    TRIGGERS,
    Json,
    annotations_of,
    name_of,
    uid_of,
    version_of,
)
from ..workspaces.observing import reached
from ..workspaces.pausing import Teller
from ..workspaces.seen import PS_NAME
from ..workspaces.state import WorkspaceState, age
from .attempts import why_not_whole
from .made_of import differences, made_of, manifest_of
from .pausing import AGAIN_S, Pauses, Progress
from .requesting import TRIES, CalledOff
from .seen import TargetSeen
from .state import read
from .words import MACHINE, PAUSED, SNAPSHOT, deleted

#: What a resume without its snapshot is asked for by, on the command line.
_ANYWAY = "--accept-fresh starts a new pod without its memory; the snapshot is kept."


class Resumes(Pauses):
    """Of one target, through its observer: pause and resume."""

    def request_resume(self, *, accept_fresh: bool = False, again: bool = False) -> str:
        """Ask for the pod, once: `begun`, or `joined` if it is on its way up already.

        `accept_fresh`: also if its memory will, or may, not come back. `again`: a pod that was to
        be restored and started fresh is replaced by another.

        Raises GkewsError: not_paused, operation_running, snapshot_not_found,
        snapshot_incompatible, snapshot_unavailable, forbidden, cluster_unreachable.
        """
        lost: ClusterError | None = None
        for _ in range(TRIES):
            seen = self.look()
            state = read(seen, sign=self.observer.sign)
            if state.state == "resuming":
                return "begun" if lost is not None else "joined"
            if state.state == "running":
                if lost is not None:
                    return "begun"
                if not (again and state.provenance == "fresh"):
                    raise GkewsError("not_paused", state.message, state.hint)
            elif state.state == "pausing":
                raise GkewsError(
                    "operation_running", f"It is still being paused: {state.message}",
                    "Resume it when it is paused.",
                )  # fmt: skip
            elif state.state != "paused":
                raise GkewsError(state.reason or "no_workspace", state.message, state.hint)
            usable = self._usable(seen, accept_fresh=accept_fresh)
            try:
                if state.state == "running":
                    self._replace(seen, usable=usable)
                elif self.target.bare:
                    self._create(seen, usable=usable)
                else:
                    self._scale_up(seen, usable=usable)
            except ClusterError as error:
                if error.conflict or error.missing:
                    continue
                if error.maybe_done:  # onto one version, or of one name: never a second restore
                    lost = error
                    continue
                raise error.explain() from error
            return "begun"
        if lost is not None:
            raise GkewsError(
                "cluster_unreachable", f"Whether it starts is not known: {lost.message}",
                "`jupyter gkews podsnapshot status` will show it. The snapshot is kept.",
            ) from lost  # fmt: skip
        raise GkewsError(
            "operation_running",
            f"Somebody else keeps changing {self.target.text}: it could not be resumed.",
            "The snapshot is kept. Try again in a moment.",
        )

    def _usable(self, seen: TargetSeen, *, accept_fresh: bool) -> bool:
        """Whether the pod is to be restored from its snapshot. Raises if it cannot be, unless that
        is accepted."""
        name = seen.wanted
        if not name:
            if accept_fresh:
                return False
            raise GkewsError(
                "snapshot_not_found", f"There is no snapshot of {self.target.text}.",
                f"Nothing was changed. {_ANYWAY}",
            )  # fmt: skip
        if "snapshots" not in seen.hidden:
            found = seen.snapshot(name)
            why = f"There is no snapshot {name} any more: it was deleted, or kept too long."
            why_not = why if found is None else why_not_whole(found)
            if why_not is not None:
                if accept_fresh:
                    return False
                raise GkewsError("snapshot_not_found", why_not, f"Nothing was changed. {_ANYWAY}")
        before = seen.made_of
        changed = [] if before is None else differences(before, made_of(seen.template))
        if changed and not accept_fresh:
            raise GkewsError(
                "snapshot_incompatible",
                f"{self.target.text} was changed since it was paused, and the snapshot does not "
                f"fit it: {' '.join(changed)}",
                f"Nothing was changed. Take that back, or: {_ANYWAY}",
            )
        return True  # GKE tries, also where we think that it cannot fit

    def _scale_up(self, seen: TargetSeen, *, usable: bool) -> None:
        # what the pause has noted stays until the restore is seen: if no node is found, say, and it
        # is scaled to 0 again, it is paused as before
        name = seen.wanted if usable else None
        spec: Json = {"replicas": seen.scale_before,
                      "template": {"metadata": {"annotations": {PS_NAME: name}}}}  # fmt: skip
        metadata: Json = {"resourceVersion": version_of(seen.owner)}
        if not usable:
            metadata["annotations"] = dict.fromkeys(PAUSED)
        self._cluster.merge(
            self.target.resource, self.target.namespace, self.target.name,
            {"metadata": metadata, "spec": spec},
        )  # fmt: skip

    def _create(self, seen: TargetSeen, *, usable: bool) -> None:
        manifest = seen.kept.manifest() if seen.kept is not None else None
        if manifest is None:
            raise GkewsError(
                "snapshot_not_found",
                f"The manifest of {self.target.text} is not on the trigger any more.",
                self._by_hand(seen),
            )
        self._cluster.create(PODS, _named(manifest, seen, usable=usable), self.target.namespace)

    def _by_hand(self, seen: TargetSeen) -> str:
        named = f", with the annotation {PS_NAME}: {seen.wanted}" if seen.wanted else ""
        return f"Create the pod from your own manifest{named}."

    def _replace(self, seen: TargetSeen, *, usable: bool) -> None:
        """A pod that started fresh: GKE's agent may not have been on its node yet."""
        uid, bare = uid_of(seen.pod), self.target.bare
        # before the delete: with the trigger gone, the pod is the only place where it is
        manifest = (seen.kept.manifest() if seen.kept else None) or manifest_of(seen.pod or {})
        self._delete_pod(seen)
        gone = self.observer.wait(  # else what follows would be told of the old one
            lambda now, _: all(uid_of(p) != uid or (deleted(p) and not bare) for p in now.pods),
            120.0,
        )
        if not bare:
            return
        if gone is None:
            raise GkewsError(
                "operation_running", "The pod was told to stop and has not gone after 2 min.",
                self._left_with(seen),
            )  # fmt: skip
        self._create_in_its_place(_named(manifest, seen, usable=usable), seen)

    def _delete_pod(self, seen: TargetSeen) -> None:
        for tried in range(TRIES):
            try:
                self._cluster.delete(
                    PODS, self.target.namespace, name_of(seen.pod or {}), uid_of(seen.pod)
                )
                return
            except ClusterError as error:
                if error.missing and tried:  # the answer that was lost
                    return
                if not error.maybe_done or tried == TRIES - 1:
                    raise

    def _create_in_its_place(self, manifest: Json, seen: TargetSeen) -> None:
        """Until it is there: the old one is gone, and only we may have its manifest."""
        for tried in range(TRIES):
            try:
                self._cluster.create(PODS, manifest, self.target.namespace)
                return
            except ClusterError as error:
                if error.conflict:  # made by another, or by us and the answer was lost
                    return
                if not error.unreachable or tried == TRIES - 1:
                    raise GkewsError(
                        error.explain().reason,
                        f"The pod was stopped, but could not be made again: {error.message}",
                        self._left_with(seen),
                    ) from error
            time.sleep(AGAIN_S)

    def _left_with(self, seen: TargetSeen) -> str:
        if seen.kept is not None and seen.kept.manifest() is not None:
            return "Its snapshot and its manifest are kept: resume it again when it is paused."
        return self._by_hand(seen)

    def abort(self, seconds: float = 30.0) -> CalledOff:
        """Call off a pause; or a resume that waits for a node: nothing of it has begun.

        Raises as `Requests.abort`.
        """
        for _ in range(TRIES):
            seen = self.look()
            state = read(seen, sign=self.observer.sign)
            if state.phase != "waiting_for_capacity" or not seen.to_restore:
                return super().abort(seconds)
            try:
                if self.target.bare:
                    self._cluster.delete(PODS, self.target.namespace, self.target.name,
                                         uid_of(seen.pod))  # fmt: skip
                elif SNAPSHOT in annotations_of(seen.owner or {}):
                    self._cluster.merge(
                        self.target.resource, self.target.namespace, self.target.name,
                        {"metadata": {"resourceVersion": version_of(seen.owner)},
                         "spec": {"replicas": 0}},
                    )  # fmt: skip
                else:
                    return super().abort(seconds)
            except ClusterError as error:
                if error.conflict or error.missing or error.maybe_done:
                    continue
                raise error.explain() from error
            return CalledOff(
                "aborted", "The resume was called off: it is paused as before, with its snapshot."
            )
        return super().abort(seconds)

    # -- what came ---------------------------------------------------------------------------

    def wait_running(
        self, seconds: float, progress: Progress | None = None, *, accept_fresh: bool = False
    ) -> WorkspaceState:
        """Wait until the pod runs and it is known what it is.

        Raises GkewsError: restore_failed if it was started fresh and that was not accepted, or at
        the deadline; cancelled if somebody paused it again; cluster_unreachable.
        """
        told = Teller(progress)
        # the watches may not know of the request yet
        seen = self._look_when_it_answers("The pod was asked for", seconds)
        begun = version_of(seen.owner)
        came = False

        def over(now: TargetSeen, state: WorkspaceState) -> bool:
            nonlocal came
            gone = not self.target.bare and now.owner is None and self.observer.all_seen
            came = came or bool(reached(now.owner, begun) if begun else now.pods) or gone
            if not came:
                return False
            told(state)
            return state.state != "resuming" and (state.state != "running" or now.pod_ready)

        state = self.observer.wait(over, seconds)
        if state is None:
            now = self._look_when_it_answers("The pod was asked for", 0.0)
            state = read(now, sign=self.observer.sign)
        if state.reason in ("no_workspace", "forbidden"):
            raise GkewsError(
                state.reason, f"The pod was asked for, and is not seen any more: {state.message}",
                state.hint or "Its snapshot was not deleted from here.",
            )  # fmt: skip
        if state.state in ("resuming", "unknown") or state.reason == "restore_failed":
            raise GkewsError(
                state.reason or "restore_failed",
                f"It does not run after {age(seconds)}: {state.message}",
                state.hint or "It is still on its way up; nothing was called off.",
            )
        if state.state != "running":
            raise GkewsError(
                "cancelled", f"Somebody paused it again: {state.message}", "Nothing was lost."
            )
        if state.provenance == "restored" and state.reason is None:
            self.tidy()
            return state
        state = self._with_machines(state)
        if state.provenance == "fresh" and not accept_fresh:
            raise GkewsError("restore_failed", state.message, state.hint)
        if state.reason is not None and state.provenance == "restored":
            raise GkewsError(state.reason, state.message, "The snapshot that was wanted is kept.")
        return state

    def _with_machines(self, state: WorkspaceState) -> WorkspaceState:
        """The machine then and now, where both are known: a snapshot fits one series of them."""
        if state.provenance != "fresh":
            return state
        seen = self.look()
        kept: Json = seen.kept.trigger if seen.kept is not None else seen.owner or {}
        before = annotations_of(kept).get(MACHINE, "")
        try:
            labels = self._labels_of_node(str(seen.spec.get("nodeName") or ""))
        except ClusterError:
            return state
        now = (labels or {}).get(MACHINE_TYPE_LABEL, "")
        if before and now and before.split("-")[0] != now.split("-")[0]:
            moved = f"It was paused on a {before} and is on a {now}: snapshots fit one series."
            return replace(state, message=f"{state.message} {moved}")
        return state

    def tidy(self) -> None:
        """After a restore: what the pause has noted, and requests that are of no more use. What
        cannot be done stays undone."""
        for _ in range(TRIES):
            try:
                self._tidy_now(self.look())
                return
            except ClusterError as error:
                if not error.conflict:
                    return
            except GkewsError:
                return

    def _tidy_now(self, seen: TargetSeen) -> None:
        if not self.target.bare and seen.owner is not None:
            self._forget_the_pause(seen)
        for one in seen.attempts:
            if one.running or one.pod_uid == uid_of(seen.pod):
                continue
            try:
                self._cluster.delete(TRIGGERS, self.target.namespace, one.name, uid_of(one.trigger))
            except ClusterError as error:
                if not (error.forbidden or error.missing):
                    raise

    def _forget_the_pause(self, seen: TargetSeen) -> None:
        change: Json = {
            "metadata": {"resourceVersion": version_of(seen.owner),
                         "annotations": dict.fromkeys(PAUSED)},
        }  # fmt: skip
        if self.target.kind == "ReplicaSet":  # its template makes later pods only
            change["spec"] = {"template": {"metadata": {"annotations": {PS_NAME: None}}}}
        self._cluster.merge(self.target.resource, self.target.namespace, self.target.name, change)


def _named(manifest: Json, seen: TargetSeen, *, usable: bool) -> Json:
    """The pod to create: with the name of the snapshot that was judged, if it is to be used."""
    if usable:
        manifest["metadata"].setdefault("annotations", {})[PS_NAME] = seen.wanted
    return manifest


__all__ = ["Resumes"]

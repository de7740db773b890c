"""What a snapshot fits only if the next pod has it, too: compared, and each difference a sentence.

Which parts those are is GKE's "distilled pod spec" and its conditions on machines and GPUs, as far
as they are documented; whether environment variables count is not, so they are not compared.
Also the manifest by which a pod that nothing would make anew is made again. Pure.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from ..cluster.words import (
    ACCELERATOR_LABEL,
    COMPUTE_CLASS_LABEL,
    GPU,
    MACHINE_FAMILY_LABEL,
    MACHINE_TYPE_LABEL,
    Json,
    annotations_of,
    labels_of,
)
from ..pod_account import ACCOUNT
from ..workspaces.seen import PS_NAME

_OF_CONTAINER = ("image", "command", "args", "workingDir", "ports", "volumeMounts")
_GVISOR = "dev.gvisor."
_MACHINE = {
    MACHINE_FAMILY_LABEL: "series of machines",
    MACHINE_TYPE_LABEL: "type of machine",
    COMPUTE_CLASS_LABEL: "class of machines",
    ACCELERATOR_LABEL: "GPU",
}


def made_of(pod: Json) -> Json:
    """Of a pod, or of the template of one: what counts, in a form that JSON keeps."""
    spec = pod.get("spec") or {}
    by_name = {str(one.get("name")): one for one in _containers(spec)}
    selector = spec.get("nodeSelector") or {}
    found = {
        "containers": {
            name: {key: one[key] for key in _OF_CONTAINER if one.get(key)}
            for name, one in by_name.items()
        },
        "gpus": {name: _gpus(one) for name, one in by_name.items() if _gpus(one)},
        "volumes": {
            str(one.get("name")): {k: v for k, v in one.items() if k != "name"}
            for one in spec.get("volumes") or []
        },
        "machine": {key: selector[key] for key in _MACHINE if selector.get(key)},
        "gvisor": {k: v for k, v in annotations_of(pod).items() if k.startswith(_GVISOR)},
        "runtime": spec.get("runtimeClassName") or "",
    }
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def differences(before: Json, now: Json) -> list[str]:
    """Of two answers of `made_of`: each difference in a sentence; none, if a snapshot may fit."""
    found = []
    was, is_ = before.get("containers") or {}, now.get("containers") or {}
    for name in sorted({*was, *is_}):
        if name not in was or name not in is_:
            found.append(f"Container {name} is {'new' if name not in was else 'gone'}.")
            continue
        for key in _OF_CONTAINER:
            if was[name].get(key) != is_[name].get(key):
                found.append(_changed(f"{key} of container {name}", was[name].get(key),
                                      is_[name].get(key)))  # fmt: skip
    for key, word in (("gpus", "number of GPUs"), ("volumes", "volumes"), ("gvisor", "settings of "
                      "gVisor"), ("runtime", "runtime class")):  # fmt: skip
        if before.get(key) != now.get(key):
            found.append(_changed(word, before.get(key), now.get(key)))
    was, is_ = before.get("machine") or {}, now.get("machine") or {}
    for key, word in _MACHINE.items():
        if was.get(key) != is_.get(key):
            found.append(_changed(word, was.get(key), is_.get(key)))
    return found


def unlike_template(template: Json, pod: Json) -> list[str]:
    """How a pod is not what its template makes now. What was added to the pod does not count."""
    was, is_ = made_of(pod)["containers"], made_of(template)["containers"]
    keys = ("image", "command", "args", "workingDir")
    reduced = [
        {"containers": {n: {k: v for k, v in one.get(n, {}).items() if k in keys} for n in is_}}
        for one in (was, is_)
    ]
    return differences(*reduced)


def pins_machine(pod: Json) -> bool:
    """Whether the pod asks for a kind of machine, so that the next one gets the same."""
    selector = (pod.get("spec") or {}).get("nodeSelector") or {}
    return any(
        selector.get(key) for key in (MACHINE_FAMILY_LABEL, MACHINE_TYPE_LABEL, COMPUTE_CLASS_LABEL)
    )


def manifest_of(pod: Json) -> Json:
    """By which the pod is made again: as its author wrote it, without what the cluster added."""
    spec = copy.deepcopy(pod.get("spec") or {})
    for key in ("nodeName", "priority", "preemptionPolicy", "ephemeralContainers"):
        spec.pop(key, None)
    ours = {
        str(mount.get("name"))
        for one in _containers(spec)
        for mount in one.get("volumeMounts") or []
        if mount.get("mountPath") == str(ACCOUNT)
    }
    added = {
        str(one.get("name"))
        for one in spec.get("volumes") or []
        if one.get("name") in ours and ("secret" in one or "projected" in one)
    }
    if added:
        spec["volumes"] = [one for one in spec["volumes"] if one.get("name") not in added]
        for one in _containers(spec):
            mounts = one.get("volumeMounts") or []
            one["volumeMounts"] = [each for each in mounts if each.get("name") not in added]
    metadata = pod.get("metadata") or {}
    kept: Json = {"name": metadata.get("name")}
    if labels_of(pod):
        kept["labels"] = labels_of(pod)
    annotations = {k: v for k, v in annotations_of(pod).items() if k != PS_NAME}
    if annotations:
        kept["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}


def _containers(spec: Json) -> list[Json]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def _gpus(container: Json) -> str:
    resources = container.get("resources") or {}
    return str((resources.get("limits") or {}).get(GPU) or "")


def _changed(what: str, was: Any, is_: Any) -> str:
    return f"The {what} was {_short(was)} and is {_short(is_)}."


def _short(value: Any) -> str:
    if not value:
        return "not set"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


__all__ = ["differences", "made_of", "manifest_of", "pins_machine", "unlike_template"]

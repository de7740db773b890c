"""The bodies of requests, checked: anything unknown or of a wrong type is `bad_request`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from ..errors import GkewsError

WHEN = ("idle", "interrupt", "now")
ON_MISSING_GPU = ("cpu", "wait", "fail")
PROVE = ("scratch", "read-back", "off")
COMPRESS = ("none", "zstd")
#: Longer names are refused: they end up in tables and manifests.
MAX_NAME = 200


def bad_request(message: str) -> GkewsError:
    """`bad_request` with the pointer to the description of the interface."""
    return GkewsError(
        "bad_request", message, "Nothing was done. See openapi.yaml for what is allowed."
    )


def only(body: dict[str, Any], *allowed: str) -> None:
    """Refuse keys that are not `allowed`: a misspelt option must not be ignored."""
    unknown = sorted(set(body) - set(allowed))
    if unknown:
        raise bad_request(f"Unknown field {unknown[0]!r}; allowed: {', '.join(allowed) or 'none'}.")


def checked_name(name: object) -> str | None:
    """The name for a checkpoint, or None; raises `bad_request`."""
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
        raise bad_request(f"'name' must be a text of 1 to {MAX_NAME} characters.")
    if not name.isprintable():
        raise bad_request("'name' must be of printable characters, on one line.")
    return name


def checked_prove(prove: object) -> str | None:
    """How to prove a checkpoint, or None; raises `bad_request`."""
    return _one_of("prove", prove, PROVE)


def checked_compress(compress: object) -> str | None:
    """How to compress a checkpoint, or None; raises `bad_request`."""
    return _one_of("compress", compress, COMPRESS)


def _one_of(field: str, value: object, allowed: tuple[str, ...]) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in allowed:
        raise bad_request(f"'{field}' is {value!r}; it must be one of {', '.join(allowed)}.")
    return value


def accepts_missing(body: dict[str, Any]) -> bool:
    """Whether to load without files of weights that are missing; raises `bad_request`."""
    accepted = body.get("accept_missing", False)
    if not isinstance(accepted, bool):
        raise bad_request("'accept_missing' must be true or false.")
    return accepted


#: What a body says of how checkpoints are written.
_OF_CHECKPOINTS = ("when", "timeout_s", "name", "prove", "compress")


@dataclass(frozen=True)
class PauseRequest:
    """How to pause or checkpoint. `timeout_s`: seconds to wait for idle; None waits on. `prove`,
    `compress`: how to prove and compress the checkpoint; None as the server is configured."""

    when: str = "idle"
    timeout_s: float | None = None
    name: str | None = None
    snapshot: bool | None = None
    prove: str | None = None
    compress: str | None = None

    @classmethod
    def from_json(
        cls, body: dict[str, Any], default_timeout_s: float | None, *, checkpoint: bool = False
    ) -> PauseRequest:
        """Read the body of a pause, or with `checkpoint` of a checkpoint request."""
        only(body, *_OF_CHECKPOINTS, *(() if checkpoint else ("snapshot",)))
        when = body.get("when", "idle")
        if when not in WHEN or (checkpoint and when == "interrupt"):
            raise bad_request(f"'when' is {when!r}; it must be one of {', '.join(WHEN)}.")
        timeout = body.get("timeout_s")
        if timeout is not None and not _is_seconds(timeout):
            raise bad_request("'timeout_s' must be a number of seconds, 0 or more.")
        name = checked_name(body.get("name"))
        prove = checked_prove(body.get("prove"))
        compress = checked_compress(body.get("compress"))
        snapshot = body.get("snapshot")
        if snapshot is not None and not isinstance(snapshot, bool):
            raise bad_request("'snapshot' must be true or false.")
        timeout_s = default_timeout_s if timeout is None else float(timeout)
        return cls(when, timeout_s, name, snapshot, prove, compress)


@dataclass(frozen=True)
class WorkspacePauseRequest:
    """How to pause the whole workspace. `kernels`: how their checkpoints are written. `stateless`:
    also if the memory is lost; `without_checkpoint`: also if kernels have no checkpoint."""

    kernels: PauseRequest = field(default_factory=PauseRequest)
    stateless: bool = False
    without_checkpoint: bool = False

    @classmethod
    def from_json(
        cls, body: dict[str, Any], default_timeout_s: float | None
    ) -> WorkspacePauseRequest:
        """Read the body of a pause of the workspace; raises `bad_request`."""
        own = ("stateless", "without_checkpoint")
        for key in own:
            if not isinstance(body.get(key, False), bool):
                raise bad_request(f"'{key}' must be true or false.")
        if "snapshot" in body:
            raise bad_request("'snapshot' is not for the workspace; see 'stateless'.")
        only(body, *own, *_OF_CHECKPOINTS)
        of_kernels = {key: value for key, value in body.items() if key not in own}
        kernels = PauseRequest.from_json(of_kernels, default_timeout_s)
        return cls(kernels, *(bool(body.get(key, False)) for key in own))


@dataclass(frozen=True)
class ResumeRequest:
    """How to resume. None: as the server is configured; `gpu_wait_s` in seconds.
    `accept_missing`: also without files of weights to which the checkpoint refers. `snapshot`:
    False loads the checkpoint although there is a snapshot; True takes nothing else."""

    on_missing_gpu: str | None = None
    gpu_wait_s: float | None = None
    accept_missing: bool = False
    snapshot: bool | None = None

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> ResumeRequest:
        """Read the body of a resume; raises `bad_request`."""
        only(body, "on_missing_gpu", "gpu_wait_s", "accept_missing", "snapshot")
        rule = body.get("on_missing_gpu")
        if rule is not None and rule not in ON_MISSING_GPU:
            allowed = ", ".join(ON_MISSING_GPU)
            raise bad_request(f"'on_missing_gpu' is {rule!r}; it must be one of {allowed}.")
        wait = body.get("gpu_wait_s")
        if wait is not None and not _is_seconds(wait):
            raise bad_request("'gpu_wait_s' must be a number of seconds, 0 or more.")
        snapshot = body.get("snapshot")
        if snapshot is not None and not isinstance(snapshot, bool):
            raise bad_request("'snapshot' must be true or false.")
        return cls(rule, None if wait is None else float(wait), accepts_missing(body), snapshot)


@dataclass(frozen=True)
class GcRequest:
    """What to remove from the store beyond what nothing needs; see kernel.checkpoint.sweep."""

    dry_run: bool = False
    older_than_s: float | None = None
    keep: int | None = None

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> GcRequest:
        """Read the body of a request for gc; raises `bad_request`."""
        only(body, "dry_run", "older_than_s", "keep")
        dry_run = body.get("dry_run", False)
        if not isinstance(dry_run, bool):
            raise bad_request("'dry_run' must be true or false.")
        older = body.get("older_than_s")
        if older is not None and not _is_seconds(older):
            raise bad_request("'older_than_s' must be a number of seconds, 0 or more.")
        keep = body.get("keep")
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise bad_request("'keep' must be a whole number, 1 or more.")
        return cls(dry_run, None if older is None else float(older), keep)


def _is_seconds(value: object) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value >= 0
    )

"""The failures of an API server as it words them: `Status` objects. Knows nothing of HTTP."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class Refused(Exception):  # noqa: N818
    """A request that gets a `Status` of failure: `code`, `reason` (a CamelCase word), `message`."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        self.code, self.reason, self.message, self.details = code, reason, message, details
        super().__init__(f"{code} {reason}: {message}")

    def to_json(self) -> Json:
        """As it is sent."""
        found: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            found["details"] = self.details
        return found


def not_found(resource: str, name: str) -> Refused:
    return Refused(404, "NotFound", f'{resource} "{name}" not found', name=name)


def no_such_path() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource")


def exists_already(resource: str, name: str) -> Refused:
    return Refused(409, "AlreadyExists", f'{resource} "{name}" already exists', name=name)


def conflict(resource: str, name: str, why: str = "") -> Refused:
    why = why or (
        "the object has been modified; please apply your changes to the latest version and try "
        "again"
    )
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return Refused(409, "Conflict", message, name=name)


def invalid(kind: str, name: str, causes: list[str]) -> Refused:
    text = causes[0] if len(causes) == 1 else "[" + ", ".join(causes) + "]"
    return Refused(422, "Invalid", f'{kind} "{name}" is invalid: {text}', name=name)


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def expired(message: str) -> Refused:
    return Refused(410, "Expired", message)

"""The operations of this server by id: those that run and the last ones that ended."""

from __future__ import annotations

from collections import OrderedDict

from ..errors import GkewsError
from .run import Run

#: So many ended operations are remembered.
KEPT = 100


class OperationBook:
    """Finds operations by id; bounded."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def add(self, run: Run) -> None:
        """Remember `run`; the oldest ended ones beyond KEPT are forgotten."""
        self._runs[run.operation.id] = run
        ended = [i for i, r in self._runs.items() if r.operation.finished is not None]
        for identifier in ended[: max(0, len(ended) - KEPT)]:
            del self._runs[identifier]

    def get(self, operation: str) -> Run:
        """The run of an operation; raises `operation_not_found`."""
        try:
            return self._runs[operation]
        except KeyError:
            raise GkewsError(
                "operation_not_found",
                f"There is no operation {operation!r}.",
                f"Only the running and the last {KEPT} ended ones are remembered; "
                "the kernel's state is in the status.",
            ) from None

    def running(self) -> list[Run]:
        """The runs that have not ended."""
        return [r for r in list(self._runs.values()) if r.operation.finished is None]

    def cancel(self, operation: str) -> Run:
        """Ask an operation to stop; raises `operation_not_found` or `not_cancellable`."""
        run = self.get(operation)
        if not run.operation.cancellable:
            done = run.operation.finished is not None
            raise GkewsError(
                "not_cancellable",
                "The operation has ended already."
                if done
                else f"In the phase '{run.operation.phase}' the operation cannot be cancelled.",
                "Its result stands; the kernel's state is in the status."
                if done
                else "It ends by itself in a moment.",
            )
        run.stop(
            GkewsError(
                "cancelled",
                f"The {run.operation.kind} was cancelled.",
                run.operation.as_before,
            )
        )
        return run

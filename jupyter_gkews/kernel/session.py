"""The kernel side of one launch: answers the server's requests, restores before the first message.

Hooks into ipykernel (6.29 and newer) without subclassing it and does nothing while cells run.
Never writes to the user's namespace except through a restore.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable

from ..errors import GkewsError
from . import pure_python, resume_hooks
from .cells import CellIndex
from .checkpoint import library_state, safetensors_files
from .checkpoint.open_files import flush_open_files
from .history import history_extras
from .protocol import (
    ACTION_CANCEL,
    ACTION_CHECKPOINT,
    ACTION_MAP_STORED,
    ACTION_PING,
    ACTION_PREFLIGHT,
    ACTION_RELEASE,
    ACTION_RESUMED,
    ACTION_SURVIVES,
    EVENT_TOPIC,
    HELLO_FILE,
    LAUNCH_FILE,
    MSG_EVENT,
    MSG_REPLY,
    MSG_REQUEST,
    PROGRESS_FILE,
    CheckpointOrder,
    Hello,
    Launch,
    Progress,
    Restored,
    RestoreOrder,
    read_json,
    write_json,
)
from .saves import Captured, Saves, Wanted

if TYPE_CHECKING:
    from .checkpoint.writing import Placed

#: Seconds that a kernel holds at most: a server that has neither stopped nor released it by then
#: never will, and the user's kernel must not hang for it. A pause of the workspace holds longest:
#: while the other kernels write their checkpoints, and then up to 20 minutes for the snapshot of
#: the pod (engines/workspaces/pausing.py). A cell that ran meanwhile would be in no checkpoint.
HOLD_LIMIT_S = 3600.0
#: Seconds between two writes of progress.json.
PROGRESS_INTERVAL_S = 0.2


class KernelSession:
    """What the kernel side knows and does in one launch of an ipykernel."""

    def __init__(self, shell: Any, run_dir: Path, launch: Launch) -> None:
        self.shell = shell
        self.kernel = shell.kernel
        self.run_dir = run_dir
        self.launch = launch
        self.resumed: Restored | None = None
        """How this launch's restore ended, if it had one."""
        self.restored: resume_hooks.Resumed | None = None
        """The last time that this very process was restored from a process snapshot."""
        self.saves = Saves(self)
        self._cells = CellIndex()
        self._running_cells = 0
        self._holding: str | None = None
        self._cancelled: set[str] = set()
        self._released = threading.Event()
        self._placed: list[Placed] = []  # what the checkpoint that it holds for has stored
        self._seen: frozenset[str] = frozenset()  # mapped chunks, for the preflight that follows
        self._progress_step, self._progress_at = "", 0.0

    def install(self) -> None:
        """Register the handlers and wrap `kernel.start`."""
        kernel = self.kernel
        kernel.shell_handlers[MSG_REQUEST] = self.handle_shell
        kernel.control_handlers[MSG_REQUEST] = self.handle_control
        self.shell.events.register("pre_execute", self._cell_begins)
        self.shell.events.register("post_execute", self._cell_ended)
        self.shell.events.register("pre_run_cell", resume_hooks.show_untold)
        if self.shell.has_trait("enable_tip"):
            # IPython picks the tip in its banner with the user's own `random`, each time that a
            # client asks for kernel_info, as ours do: what was seeded would be moved by a pause.
            self.shell.enable_tip = False
        start: Callable[[], None] = kernel.start

        def start_and_restore() -> None:
            # The channels are read from here on: control answers while the main thread restores,
            # and the shell messages wait for it.
            start()
            self._say_hello()
            if self.launch.restore is not None:
                from .loading import load

                load(self, self.launch.restore)

        kernel.start = start_and_restore

    def _cell_begins(self) -> None:
        library_state.apply_in_context()
        self._running_cells += 1

    def _cell_ended(self) -> None:
        self._running_cells = max(0, self._running_cells - 1)

    def _say_hello(self) -> None:
        import IPython
        from ipykernel._version import __version__ as ipykernel_version

        hello = Hello(
            launch=self.launch.launch,
            pid=os.getpid(),
            python=platform.python_version(),
            executable=sys.executable,
            prefix=sys.prefix,
            ipykernel=ipykernel_version,
            ipython=IPython.__version__,
            hash="blake3" if importlib.util.find_spec("blake3") else "blake2b",
            time=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            session=self.kernel.session.session,
        )
        write_json(self.run_dir / HELLO_FILE, hello)

    # -- requests ---------------------------------------------------------------------------

    def handle_shell(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """A MSG_REQUEST on the shell channel: runs on the main thread, between cells."""
        content = parent["content"]
        holding: str | None = None
        library_state.apply_in_context()
        try:
            if content.get("action") == ACTION_CHECKPOINT:
                order = CheckpointOrder(**{k: v for k, v in content.items() if k != "action"})
                reply = self._checkpoint_for(order)
                holding = order.operation if order.hold else None
            elif content.get("action") == ACTION_SURVIVES:
                reply = {"status": "ok", "survives": self.survives()}
            elif content.get("action") == ACTION_PING:
                reply = {"status": "ok", "busy": False, "holding": self._holding}
            elif content.get("action") == ACTION_RESUMED:
                told = resume_hooks.Resumed.from_message(content)
                if told.provenance == "restored":
                    self.restored = told
                reply = {"status": "ok", "hooks": resume_hooks.run_hooks(told)}
            else:
                raise GkewsError(
                    "bad_request", f"Unknown action {content.get('action')!r}.", _AS_IT_WAS
                )
        except GkewsError as error:
            reply = {"status": "error", **error.to_json()}
        except KeyboardInterrupt:
            cancelled = GkewsError("cancelled", "It was interrupted.", _AS_IT_WAS)
            reply = {"status": "error", **cancelled.to_json()}
        except Exception as error:
            internal = GkewsError("internal", f"{type(error).__name__}: {error}", _AS_IT_WAS)
            reply = {"status": "error", **internal.to_json()}
        if holding:
            # Set before the reply, so that a release which answers it cannot come too early.
            self._released.clear()
            self._holding = holding
        self._reply(stream, ident, parent, reply)
        if holding:
            self._hold()
            self._placed = []

    def handle_control(self, stream: Any, ident: Any, parent: dict[str, Any]) -> None:
        """A MSG_REQUEST on the control channel: runs on the control thread, at once."""
        content = parent["content"]
        action, operation = content.get("action"), content.get("operation")
        reply: dict[str, Any] = {"status": "ok"}
        if action == ACTION_PING:
            reply.update(busy=self.busy, holding=self._holding)
        elif action == ACTION_CANCEL:
            self._cancelled.add(str(operation))
        elif action == ACTION_PREFLIGHT:
            from .holdings import holdings
            from .mapped_files import gone
            from .preflight import objections

            held = holdings(self.shell.user_ns)
            seen, self._seen = self._seen, frozenset()
            reply.update(objections=[*objections(), *gone(seen)], **held)
        elif action == ACTION_MAP_STORED:
            try:
                reply.update(self._map_stored())
            except Exception as failure:
                internal = GkewsError(
                    "internal", f"{type(failure).__name__}: {failure}", _AS_IT_WAS
                )
                reply = {"status": "error", **internal.to_json()}
        elif action == ACTION_RELEASE:
            if self._holding == operation:
                self._released.set()
        else:
            error = GkewsError("bad_request", f"Unknown action {action!r}.", _AS_IT_WAS)
            reply = {"status": "error", **error.to_json()}
        self._reply(stream, ident, parent, reply)

    def _reply(self, stream: Any, ident: Any, parent: dict[str, Any], content: Any) -> None:
        self.kernel.session.send(stream, MSG_REPLY, content, parent, ident=ident)
        if hasattr(stream, "flush"):
            import zmq

            # ipykernel 6 sends from the loop of the main thread, which is about to hold.
            stream.flush(zmq.POLLOUT)

    @property
    def busy(self) -> bool:
        """Whether a cell (or another shell request) is running."""
        lock = getattr(self.kernel, "_main_asyncio_lock", None)  # ipykernel 7
        return self._running_cells > 0 or (lock is not None and lock.locked())

    def _hold(self) -> None:
        """Let nothing run between the checkpoint and the end of the process."""
        deadline = time.monotonic() + HOLD_LIMIT_S
        while not self._released.is_set() and time.monotonic() < deadline:
            # An interrupt is for a cell, and none is running.
            with contextlib.suppress(KeyboardInterrupt):
                self._released.wait(max(0.0, deadline - time.monotonic()))
        self._holding = None

    def send_event(self, event: dict[str, Any], parent: Any = None) -> None:
        """Tell the server something (protocol: EVENT_...), on iopub; from any thread."""
        self.kernel.session.send(
            self.kernel.iopub_socket,
            MSG_EVENT,
            event,
            parent=parent or self.kernel.get_parent("shell"),
            ident=EVENT_TOPIC,
        )

    # -- checkpoint and survives ------------------------------------------------------------

    def _checkpoint_for(self, order: CheckpointOrder) -> dict[str, Any]:
        """The reply to `order`: with the summary, or with what is captured and being written."""
        wanted = Wanted(
            order.operation,
            order.checkpoint,
            order.name,
            order.notebook,
            order.prove,
            order.compress,
        )
        if order.background and not order.hold:
            outcome = self.saves.begin(wanted)
            if isinstance(outcome, Captured):
                return {"status": "ok", "captured": asdict(outcome)}
            self.forget_cancelled(order.operation)
            return {"status": "ok", "checkpoint": outcome}
        placed: list[Placed] = []
        if order.hold and self.launch.in_place:
            from .checkpoint import in_place  # noqa: F401  # what follows is to be quick
        try:
            summary = self.saves.take(wanted, placed=placed if order.hold else None)
        finally:
            self.forget_cancelled(order.operation)
        self._placed = placed
        if order.hold:
            flush_open_files()
        return {"status": "ok", "checkpoint": summary, "vram": held_vram()}

    def _map_stored(self) -> dict[str, Any]:
        """On the control thread, while the main one holds."""
        from .checkpoint import in_place, zygote
        from .checkpoint.store import CheckpointStore
        from .mapped_files import names

        zygote.end()  # half of an image would be what it has imported; the next save makes another
        store = CheckpointStore(Path(self.launch.store))
        placed = self._placed if self._holding else []
        mapped, self._seen = in_place.rest_on_store(store, placed)
        return {"mapped": asdict(mapped), "files": names()}

    def is_cancelled(self, operation: str) -> Callable[[], bool]:
        """Asks whether the server has cancelled the checkpoint of `operation`."""
        return lambda: operation in self._cancelled

    def forget_cancelled(self, operation: str) -> None:
        """It has ended."""
        self._cancelled.discard(operation)

    def subject(self, checkpoint: str, name: str | None, notebook: str | None) -> dict[str, Any]:
        """What `save` is told to save now."""
        return {
            "user_ns": self.shell.user_ns,
            "checkpoint": checkpoint,
            "name": name,
            "kernel": {"id": self.launch.kernel, "name": self.launch.kernel_name},
            "notebook": notebook or self.launch.notebook or os.environ.get("JPY_SESSION_NAME"),
            "hidden": self.hidden_names(),
            "extras": self._extras(),
            "cell_of": self.cell_of,
        }

    def survives(self) -> dict[str, Any]:
        """What a checkpoint taken now would keep: {"variables", "process", "bytes"}."""
        from .checkpoint.fates import survives
        from .checkpoint.store import CheckpointStore

        return survives(
            self.shell.user_ns,
            CheckpointStore(Path(self.launch.store)),
            hidden=self.hidden_names(),
            extras=self._extras(),
            cell_of=self.cell_of,
            reference_files=self.launch.reference_files,
            in_place=self.launch.in_place,
        )

    def _extras(self) -> dict[str, Any]:
        """What goes into a checkpoint besides the namespace."""
        hooks = resume_hooks.hooks_to_keep()
        return {**history_extras(self.shell), **({"on_resume": hooks} if hooks else {})}

    def hidden_names(self) -> frozenset[str]:
        """The names in the namespace that IPython put there and the user has not bound anew."""
        user_ns, hidden = self.shell.user_ns, self.shell.user_ns_hidden
        untouched = [n for n, value in hidden.items() if n in user_ns and user_ns[n] is value]
        own = _MODULE_NAMES.intersection(user_ns)
        if user_ns.get("__name__") != "__main__":  # a cell has set it
            own -= {"__name__"}
        return frozenset(untouched) | own

    def cell_of(self, name: str) -> int | None:
        """The number of the last cell that bound `name`, or None."""
        history: Sequence[str] = self.shell.history_manager.input_hist_parsed
        return self._cells.cell_of(name, history)

    def tell_progress(self, operation: str, step: str, done: int, total: int) -> None:
        """Say in progress.json where an operation is; now and then."""
        now = time.monotonic()
        if step != self._progress_step or now - self._progress_at >= PROGRESS_INTERVAL_S:
            self._progress_step, self._progress_at = step, now
            with contextlib.suppress(OSError):  # a full disk must not end what it reports on
                write_json(self.run_dir / PROGRESS_FILE, Progress(operation, step, done, total))


_AS_IT_WAS = "The kernel and its variables are as they were."

#: Names that every module has; hidden even where IPython is told not to hide the initial ones.
_MODULE_NAMES = frozenset(
    ("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtin__", "__builtins__")
)


def held_vram() -> int:
    """Bytes that torch's allocator holds on GPUs (less than the process does: its context is
    not counted); 0 without torch. For servers that cannot ask the driver.
    """
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return 0
        count = torch.cuda.device_count()
        return sum(int(torch.cuda.memory_reserved(index)) for index in range(count))
    except Exception:  # a torch without CUDA, or a broken one: this number is no reason to fail
        return 0


def start(run_dir: str) -> KernelSession | None:
    """Install the kernel side for the launch described in `run_dir`, and the magics.

    None where there is no ipykernel or no launch. Called by startup.py.
    """
    from IPython import get_ipython

    shell = get_ipython()
    data = read_json(Path(run_dir) / LAUNCH_FILE)
    if data is None or not hasattr(shell, "kernel"):
        return None
    order = data.pop("restore", None)
    known = {key: data[key] for key in Launch.__dataclass_fields__ if key in data}
    launch = Launch(**known, restore=RestoreOrder(**order) if order else None)
    pure_python.install(launch.python_path)
    from .checkpoint import start_state, zygote  # what they import may come by python_path
    from .magics import GkewsMagics

    zygote.FOLDER = run_dir
    session = KernelSession(shell, Path(run_dir), launch)
    session.install()
    shell.register_magics(GkewsMagics(shell, session))
    safetensors_files.watch()
    start_state.note_start(shell)
    return session

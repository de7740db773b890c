"""The kernels of the running server as `lifecycle` sees them, and our hooks on their manager.

Wraps methods on the manager's instance, so that it works under a user's own manager class.
Decides nothing: who is told what happens with it, does. What only kernels need is imported with
the first kernel, not at the server's start.
"""

from __future__ import annotations

import logging
import os
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jupyter_client.kernelspec import NoSuchKernel
from jupyter_core.utils import ensure_async
from jupyter_server._tz import utcnow
from jupyter_server.utils import ApiPath, to_os_path

from . import kernel_environment
from .errors import GkewsError
from .kernel.protocol import MSG_EVENT, MSG_REPLY, MSG_REQUEST
from .launching import LaunchSettings, PausedProcess
from .lifecycle.interfaces import KernelFacts

if TYPE_CHECKING:
    from .kernel_client import KernelClient
    from .provisioning import PausableProvisioner

#: Messages that are not the user's activity.
OURS = (MSG_REQUEST, MSG_REPLY, MSG_EVENT)


class RunningKernels:
    """The MappingKernelManager and the SessionManager of one server."""

    def __init__(
        self,
        kernels: Any,
        sessions: Any,
        contents: Any,
        launch: LaunchSettings,
        log: logging.Logger,
    ) -> None:
        self._kernels, self._sessions, self._contents = kernels, sessions, contents
        self._launch = launch
        self._log = log
        self.root = Path(os.path.realpath(os.path.expanduser(kernels.root_dir)))

    # -- hooks -----------------------------------------------------------------------------

    def watch(
        self,
        *,
        first: Callable[[], None],
        came: Callable[[str], None],
        went: Callable[[str], None],
        may_cull: Callable[[str], bool],
    ) -> None:
        """Tell of kernels that come and go, and keep the culler from those it may not touch.

        `first` is called once, just before the first kernel starts.
        """
        manager = self._kernels
        untold = [first]
        start, remove, cull = (
            manager.start_kernel,
            manager.remove_kernel,
            manager.cull_kernel_if_idle,
        )

        async def start_kernel(*args: Any, **kwargs: Any) -> str:
            while untold:
                untold.pop()()
            kernel_id = cast("str", await ensure_async(start(*args, **kwargs)))
            came(kernel_id)
            return kernel_id

        def remove_kernel(kernel_id: str, *args: Any, **kwargs: Any) -> Any:
            removed = remove(kernel_id, *args, **kwargs)
            went(kernel_id)
            return removed

        async def cull_kernel_if_idle(kernel_id: str) -> None:
            if may_cull(kernel_id):
                await ensure_async(cull(kernel_id))

        manager.start_kernel = start_kernel
        manager.remove_kernel = remove_kernel
        manager.cull_kernel_if_idle = cull_kernel_if_idle
        manager.gkews_launch = self._launch
        manager.untracked_message_types = [*manager.untracked_message_types, *OURS]

    def hold_lists_until(self, ready: Callable[[], Any]) -> Callable[[], None]:
        """Let nobody see the sessions, and which kernels there are, before `ready()` was awaited;
        call the result to end it.

        Without this a browser that reloads while the server starts would find no session for a
        paused notebook, and start a fresh kernel; a page that was left open would take its kernel
        for one that was shut down.
        """
        held_back = [
            (self._sessions, "list_sessions"),
            (self._sessions, "session_exists"),
            (self._kernels, "list_kernels"),
        ]

        def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
            async def held(*args: Any, **kwargs: Any) -> Any:
                await ready()
                return await ensure_async(original(*args, **kwargs))

            return held

        for manager, name in held_back:
            setattr(manager, name, wrap(getattr(manager, name)))

        def end() -> None:
            for manager, name in held_back:
                delattr(manager, name)

        return end

    # -- what is there -----------------------------------------------------------------------

    def ids(self) -> list[str]:
        """The ids of all kernels, paused ones too."""
        return list(self._kernels.list_kernel_ids())

    def __contains__(self, kernel_id: str) -> bool:
        return kernel_id in self._kernels

    def facts(self, kernel_id: str) -> KernelFacts:
        """What the server knows of a kernel; raises `kernel_not_found`."""
        km = self._manager_of(kernel_id)
        try:
            spec = km.kernel_spec
            display_name, language = spec.display_name, spec.language
        except (NoSuchKernel, AttributeError):  # uninstalled meanwhile, or a gateway's
            display_name, language = km.kernel_name, ""
        path = self._path_of(kernel_id)
        return KernelFacts(
            id=kernel_id,
            name=km.kernel_name,
            display_name=display_name or km.kernel_name,
            language=language or "",
            path=path,
            notebook=self._on_disk(path),
            execution_state=getattr(km, "execution_state", None) or "unknown",
            ram=self._ram(kernel_id),
        )

    def notebook_of(self, kernel_id: str) -> str | None:
        """The absolute path of the notebook of a kernel's session."""
        return self._on_disk(self._path_of(kernel_id))

    def _on_disk(self, path: str | None) -> str | None:
        return to_os_path(ApiPath(path), str(self.root)) if path else None

    def _path_of(self, kernel_id: str) -> str | None:
        try:
            _ = self._sessions.cursor  # makes the table
            row = self._sessions.connection.execute(
                "SELECT path FROM session WHERE kernel_id = ? AND type = 'notebook'", (kernel_id,)
            ).fetchone()
        except AttributeError:  # a session manager that is not built on the stock one
            return None
        return row["path"] if row else None

    def process(self, kernel_id: str) -> PausableProvisioner | None:
        """The provisioner of a kernel, where it is ours."""
        from .provisioning import PausableProvisioner

        provisioner = getattr(self._manager_of(kernel_id), "provisioner", None)
        return provisioner if isinstance(provisioner, PausableProvisioner) else None

    def talk(self, kernel_id: str) -> KernelClient:
        """A client of a kernel whose provisioner is ours."""
        from .kernel_client import KernelClient

        provisioner = self.process(kernel_id)
        if provisioner is None:
            raise GkewsError(
                "not_pausable",
                "The kernel's provisioner is not ours.",
                "It goes on running; its kernelspec names another provisioner.",
            )
        return KernelClient(self._manager_of(kernel_id), provisioner)

    def _ram(self, kernel_id: str) -> int | None:
        provisioner = self.process(kernel_id)
        if provisioner is None or provisioner.phase == "paused" or provisioner.hello is None:
            return None
        return provisioner.resident()

    def _manager_of(self, kernel_id: str) -> Any:
        try:
            return self._kernels._kernels[kernel_id]
        except KeyError:
            raise GkewsError(
                "kernel_not_found",
                f"There is no kernel {kernel_id!r} on this server.",
                "If it was paused, its checkpoint is in the list of checkpoints.",
            ) from None

    def has_kernelspec(self, name: str) -> bool:
        """Whether a kernelspec of this name is installed."""
        try:
            return self._kernels.kernel_spec_manager.get_kernel_spec(name) is not None
        except NoSuchKernel:
            return False

    async def environment(self, kernel_name: str, kernel_id: str | None) -> dict[str, Any] | None:
        """What the Python of a kernel (or of a kernelspec) has installed."""
        try:
            spec = self._kernels.kernel_spec_manager.get_kernel_spec(kernel_name)
        except NoSuchKernel:
            return None
        like = [kernel_id] if kernel_id is not None else self.ids()
        hellos = [
            process.hello
            for each in like
            if each in self and self.facts(each).name == kernel_name
            and (process := self.process(each)) is not None and process.hello is not None
        ]  # fmt: skip
        python = hellos[0].executable if hellos else kernel_environment.interpreter(spec.argv)
        return None if python is None else await kernel_environment.ask(python, spec.env)

    def api_path(self, notebook: str) -> str | None:
        """The path of a notebook file relative to the root; None if it lies outside or is gone."""
        path = Path(os.path.realpath(notebook))
        if not path.is_file() or not path.is_relative_to(self.root):
            return None
        return path.relative_to(self.root).as_posix()

    async def has_session(self, path: str) -> bool:
        """Whether a notebook has a kernel already."""
        # the class's own: on the instance it may be held until the adoption, which asks this, ends
        return bool(await ensure_async(type(self._sessions).session_exists(self._sessions, path)))

    # -- what can be done --------------------------------------------------------------------

    async def interrupt(self, kernel_id: str) -> None:
        """Interrupt the running cell."""
        await ensure_async(self._manager_of(kernel_id).interrupt_kernel())

    async def start_paused(
        self, kernel_id: str, kernel_name: str, path: str | None, kernel_info: dict[str, Any] | None
    ) -> None:
        """Register a kernel whose process is not started."""
        kwargs: dict[str, Any] = {}
        if path is not None:
            name = posixpath.basename(path)
            kwargs["path"] = await ensure_async(self._contents.get_kernel_path(path=path))
            if hasattr(self._sessions, "get_kernel_env"):
                kwargs["env"] = self._sessions.get_kernel_env(path, name)
        self._launch.born_paused[kernel_id] = PausedProcess(kernel_info=kernel_info or {})
        try:
            await self._kernels.start_kernel(kernel_id=kernel_id, kernel_name=kernel_name, **kwargs)
        finally:
            self._launch.born_paused.pop(kernel_id, None)
        km = self._manager_of(kernel_id)
        km.execution_state = "idle"
        km.last_activity = utcnow()

    async def give_session(self, kernel_id: str, path: str) -> str | None:
        """Make the kernel the one of this notebook; the id of the one it had, which runs on."""
        sessions = self._sessions
        if await self.has_session(path):
            session = await ensure_async(sessions.get_session(path=path))
            before = str(session["kernel"]["id"])
            await ensure_async(sessions.update_session(session["id"], kernel_id=kernel_id))
            return before
        await ensure_async(
            sessions.create_session(
                path=path,
                name=posixpath.basename(path),
                type="notebook",
                kernel_name=self._manager_of(kernel_id).kernel_name,
                kernel_id=kernel_id,
            )
        )
        return None

    async def discard(self, kernel_id: str) -> None:
        """Take a kernel without a process off the list."""
        await ensure_async(self._kernels.shutdown_kernel(kernel_id, now=True))

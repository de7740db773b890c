"""The server extension: its configuration, and the wiring of the pieces.

Imports nothing heavy: a server start must not get noticeably longer by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.paths import jupyter_data_dir, jupyter_runtime_dir
from jupyter_events.schema_registry import SchemaRegistryException
from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp
from traitlets import Bool, Enum, Float, Integer, Unicode, default

from . import freezable_server, server_hooks
from .engines.pod_account import ACCOUNT
from .engines.registry import engines_of, workspace_engine
from .engines.restore_signs import Place
from .events import LIFECYCLE_SCHEMA, LIFECYCLE_SCHEMA_ID
from .handlers import routes
from .journal.pauses import WorkspacePauses
from .launching import LaunchSettings, sandbox_sockets
from .lifecycle.announcer import Announcer
from .lifecycle.context import Context, Settings
from .lifecycle.records import PausedRecords
from .lifecycle.recovery import WAYS as RECOVERY_WAYS
from .lifecycle.recovery import Recoveries
from .lifecycle.service import ADOPTION_TIMEOUT_S, Lifecycle
from .running import RunningKernels
from .sandbox_kernelspecs import WhyNoSandbox, say_why_not
from .settings_language import translate_settings
from .store_at_first_use import StoreAtFirstUse
from .workspace_handlers import workspace_routes

if TYPE_CHECKING:
    from .engines.base import WorkspaceEngine
    from .engines.restore_signs import RestoreSigns
    from .sandboxed_server import SandboxedServer


class GkewsApp(ExtensionApp):
    """Pause and resume kernels."""

    name = "jupyter_gkews"
    load_other_extensions = True

    store_dir = Unicode(
        help="""Folder of the checkpoint store. Default: `gkews` in the Jupyter data directory.
        It holds as much as the paused kernels do, and the key that signs checkpoints: it belongs
        on a disk that is kept, and to one user alone."""
    ).tag(config=True)
    auto_resume = Bool(
        True,
        help="""Whether running a cell in a paused notebook resumes the kernel first. Each kernel
        can be told otherwise.""",
    ).tag(config=True)
    adopt_paused = Bool(
        True,
        help="""Whether a starting server takes over the kernels that a previous server, which is
        gone, had paused for notebooks below this server's root. They stay paused. If not, their
        checkpoints are still listed.""",
    ).tag(config=True)
    idle_timeout = Float(
        None,
        allow_none=True,
        min=0.0,
        help="""Seconds that a pause waits for the running cell to end, where the request says
        nothing. None waits until it ends or the pause is cancelled.""",
    ).tag(config=True)
    answer_timeout = Float(
        30.0,
        min=0.1,
        help="""Seconds that an idle kernel may take to say what survives, or to answer after a
        resume. Default: 30.""",
    ).tag(config=True)
    on_missing_gpu = Enum(
        ("cpu", "wait", "fail"),
        default_value="cpu",
        help="""What becomes of tensors on a GPU where the resumed kernel finds none, or none with
        room for them: `cpu` rebuilds them in memory and says so, `wait` waits for one, `fail`
        refuses the resume and leaves the kernel paused. A resume request can say otherwise.""",
    ).tag(config=True)
    gpu_wait_timeout = Float(
        600.0,
        min=0.0,
        help="""Seconds that a resume with `on_missing_gpu` `wait` waits; then it is given up and
        the kernel stays paused. Default: 600.""",
    ).tag(config=True)
    verify = Enum(
        ("fast", "full"),
        default_value="fast",
        help="""How the bytes of a checkpoint are checked before use: `fast` by the xxh3 hash of
        each chunk, `full` by its BLAKE3 name as well.""",
    ).tag(config=True)
    prove = Enum(
        ("scratch", "read-back", "off"),
        default_value="scratch",
        help="""How a checkpoint is proved before it counts, and before a process is stopped for
        it: `scratch` loads it in another process and compares, `read-back` reads its bytes from
        the disk again and compares their hashes, `off` does neither. Where memory is short,
        `scratch` comes to `read-back`, and each checkpoint says how it was proved.""",
    ).tag(config=True)
    compress = Enum(
        ("none", "zstd"),
        default_value="none",
        help="""Whether the objects of a checkpoint that are no arrays or tensors are compressed:
        `zstd`, or `none`. In a kernel whose environment has no zstd, gzip is used, and each
        checkpoint says so. Arrays and tensors never are: they are mapped as they lie on the
        disk.""",
    ).tag(config=True)
    reference_files = Bool(
        True,
        help="""Whether a checkpoint refers to weights that the kernel has loaded from safetensors
        files, instead of holding a copy. Off, everything is copied, and the files may go. Files in
        folders for temporary files are always copied.""",
    ).tag(config=True)
    keep_checkpoints = Integer(
        3,
        min=1,
        help="""How many checkpoints without a name are kept of one kernel. Older ones are deleted
        after a later one succeeded; named ones and those of paused kernels never are.""",
    ).tag(config=True)
    delete_after = Float(
        None,
        allow_none=True,
        min=0.0,
        help="""Days after which a checkpoint without a name is deleted. None, the default, never
        deletes one for its age. Looked at when the server starts and after each pause; those of
        paused kernels are always kept.""",
    ).tag(config=True)
    checkpoint_in_background = Bool(
        True,
        help="""Whether a kernel goes on working while its checkpoint is written, where that is
        safe (Linux, no GPU in use, enough free memory). If not, it waits until the checkpoint is
        written. A pause always waits.""",
    ).tag(config=True)
    recover = Enum(
        RECOVERY_WAYS,
        default_value="ask",
        help="""What becomes of the kernels of a workspace that was paused and has come back without
        its memory: `ask` shows them paused, with the checkpoints of that pause, to be resumed one
        by one; `automatic` resumes them, one after another, when the server starts; `never` starts
        without them, and their checkpoints are still listed.""",
    ).tag(config=True)
    prepare_for_snapshots = Enum(
        freezable_server.WAYS,
        default_value="auto",
        help="""Whether this server is prepared for being frozen whole with its kernels: its loop
        polls, and kernels speak over unix sockets, unless `KernelManager.transport` says otherwise.
        `auto` does so in a pod that runs in gVisor and in `jupyter gkews sandbox`, `always` and
        `never` anywhere.""",
    ).tag(config=True)
    service_account_dir = Unicode(
        str(ACCOUNT),
        help="""Where the service account of the pod is mounted, in a server that lives in a GKE or
        Kubeflow workspace. Looked at when the workspace is first asked for, and for the
        signs of a restore.""",
    ).tag(config=True)
    workspace_timeout = Float(
        None,
        allow_none=True,
        min=0.0,
        help="""Seconds after which a pause of the whole workspace that has not come to its end is
        called off. None: a minute and 20 s for each GiB in memory, between 3 and 20 minutes.""",
    ).tag(config=True)
    stop_timeout = Float(
        10.0,
        min=0.0,
        help="""Seconds that a stopping server waits for running operations; those that can be
        cancelled are cancelled at once. Default: 10.""",
    ).tag(config=True)

    serverapp: ServerApp
    log: logging.Logger
    _sandboxed: SandboxedServer | None = None
    _signs: RestoreSigns | None = None
    _may_be_frozen = False

    @default("store_dir")
    def _default_store_dir(self) -> str:
        return str(Path(jupyter_data_dir()) / "gkews")

    def initialize_settings(self) -> None:
        """Build the pieces and hook them into the server."""
        server = self.serverapp
        store = StoreAtFirstUse(Path(self.store_dir).expanduser().absolute())
        launch = LaunchSettings(
            store=store.root,
            runtime=Path(jupyter_runtime_dir()) / "gkews",
            prove=self.prove,
            compress=self.compress,
            reference_files=self.reference_files,
        )
        kernels = RunningKernels(
            server.kernel_manager, server.session_manager, server.contents_manager, launch, self.log
        )
        launch.notebook_of = kernels.notebook_of
        launch.background = self.checkpoint_in_background
        launch.folders.append(str(kernels.root))
        self.kernels = kernels
        context = Context(
            kernels=kernels,
            store=store,
            records=PausedRecords(store.root),
            settings=Settings(
                auto_resume=self.auto_resume,
                idle_timeout_s=self.idle_timeout,
                answer_timeout_s=self.answer_timeout,
                on_missing_gpu=self.on_missing_gpu,
                gpu_wait_s=self.gpu_wait_timeout,
                verify=self.verify,
                prove=self.prove,
                compress=self.compress,
                keep_checkpoints=self.keep_checkpoints,
                delete_after_s=self.delete_after and self.delete_after * 86400,
                checkpoint_in_background=self.checkpoint_in_background,
            ),
            announcer=Announcer(self._emit, kernels, self.log),
            log=self.log,
            engines=engines_of(store.root, kernels.process),
            workspace_engine=self._workspace_engine,
            base_url=server.base_url,
        )
        self.lifecycle = Lifecycle(context)
        kernels.watch(
            first=partial(server_hooks.start_kernels_pausable, server, self.log),
            came=self.lifecycle.roster.attach,
            went=self.lifecycle.roster.detach,
            may_cull=self.lifecycle.is_settled,
        )
        # in the loop, which runs it before the first request: the start need not wait for it
        server.io_loop.add_callback(self._register_events)
        translate_settings(self.log)
        server_hooks.count_paused_as_idle(server, self.lifecycle, self.log)
        self._find_recoveries(context)
        self._adopt_soon()
        self._be_freezable(launch, context)
        say_why_not(server.kernel_spec_manager, WhyNoSandbox(store.root))
        server.io_loop.add_callback(self.lifecycle.sweep_soon)

    def initialize_handlers(self) -> None:
        """Add the REST routes."""
        store = Path(self.store_dir).expanduser().absolute()
        self.handlers.extend(workspace_routes(self.lifecycle, timeout_s=self.idle_timeout))
        self.handlers.extend(routes(self.lifecycle, store=store, timeout_s=self.idle_timeout))

    def current_activity(self) -> list[str] | None:
        """The running operations: they keep a server from stopping itself."""
        return [run.operation.id for run in self.lifecycle.book.running()] or None

    async def stop_extension(self) -> None:
        """End what runs, within stop_timeout; paused kernels wait for the next server."""
        await self.lifecycle.stop(self.stop_timeout)
        self.lifecycle.close()
        if self._sandboxed is not None:
            self._sandboxed.close()
        if self._signs is not None:
            self._signs.close()

    def _workspace_engine(self) -> WorkspaceEngine | None:
        from .process_memory import HeldMemory, measure

        def memory() -> HeldMemory:
            return measure([os.getpid()])

        account = Path(self.service_account_dir)
        return workspace_engine(self.serverapp.base_url, account, memory, self.workspace_timeout)

    def _be_freezable(self, launch: LaunchSettings, context: Context) -> None:
        """Where the whole server may be frozen with its kernels: what a snapshot can save, what
        happens after a restore, and answers for whoever runs a sandbox of ours."""
        place = Place(account=Path(self.service_account_dir))
        server: Any = self.serverapp
        prepared = freezable_server.shall_be(self.prepare_for_snapshots, place)
        if prepared:
            freezable_server.prepare(server, launch, self.log)
        if not (prepared or place.in_pod() or place.in_gvisor()):
            return
        from .after_restore import RestoredServer
        from .lifecycle.waking import Waking
        from .volume_files import VolumeFiles

        self._may_be_frozen = True
        files = VolumeFiles(server.web_app, server.contents_manager)
        # in the loop: what is set now is overwritten with a copy that was made before
        server.io_loop.add_callback(files.watch)
        waking = Waking(context, self.lifecycle.roster, RestoredServer(server), files)
        self.lifecycle.waking = waking
        workspace = self.lifecycle.workspace
        waking.also(reconnect=workspace.woke_up, ended=workspace.restored)
        self._signs = freezable_server.watch_for_restores(server, waking.restored, place)
        if (sockets := sandbox_sockets()) is not None:
            from .sandboxed_server import SandboxedServer

            self._sandboxed = SandboxedServer(
                self.lifecycle, server.server_info, self._signs.told, self.log
            )
            server.io_loop.add_callback(self._sandboxed.start, sockets)

    def _find_recoveries(self, context: Context) -> None:
        server: Any = self.serverapp
        self.lifecycle.recoveries = Recoveries(
            context,
            self.recover,
            pauses=WorkspacePauses(context.store.root),
            server={"root": str(context.kernels.root), "base_url": server.base_url},
            resume=self.lifecycle.resume_and_wait,
            tell=self.lifecycle.workspace.tell,
        )
        self.lifecycle.workspace.own_provenance = self.lifecycle.own_provenance

    def _register_events(self) -> None:
        logger = self.serverapp.event_logger
        if logger is not None:
            with contextlib.suppress(SchemaRegistryException):  # registered by an earlier app
                logger.register_event_schema(LIFECYCLE_SCHEMA)

    def _emit(self, data: Any) -> None:
        logger = self.serverapp.event_logger
        if logger is not None:
            logger.emit(schema_id=LIFECYCLE_SCHEMA_ID, data=dict(data))

    def _adopt_soon(self) -> None:
        adopted = self.lifecycle.taken_over = asyncio.Event()
        release = self.kernels.hold_lists_until(
            lambda: asyncio.wait_for(adopted.wait(), ADOPTION_TIMEOUT_S)
        )

        async def adopt() -> None:
            try:
                if self._may_be_frozen and self.lifecycle.recoveries is not None:
                    await asyncio.to_thread(self.lifecycle.recoveries.note_life)
                if self.adopt_paused:
                    await self.lifecycle.adopt()
                await self.lifecycle.recover()
            except Exception:
                self.log.exception("Paused kernels of a previous server could not be taken over")
            finally:
                release()
                adopted.set()

        self.serverapp.io_loop.add_callback(adopt)

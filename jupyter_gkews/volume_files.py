"""Files that pages have open, looked at after a restore: what was changed on the volume meanwhile
is not overwritten by a page that does not know.

Hooks into the contents manager's saves and into the log of requests. Writes no file. JupyterLab
asks before each of its saves how the file is, and lets the user choose: this is for what does not.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from jupyter_server.services.contents.handlers import ContentsHandler
from tornado import web

#: Seconds by which the clock of the volume's server may be behind ours.
CLOCKS_S = 30.0
#: Most files that are remembered; the oldest are forgotten first.
MOST = 2_000


class VolumeFiles:
    """What this server has given out or written, and how it was on the disk then."""

    def __init__(self, web_app: Any, contents: Any) -> None:
        self._web_app, self._contents = web_app, contents
        self._seen: dict[str, Any] = {}  # absolute path -> (modified ns, bytes) | None
        self._stopped = 0.0  # when this server was frozen, by the wall clock
        self._unsure: dict[str, Any] = {}  # of them, as they were before the restore
        self._changed: set[str] = set()  # found to be others, and nobody has asked since

    def watch(self) -> None:
        """Begin to remember. Nothing for contents that do not lie in files."""
        if not hasattr(self._contents, "_get_os_path"):
            return
        self._contents.register_pre_save_hook(self._before_save)
        self._contents.register_post_save_hook(self._after_save)
        settings = self._web_app.settings
        log = settings["log_function"]

        def heard(handler: Any) -> None:
            if isinstance(handler, ContentsHandler):
                self._answered(handler)
            log(handler)

        settings["log_function"] = heard

    def woke_up(self, stopped: float) -> None:
        """From now on what is on the disk may be another file than pages have. `stopped`: when this
        server was frozen, seconds since the epoch."""
        self._stopped = stopped
        self._unsure = dict(self._seen)
        self._changed.clear()

    async def changed(self) -> list[str]:
        """Look at all of them; the absolute paths of those that were changed meanwhile."""

        def look() -> dict[str, bool]:
            unsure = list(self._unsure.items())
            return {path: self._is_another(path, then) for path, then in unsure}

        for path, another in (await asyncio.to_thread(look)).items():
            # unless it was asked for or saved while we looked
            if self._unsure.pop(path, None) is not None and another:
                self._changed.add(path)
        return sorted(self._changed)

    # -- what happens to files ---------------------------------------------------------------

    def _answered(self, handler: Any) -> None:
        if handler.request.method != "GET" or handler.get_status() not in (200, 304):
            return
        path = self._on_disk(handler.path_kwargs.get("path") or "")
        if path is None or os.path.isdir(path):
            return
        # whoever asks how a file is can see that it is another one
        self._forget(path)
        if handler.get_query_argument("content", "1") == "1":
            self._remember(path)

    def _before_save(self, *, path: str, **_: Any) -> None:
        found = self._on_disk(path)
        if found is None:
            return
        then = self._unsure.pop(found, None)
        if then is not None and self._is_another(found, then):
            self._changed.add(found)
        if found in self._changed:
            raise web.HTTPError(
                409,
                f"{path} was changed on the volume while this server was paused. It was not "
                "overwritten: load it again, or save under another name.",
            )

    def _after_save(self, *, os_path: str, **_: Any) -> None:
        self._remember(os_path)

    def _forget(self, path: str) -> None:
        self._unsure.pop(path, None)
        self._changed.discard(path)

    def _remember(self, path: str) -> None:
        self._seen.pop(path, None)
        self._seen[path] = _look(path)
        while len(self._seen) > MOST:
            del self._seen[next(iter(self._seen))]

    def _is_another(self, path: str, then: Any) -> bool:
        """Changed since this server was frozen. A file that is gone is no other one: a save
        overwrites nothing; and what a cell wrote before is as it was then."""
        if _look(path) in (then, None):
            return False
        try:
            return os.stat(path).st_ctime >= self._stopped - CLOCKS_S
        except OSError:
            return False

    def _on_disk(self, path: str) -> str | None:
        try:
            return str(self._contents._get_os_path(path))
        except web.HTTPError:  # outside the root
            return None


def _look(path: str) -> Any:
    try:
        found = os.stat(path)
    except OSError:
        return None
    # not the inode: gVisor numbers files anew when it opens them after a restore
    return found.st_mtime_ns, found.st_size

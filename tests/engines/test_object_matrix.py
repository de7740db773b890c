"""The objects of a process, on real runsc: what goes on after a freeze, and what is refused before.

One sandbox holds them all: a freeze of a hundred objects takes no longer than of one.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel import preflight

from .object_matrix import PREPARE, SURVIVES

#: Seconds for which the sandbox lies frozen: what ticks must have stood still for them.
FROZEN_S = 1.5


async def test_what_lives_in_a_process_goes_on_after_a_freeze(
    sandboxed_kernel: Any, tmp_path: Path
) -> None:
    async with sandboxed_kernel() as kernel:
        assert await kernel.run(PREPARE.format(here=str(kernel.folder))) == ""
        wrong = {}
        for name, (before, _) in SURVIVES.items():
            if said := await kernel.run(before):
                wrong[name] = f"before: {said}"
        assert wrong == {}
        await kernel.sandbox.freeze(tmp_path / "image")
        await asyncio.sleep(FROZEN_S)
        await kernel.sandbox.restore(tmp_path / "image")
        await kernel.run(f"SLEPT, NOW = {FROZEN_S}, {time.time()}")
        for name, (_, after) in SURVIVES.items():
            if said := await kernel.run(after):
                wrong[name] = said
        assert wrong == {}
        await a_file_that_vanished_is_missed_and_put_back(kernel, tmp_path / "second")


async def a_file_that_vanished_is_missed_and_put_back(kernel: Any, image: Path) -> None:
    """An open file that goes while the sandbox lies frozen; back in its place, all is well."""
    note = kernel.folder / "vanishes.txt"
    note.write_text("0123456789")
    await kernel.run(f"vanishing = open({str(note)!r}); vanishing.read(4)")
    await kernel.sandbox.freeze(image)
    note.rename(note.with_suffix(".away"))
    with pytest.raises(GkewsError):
        await kernel.sandbox.restore(image)
    note.with_suffix(".away").rename(note)
    await kernel.sandbox.restore(image, reset=True)
    assert await kernel.run("print(vanishing.read())") == "456789"


LOOK = """
import importlib.util as u
_spec = u.spec_from_file_location('preflight', {file!r}); _pre = u.module_from_spec(_spec)
_spec.loader.exec_module(_pre)
def look(): return [(o['what'], o['reason'], o['hint']) for o in _pre.objections()]
"""
#: what is made -> (how, a word of what is named, how it is undone)
REFUSED = {
    "a deleted file": (
        "_d = open(HERE + '/deleted', 'w'); os.unlink(HERE + '/deleted')",
        "/deleted: it is open, and was deleted",
        "_d.close()",
    ),
    "a file with another in its place": (
        "_r = open(HERE + '/replaced', 'w'); open(HERE + '/other', 'w'); "
        "os.replace(HERE + '/other', HERE + '/replaced')",
        "/replaced: it is open, and was deleted or replaced",
        "_r.close()",
    ),
    "a server of an event loop": (
        "_s = await asyncio.start_server(print, '127.0.0.1', 0)",
        "the server on 127.0.0.1:",
        "_s.close(); await _s.wait_closed()",
    ),
    "a connection of an event loop": (
        "_l = socket.create_server(('127.0.0.1', 0)); "
        "_rw = await asyncio.open_connection(*_l.getsockname())",
        "the connection to 127.0.0.1:",
        "_rw[1].close(); await _rw[1].wait_closed(); _l.close()",
    ),
    "a GPU": (
        "_g = open('/dev/nvidia0', 'w')",
        "/dev/nvidia0: this device is in use",
        "_g.close(); os.unlink('/dev/nvidia0')",
    ),
    "a child with a deleted file": (
        "_f = open(HERE + '/childs', 'w'); _c = subprocess.Popen(['sleep', '1000'], stdout=_f); "
        "_f.close(); os.unlink(HERE + '/childs')",
        "/childs: it is open, and was deleted",
        "_c.kill(); _c.wait()",
    ),
    "a child with an event loop": (
        "_c = subprocess.Popen([sys.executable, '-c', 'import asyncio, sys\\n"
        "async def main():\\n"
        '    s = await asyncio.start_server(print, "127.0.0.1", 0)\\n'
        "    print(flush=True); await s.serve_forever()\\n"
        "asyncio.run(main())'], stdout=subprocess.PIPE); _c.stdout.readline()",
        "a TCP connection of the process python",
        "_c.kill(); _c.wait(); _c.stdout.close()",
    ),
}


async def test_what_a_snapshot_cannot_hold_is_named_before_it_is_tried(
    sandboxed_kernel: Any, tmp_path: Path
) -> None:
    async with sandboxed_kernel() as kernel:
        await kernel.run(PREPARE.format(here=str(kernel.folder)))
        assert await kernel.run(LOOK.format(file=preflight.__file__) + "print(look())") == "[]"
        wrong = {}
        for name, (make, named, undo) in REFUSED.items():
            said = await kernel.run(f"{make}\nfor o in look(): print(o[0] + ': ' + o[1])\n{undo}")
            if named not in said or "\n" in said:
                wrong[name] = said
            if (left := await kernel.run("print(look())")) != "[]":
                wrong[name] = f"after its end: {left}"
        assert wrong == {}
        # and then nothing of it is left that would be in the way
        await kernel.sandbox.freeze(tmp_path / "image")
        await kernel.sandbox.restore(tmp_path / "image")
        assert await kernel.run("print(look())") == "[]"

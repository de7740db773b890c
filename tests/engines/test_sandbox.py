"""A kernel in a sandbox is frozen to disk and goes on as the same process."""

# ruff: noqa: E501

from __future__ import annotations

import asyncio
import os
import signal
import stat
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_gkews.engines.gvisor import guest
from jupyter_gkews.errors import GkewsError

LIVE = """
import os, threading, time, socket, subprocess, tempfile
ticks = []
def tick():
    while True:
        ticks.append(time.monotonic()); time.sleep(0.05)
threading.Thread(target=tick, daemon=True).start()
def count():
    yield from range(100)
numbers = count(); next(numbers)
half = tempfile.TemporaryFile('w+'); half.write('kept'); half.flush()
left, right = socket.socketpair()
child = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(os.getpid())
"""
CHECK = """
half.seek(0); right.send(b'through'); child.stdin.write('echo\\n'); child.stdin.flush()
before = len(ticks)
while len(ticks) == before: time.sleep(0.01)
print(os.getpid(), next(numbers), half.read(), left.recv(7).decode(), child.stdout.readline().strip(), child.poll())
"""


async def test_what_no_checkpoint_can_write_goes_on(sandboxed_kernel: Any, tmp_path: Path) -> None:
    async with sandboxed_kernel() as kernel:
        pid = await kernel.run(LIVE)
        for round_ in range(1, 4):
            image = tmp_path / f"image-{round_}"
            nbytes = await kernel.sandbox.freeze(image)
            assert not kernel.sandbox.running and kernel.sandbox.pids() == set()
            assert nbytes > 1_000_000 and stat.S_IMODE(image.stat().st_mode) == 0o700
            assert {stat.S_IMODE(p.stat().st_mode) for p in image.iterdir()} == {0o600}
            await kernel.sandbox.restore(image)
            assert await kernel.run(CHECK) == f"{pid} {round_} kept through echo None"
            await kernel.run("half.truncate(0); half.seek(0); half.write('kept'); half.flush()")


async def test_a_running_cell_goes_on_and_no_line_is_lost(
    sandboxed_kernel: Any, tmp_path: Path
) -> None:
    async with sandboxed_kernel() as kernel:
        cell = kernel.client.execute("import time\nfor i in range(40): print(i); time.sleep(0.05)")
        reading = asyncio.ensure_future(kernel.output_of(cell))
        for round_ in range(3):
            await asyncio.sleep(0.3)
            await kernel.sandbox.freeze(tmp_path / f"image-{round_}")
            await kernel.sandbox.restore(tmp_path / f"image-{round_}")
        assert (await reading).split() == [str(i) for i in range(40)]


async def test_more_than_a_window_goes_each_way_before_and_after_a_freeze(
    sandboxed_kernel: Any, tmp_path: Path
) -> None:
    big = "x" * (3 * guest.WINDOW)
    async with sandboxed_kernel() as kernel:
        for life in range(2):
            assert await kernel.run(f"sent = {big!r}\nprint(len(sent))") == str(len(big))
            said = await kernel.run(f"for part in range(6): print(sent[:{guest.WINDOW}])")
            assert len(said.replace("\n", "")) == 6 * guest.WINDOW
            for small in range(40):  # each far from what is worth a word of thanks
                assert await kernel.run(f"print({small})") == str(small)
            if not life:
                await kernel.sandbox.freeze(tmp_path / "image")
                await kernel.sandbox.restore(tmp_path / "image")


async def test_an_interrupt_reaches_the_cell(sandboxed_kernel: Any, tmp_path: Path) -> None:
    async with sandboxed_kernel() as kernel:
        cell = kernel.client.execute("print('on', flush=True)\nimport time; time.sleep(60)")
        while (await kernel.client.get_iopub_msg())["msg_type"] != "stream":
            pass
        await kernel.sandbox.freeze(tmp_path / "image")
        await kernel.sandbox.restore(tmp_path / "image")
        kernel.sandbox.send_signal(signal.SIGINT)
        assert (await kernel.output_of(cell)).startswith("KeyboardInterrupt")


async def test_the_end_of_the_kernel_is_told(sandboxed_kernel: Any) -> None:
    async with sandboxed_kernel() as kernel:
        kernel.client.execute("import os; os._exit(7)")
        for _ in range(400):
            if kernel.sandbox.wire.exited is not None:
                break
            await asyncio.sleep(0.05)
        assert kernel.sandbox.wire.exited == 7


async def test_nothing_outside_can_be_reached_from_inside(sandboxed_kernel: Any) -> None:
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with sandboxed_kernel() as kernel:
        said = await kernel.run(
            f"import socket\ntry: socket.create_connection(('127.0.0.1', {port}), 2)\n"
            "except OSError as e: print('no way')"
        )
        assert said == "no way"
    server.close()


async def test_a_restore_of_a_broken_image_says_so_and_keeps_it(
    sandboxed_kernel: Any, tmp_path: Path
) -> None:
    async with sandboxed_kernel() as kernel:
        await kernel.run("x = 5")
        image = tmp_path / "image"
        await kernel.sandbox.freeze(image)
        file = next(image.iterdir())
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(GkewsError, match="cut off or damaged"):
            await kernel.sandbox.restore(image)
        assert file.exists() and kernel.sandbox.pids() == set()
        file.write_bytes(whole)
        await kernel.sandbox.restore(image, reset=True)  # the first try has hung up
        assert await kernel.run("print(x)") == "5"


async def test_edits_made_outside_while_frozen_are_seen_inside(
    sandboxed_kernel: Any, tmp_path: Path
) -> None:
    async with sandboxed_kernel() as kernel:
        note = kernel.folder / "note.txt"
        note.write_text("before")
        assert await kernel.run(f"print(open({str(note)!r}).read())") == "before"
        await kernel.sandbox.freeze(tmp_path / "image")
        note.write_text("edited while it slept")
        (kernel.folder / "new.txt").write_text("new")
        await kernel.sandbox.restore(tmp_path / "image")
        said = await kernel.run(
            f"import os; print(open({str(note)!r}).read(), sorted(f for f in os.listdir({str(kernel.folder)!r}) if f.endswith('txt')))"
        )
        assert said == "edited while it slept ['new.txt', 'note.txt']"


async def test_the_end_leaves_no_process(sandboxed_kernel: Any) -> None:
    async with sandboxed_kernel() as kernel:
        pids = kernel.sandbox.pids()
        assert len(pids) >= 2
        await kernel.run("import subprocess; p = subprocess.Popen(['sleep', '1000'])")
    assert not any(psutil.pid_exists(pid) for pid in pids)


async def test_programs_that_list_files_work_inside(sandboxed_kernel: Any) -> None:
    async with sandboxed_kernel() as kernel:
        (kernel.folder / "a file").write_text("12345")
        said = await kernel.run(
            "import subprocess\n"
            f"print(subprocess.getoutput('ls {kernel.folder} | grep file; stat -c %s a*file; ls nothing'))"
        )
        name, nbytes, missing = said.split("\n")
        assert (name, nbytes) == ("a file", "5")
        assert missing.endswith("ls: cannot access 'nothing': No such file or directory")
        assert "LD_PRELOAD" not in await kernel.run("import os; print(dict(os.environ))")


async def test_modules_of_the_environments_path_are_there_wherever_they_lie(
    sandboxed_kernel: Any,
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # where a sandbox has a /tmp of its own
        Path(folder, "lies_in_tmp.py").write_text("here = 'found'")
        path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
        async with sandboxed_kernel(PYTHONPATH=path) as kernel:
            assert await kernel.run("import lies_in_tmp; print(lies_in_tmp.here)") == "found"

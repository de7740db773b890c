"""Memory of devices goes to the store and back through two buffers; where it goes follows a rule.

Without a GPU the same code moves storages of the CPU, which torch also lets us name "cpu:0".
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.errors import GkewsError
from jupyter_gkews.kernel.checkpoint import devices
from jupyter_gkews.kernel.checkpoint.buffers import Buffers
from jupyter_gkews.kernel.checkpoint.chunks import CHUNK
from jupyter_gkews.kernel.checkpoint.manifest import Manifest
from jupyter_gkews.kernel.checkpoint.memory import CheckpointMemory
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore
from jupyter_gkews.kernel.checkpoint.transfers import Ahead, TorchCopier, Upload, flat
from jupyter_gkews.kernel.checkpoint.writing import ChunkWriter, install

torch = pytest.importorskip("torch")

GIB = 1 << 30


class Machine(devices.Accelerators):
    """A machine with these free bytes a device, which may change from look to look."""

    def __init__(self, *looks: dict[str, dict[int, int]], appears: bool = False) -> None:
        self.looks = list(looks)
        self.appears = appears

    def free(self, kind: str) -> dict[int, int]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return look.get(kind, {})

    def appeared(self, kind: str) -> bool:
        return self.appears


def storage_of(nbytes: int, seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(
        0, 256, (nbytes,), dtype=torch.uint8, generator=generator
    ).untyped_storage()


def bytes_of(storage: Any) -> bytes:
    return flat(storage).numpy().tobytes()  # type: ignore[no-any-return]


# ---- where tensors go ----


def test_every_device_that_is_there_gets_its_tensors_back() -> None:
    machine = Machine({"cuda": {0: 8 * GIB, 1: 8 * GIB}})
    placed = devices.place({"cuda:0": GIB, "cuda:1": GIB}, "fail", accelerators=machine)
    assert placed.targets == {"cuda:0": "cuda:0", "cuda:1": "cuda:1"} and not placed.said


def test_without_a_gpu_tensors_go_to_the_cpu_and_the_user_is_told() -> None:
    placed = devices.place({"cuda:0": GIB}, "cpu", accelerators=Machine({}))
    assert placed.target("cuda:0") == "cpu"
    assert placed.said == {"cuda:0": "cuda:0 is not here: it is on the CPU now"}


def test_without_a_gpu_a_resume_is_refused_where_the_rule_says_so() -> None:
    with pytest.raises(GkewsError, match="cuda:0 is not here") as refused:
        devices.place({"cuda:0": GIB}, "fail", accelerators=Machine({}))
    assert refused.value.reason == "restore_failed" and "stays paused" in refused.value.hint


def test_of_fewer_gpus_the_one_with_most_room_takes_what_is_homeless() -> None:
    machine = Machine({"cuda": {0: 3 * GIB, 1: 20 * GIB}})
    needed = {"cuda:0": GIB, "cuda:1": 2 * GIB, "cuda:3": 5 * GIB}
    placed = devices.place(needed, "cpu", accelerators=machine)
    assert placed.targets == {"cuda:0": "cuda:0", "cuda:1": "cuda:1", "cuda:3": "cuda:1"}
    assert placed.said == {"cuda:3": "cuda:3 is not here: it is on cuda:1 now"}


def test_a_gpu_without_room_is_as_good_as_none() -> None:
    machine = Machine({"cuda": {0: GIB}})
    placed = devices.place({"cuda:0": 2 * GIB}, "cpu", accelerators=machine)
    assert placed.target("cuda:0") == "cpu" and "no 2.0 GiB free" in placed.said["cuda:0"]


def test_waiting_ends_when_there_is_room_and_tells_how_much_there_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "LOOK_S", 0.0)
    full, empty = {"cuda": {0: GIB}}, {"cuda": {0: 9 * GIB}}
    machine = Machine(full, full, full, full, full, empty)
    told: list[tuple[str, int, int]] = []
    placed = devices.place(
        {"cuda:0": 4 * GIB},
        "wait",
        tell=lambda *words: told.append(words),
        accelerators=machine,
    )
    assert placed.targets == {"cuda:0": "cuda:0"} and not placed.said
    assert told and told[0] == (devices.WAITING, GIB, 4 * GIB)


def test_waiting_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "LOOK_S", 0.0)
    with pytest.raises(GkewsError, match="after 0 s of waiting") as given_up:
        devices.place({"cuda:0": GIB}, "wait", wait_s=0.0, accelerators=Machine({}))
    assert "wait longer" in given_up.value.hint


def test_a_gpu_that_only_a_new_process_sees_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "LOOK_S", 0.0)
    machine = Machine({}, appears=True)
    with pytest.raises(GkewsError, match="cannot see it") as told:
        devices.place({"cuda:0": GIB}, "wait", wait_s=60.0, accelerators=machine)
    assert "Resume again" in told.value.hint


# ---- how bytes go ----


def test_what_was_begun_comes_in_order_while_the_next_is_on_its_way() -> None:
    storage = storage_of(1000, 1)
    ahead = Ahead(256)
    wanted = [bytes_of(storage)[start : start + 100] for start in range(0, 1000, 100)]
    ahead.begin([(storage, 0, 100, 0)])
    for number, data in enumerate(wanted):
        if number + 1 < len(wanted):
            ahead.begin([(storage, 100 * (number + 1), 100, 0)])
        assert bytes(ahead.take().view[:100]) == data


def test_what_is_sent_in_pieces_arrives_whole() -> None:
    source = bytearray(bytes_of(storage_of(10_001, 2)))
    target = storage_of(10_001, 3)
    upload = Upload(1024)
    upload.put(source, target)
    assert bytes_of(target) == bytes(source)
    upload.put(bytearray(), target)


def test_buffers_are_page_aligned() -> None:
    buffer = TorchCopier().allocate(5000)
    assert buffer.address % 4096 == 0 and len(buffer.view) >= 5000


def test_device_memory_is_written_in_chunks_and_comes_back(
    store: CheckpointStore, tmp_path: Path
) -> None:
    buffers = Buffers()
    sizes = [3 * CHUNK + 77, 5000, 1, 70_000, CHUNK, 12]
    storages = [storage_of(size, seed) for seed, size in enumerate(sizes)]
    for number, storage in enumerate(storages):
        space = f"cpu:{number % 2}" if number else "cpu:0"
        buffers.add(storage.data_ptr(), storage.nbytes(), storage, "torch", space)
    host = bytearray(b"host" * 500_000)
    address = ctypes.addressof(ctypes.c_char.from_buffer(host))
    buffers.add(address, len(host), host, "buffer")
    store.prepare()
    (store.root / "chunks").mkdir(exist_ok=True)
    staging = tmp_path / "staging"
    staging.mkdir()
    layout = buffers.layout()
    assert len(layout.blocks) == 5, "small ones of a device are packed together"
    writer = ChunkWriter(store, staging, layout)
    writer.start()
    while not writer.wait(5):
        assert writer.error is None
    assert writer.error is None, writer.error
    table, blocks = writer.tables()
    install(store, staging, writer.new)
    manifest = Manifest(
        id="one",
        created="",
        chunks=table,
        blocks=blocks,
        views=[list(view) for view in layout.views],
        state={"devices": buffers.devices()},
    )
    assert devices.needs(manifest) == {
        "cpu:0": sum(sizes[0::2]),
        "cpu:1": sum(sizes[1::2]),
    }
    placement = devices.Placement({"cpu:0": "cpu:0", "cpu:1": "cpu"})
    with CheckpointMemory(store, manifest, "full") as memory:
        with devices.Uploads(memory, manifest, placement) as uploads:
            for number, storage in enumerate(storages):
                back = uploads.storage(number)
                if number % 2:
                    assert back is None  # its place is the CPU: mapped, not moved
                    assert bytes(memory.view(number)[0]) == bytes_of(storage)
                else:
                    assert bytes_of(back) == bytes_of(storage)
        assert bytes(memory.view(len(storages))[0]) == bytes(host)


def test_an_upload_that_fails_is_told_where_it_is_needed() -> None:
    class Broken:
        def view(self, index: int) -> Any:
            raise RuntimeError("the file is gone")

    manifest = Manifest(id="x", created="", views=[[0, 0, 8, 0]], state={"devices": {"0": "cpu:0"}})
    placement = devices.Placement({"cpu:0": "cpu:0"})
    with (
        devices.Uploads(Broken(), manifest, placement) as uploads,
        pytest.raises(RuntimeError, match="the file is gone"),
    ):
        uploads.storage(0)
    assert not [t for t in threading.enumerate() if t.name == "gkews-upload"]


def test_the_round_trip_script_says_that_there_is_no_gpu_and_checks_on_the_cpu(
    tmp_path: Path,
) -> None:
    script = Path(__file__).parents[2] / "bench" / "gpu_roundtrip.py"
    done = subprocess.run(
        [sys.executable, str(script), "--cpu", "--store", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.strip().splitlines()[-1])
    assert last["device"] == "cpu" and last["checks"] and all(last["checks"].values())


# ---- with a GPU ----


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "int4", "complex64"])
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tensors_on_a_gpu_come_back_bit_for_bit(
    store: CheckpointStore, namespace: Callable[..., dict[str, Any]], dtype: str
) -> None:
    saved = namespace(
        f"""
import torch
raw = torch.randint(0, 255, (5_000_000,), dtype=torch.uint8, device='cuda')
x = raw.view(getattr(torch, {dtype!r})) if {dtype!r} != 'int4' else raw
y = x[2:]
small = [torch.full((3,), i, device='cuda') for i in range(100)]"""
    )
    save(saved, store, checkpoint="one")
    back: dict[str, Any] = {"__name__": "__main__"}
    report = restore(back, store, "one", on_missing_gpu="fail")
    assert not report.lost and back["x"].device == saved["x"].device
    assert torch.equal(back["raw"], saved["raw"])
    assert back["y"].untyped_storage().data_ptr() == back["x"].untyped_storage().data_ptr()
    assert [int(t[0]) for t in back["small"]] == list(range(100))

"""Big memory becomes maps of the store's chunks under the objects' feet, and nobody notices."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from jupyter_gkews.kernel.checkpoint import allocations, in_place, process_maps
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore
from jupyter_gkews.kernel.checkpoint.writing import Placed

pytestmark = pytest.mark.skipif(
    not allocations.malloc_is_glibcs(), reason="only memory of glibc's malloc is replaced"
)

MB = 1 << 20
numbers = iter(range(1000))


@pytest.fixture(autouse=True, scope="module")
def maps_of_their_own() -> Iterator[None]:
    """Big arrays are not put into the heap, where those of an earlier test may have been, perhaps
    on chunks of its store. malloc looks there first: what is free in it is held meanwhile."""
    libc, held = ctypes.CDLL(None), []
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    libc.mallopt(-3, MB)  # M_MMAP_THRESHOLD
    for nbytes in (20 * MB, 5 * MB, 2 * MB, MB):
        while True:
            block = libc.malloc(nbytes)
            if ctypes.c_size_t.from_address(block - 8).value & 2:  # IS_MMAPPED: the heap is full
                libc.free(block)
                break
            held.append(block)
    yield
    for block in held:
        libc.free(block)


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads of the machine's own noise do not decide a test: they are waited for longer."""
    monkeypatch.setattr(in_place, "STILL_S", 20.0)
    yield


def random_array(nbytes: int = 20 * MB + 3000) -> Any:
    return np.random.default_rng(next(numbers)).integers(0, 255, nbytes, dtype=np.uint8)


def plain(value: Any) -> Any:
    return value.numpy() if isinstance(value, torch.Tensor) else value


def saved(store: CheckpointStore, names: dict[str, Any]) -> tuple[dict[str, Any], list[Placed]]:
    placed: list[Placed] = []
    summary = save(
        names,
        store,
        checkpoint=f"c{next(numbers)}",
        prove="off",
        in_place=True,
        placed=placed,
    )
    return summary, placed


def on_chunks(store: CheckpointStore, address: int, nbytes: int) -> int:
    """Bytes of this memory that are maps of chunks."""
    folder = os.path.join(os.path.realpath(store.root), "chunks", "")
    found = 0
    for region in process_maps.regions().all:
        if region.path.startswith(folder) and region.private:
            found += max(0, min(region.end, address + nbytes) - max(region.start, address))
    return found


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def contents(store: CheckpointStore) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (store.root / "chunks").rglob("*-*") if p.is_file()}


@pytest.mark.usefixtures("still")
def test_bytes_views_and_tied_tensors_stay_what_they_are(store: CheckpointStore) -> None:
    array = random_array()
    tensor = torch.arange(3 * MB)
    names = {
        "array": array,
        "reverse": array[::-2],
        "tensor": tensor,
        "tied": tensor.view(3, -1),
        "as_array": tensor.numpy(),
        "small": np.arange(10),
    }
    before = {name: plain(value).copy() for name, value in names.items()}
    ids = {name: id(value) for name, value in names.items()}
    _, placed = saved(store, names)
    mapped = in_place.map_in_place(store, placed)
    assert mapped.left == 0 and mapped.why is None
    for name, value in names.items():
        assert np.array_equal(plain(value), before[name]) and id(value) == ids[name]
    page = mmap.PAGESIZE
    assert on_chunks(store, address(array), array.nbytes) >= array.nbytes - 2 * page
    assert on_chunks(store, tensor.data_ptr(), tensor.nbytes) >= tensor.nbytes - 2 * page
    files = contents(store)
    names["tied"][2, -1] = -7
    array[123] ^= 255
    assert tensor[-1] == names["as_array"][-1] == -7
    assert np.array_equal(names["reverse"], array[::-2])
    assert contents(store) == files, "what the user writes stays with the process"


@pytest.mark.usefixtures("still")
def test_a_second_round_writes_and_maps_only_what_has_changed(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"kept": random_array(), "changed": random_array()}
    in_place.map_in_place(store, saved(store, names)[1])
    names["changed"][5] ^= 255
    compared: list[int] = []
    real = in_place._map_batch

    def watched(libc: Any, batch: Any) -> Any:
        compared.extend(piece.end - piece.start for piece in batch)
        return real(libc, batch)

    monkeypatch.setattr(in_place, "_map_batch", watched)
    summary, placed = saved(store, names)
    assert 16 * MB <= summary["bytes"]["written"] < 17 * MB
    assert in_place.map_in_place(store, placed).left == 0
    assert sum(compared) <= 16 * MB, "the rest stands on its chunks already"


def test_the_next_save_reads_nothing_of_what_stands_on_chunks(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_gkews.kernel.checkpoint import writing

    array = random_array()
    names: dict[str, Any] = {}
    save({"array": array}, store, checkpoint="first", prove="off", in_place=True)
    restore(names, store, "first")
    read: list[int] = []
    quick_of, chunk_of = writing.quick_of, writing.chunks.chunk_of
    monkeypatch.setattr(
        writing, "quick_of", lambda data, **how: (read.append(len(data)), quick_of(data, **how))[1]
    )
    monkeypatch.setattr(
        writing.chunks, "chunk_of", lambda data: (read.append(len(data)), chunk_of(data))[1]
    )
    assert saved(store, names)[0]["bytes"]["written"] < MB
    assert sum(read) < 100_000, "what is small, and no more"
    names["array"][17 * MB] ^= 255
    assert saved(store, names)[0]["bytes"]["written"] < 5 * MB
    back: dict[str, Any] = {}
    restore(back, store, store.summaries()[0]["id"])
    assert np.array_equal(back["array"], names["array"])


@pytest.mark.usefixtures("still")
def test_what_changed_since_the_save_is_left_as_it_is(store: CheckpointStore) -> None:
    array = random_array()
    _, placed = saved(store, {"array": array})
    array[18 * MB] ^= 255
    now = array.copy()
    mapped = in_place.map_in_place(store, placed)
    assert mapped.left > 0 and mapped.why == "it was changed meanwhile"
    assert mapped.nbytes > 15 * MB, "the other chunk is mapped"
    assert np.array_equal(array, now)


@pytest.mark.usefixtures("still")
def test_memory_of_others_is_not_touched(store: CheckpointStore, tmp_path: Path) -> None:
    file = tmp_path / "file.bin"
    file.write_bytes(random_array(2 * MB).tobytes())
    with open(file, "r+b") as opened:
        maps = [
            mmap.mmap(-1, 2 * MB),
            mmap.mmap(-1, 2 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS),
            mmap.mmap(opened.fileno(), 0),
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY),
        ]
    names = {f"on_{n}": np.frombuffer(each, np.uint8) for n, each in enumerate(maps)}
    _, placed = saved(store, names)
    assert placed
    mapped = in_place.map_in_place(store, placed)
    assert mapped.nbytes == 0 and mapped.left > MB
    assert all(on_chunks(store, address(array), 2 * MB) == 0 for array in names.values())


@pytest.mark.usefixtures("still")
def test_no_write_of_another_thread_is_lost(store: CheckpointStore) -> None:
    values = np.zeros(20 * MB, np.uint8)
    place, done = 17 * MB, threading.Event()
    lost: list[int] = []

    def write() -> None:
        while not done.is_set():
            for value in (1, 0):  # half of the time it is what was saved
                values[place] = value
                time.sleep(0.001)
                if values[place] != value:
                    lost.append(value)

    _, placed = saved(store, {"values": values})
    thread = threading.Thread(target=write)
    thread.start()
    mapped = 0
    try:
        for _ in range(12):
            mapped += in_place.map_in_place(store, placed).nbytes
            values[0] ^= 1
            values[0] ^= 1
    finally:
        done.set()
        thread.join()
    assert not lost and mapped


@pytest.mark.usefixtures("still")
def test_chunks_that_are_gone_become_memory_again(store: CheckpointStore) -> None:
    array = random_array()
    before = array.copy()
    in_place.map_in_place(store, saved(store, {"array": array})[1])
    assert on_chunks(store, address(array), array.nbytes)
    shutil.rmtree(store.root / "chunks")
    assert in_place.keep_what_is_gone(store) == []
    assert on_chunks(store, address(array), array.nbytes) == 0
    assert np.array_equal(array, before)
    array[:] = 1
    assert (array == 1).all()


@pytest.mark.usefixtures("still")
def test_mapped_arrays_can_be_resized_and_freed(store: CheckpointStore) -> None:
    array = random_array()
    before = array.copy()
    _, placed = saved(store, {"array": array})
    in_place.map_in_place(store, placed)
    placed.clear()
    array.resize(30 * MB, refcheck=False)
    assert np.array_equal(array[: before.size], before) and not array[before.size :].any()
    del array
    assert not np.zeros(20 * MB, np.uint8).any()


def test_the_place_in_a_page_is_the_same_in_another_process(store: CheckpointStore) -> None:
    names = {"array": random_array()[4321:], "tensor": torch.arange(MB)}
    saved(store, names)
    back: dict[str, Any] = {}
    restore(back, store, store.summaries()[0]["id"])
    assert address(back["array"]) % mmap.PAGESIZE == address(names["array"]) % mmap.PAGESIZE
    assert back["tensor"].data_ptr() % 64 == names["tensor"].data_ptr() % 64 == 0
    assert saved(store, back)[0]["bytes"]["written"] < MB, "a resumed kernel writes nothing again"


HEAP = """
import sys, numpy as np
from pathlib import Path
from jupyter_gkews.kernel.checkpoint import in_place, process_maps
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore
in_place.STILL_S = 20.0
store = CheckpointStore(Path(sys.argv[1]))
arrays = [np.random.default_rng(n).random((1 << 18) + n) for n in range(8)]
before = [array.copy() for array in arrays]
heap = next(region for region in process_maps.regions().all if region.path == "[heap]")
assert heap.start < arrays[0].__array_interface__["data"][0] < heap.end
placed = []
save({"arrays": arrays}, store, checkpoint="c", prove="off", in_place=True, placed=placed)
mapped = in_place.map_in_place(store, placed)
assert mapped.nbytes > 15e6 and not mapped.left, mapped
placed.clear()
for n in range(200):  # what was freed is handed out again, and back
    which = n % 8
    assert (arrays[which] == before[which]).all()
    arrays[which] = None
    other = [bytearray(b"x" * (n * 5000)), np.zeros(n * 20000), np.ones(1 << 19)]
    assert not other[1].any()
    arrays[which] = before[which].copy()
assert all((a == b).all() for a, b in zip(arrays, before))
arrays.clear(); before.clear()
assert not np.zeros(6 << 20).any()
print("well")
"""


def test_memory_in_the_heap_can_be_mapped_and_lives_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAP, str(tmp_path / "store")],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": str(32 * MB)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "well", done.stderr


def test_a_collection_keeps_what_an_image_needs(store: CheckpointStore) -> None:
    saved(store, {"array": random_array()})
    (checkpoint,) = (summary["id"] for summary in store.summaries())
    chunks = sorted(contents(store))
    image = store.root / "snapshots" / "20260101-000000-aaaaaaaa"
    image.mkdir(parents=True)
    needed = {"chunks": [[chunks[0], 1, 2, 3]], "files": []}
    (image / "needed.json").write_text(json.dumps(needed))
    store.delete(checkpoint)
    assert sorted(contents(store)) == chunks[:1]
    (image / "needed.json").chmod(0)
    if os.geteuid():
        assert "snapshot" in store.collect()["stays"]
    shutil.rmtree(image)
    store.gc()
    assert contents(store) == {}

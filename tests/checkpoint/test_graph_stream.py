"""The stream of a graph: what is written twice, and what that changes: nothing."""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.kernel.checkpoint import nans
from jupyter_gkews.kernel.checkpoint.collect import Collected, GraphFile, collect
from jupyter_gkews.kernel.checkpoint.restore import restore
from jupyter_gkews.kernel.checkpoint.save import save
from jupyter_gkews.kernel.checkpoint.store import CheckpointStore


class Counting(io.BytesIO):
    """A file that counts what it was given, also what was taken back."""

    given = 0

    def write(self, data: Any) -> int:
        self.given += memoryview(data).nbytes
        return super().write(data)


def written(namespace: dict[str, Any], file: Counting) -> Collected:
    return collect(
        namespace,
        hidden=frozenset(),
        extras=None,
        objects=None,
        cell_of=None,
        file=GraphFile(file),
        check=lambda: None,
    )


def carried(namespace: dict[str, Any], store: CheckpointStore) -> dict[str, Any]:
    save(namespace, store, checkpoint="carried")
    found: dict[str, Any] = {}
    restore(found, store, "carried")
    return found


def test_big_bytes_in_which_the_marks_of_a_nan_stand_are_written_once() -> None:
    marks = b"G\x7f\xf8" * 1_000_000
    file = Counting()
    written({f"data{i}": marks + bytes([i]) for i in range(5)}, file)
    assert file.given < 5 * len(marks) * 1.01


def test_a_nan_before_big_bytes_is_seen_wherever_its_frame_ends() -> None:
    class Pieces(list[Any]):
        write = list.append

    for nbytes in range((1 << 16) - 64, 1 << 16):
        pieces = Pieces()
        pickle.Pickler(pieces, 5).dump([float("nan"), "x" * nbytes, bytes(1 << 17)])
        assert any(map(nans.may_hold, pieces)), nbytes


@pytest.mark.parametrize(
    "big",
    [1 << 8_000_000, b"x" * 1_000_000, "x" * 1_000_000],
    ids=["an int", "bytes", "a text"],
)
def test_a_nan_beside_something_big_stays_the_very_one(big: Any, store: CheckpointStore) -> None:
    nan = float("nan")
    found = carried({"held": [nan, big, nan], "of_math": [big, math.nan]}, store)
    assert found["held"][0] is found["held"][2] is not math.nan
    assert found["of_math"][1] is math.nan
    assert found["held"][1] == big


def test_an_array_beside_a_nan_has_its_memory_to_itself(store: CheckpointStore) -> None:
    np = pytest.importorskip("numpy")
    array = np.arange(8.0)
    found = carried({"with_nan": [array, float("nan")], "other": np.arange(4.0)}, store)
    found["with_nan"][0].resize(16)
    assert found["with_nan"][0].tolist() == [*range(8), *[0.0] * 8]


def test_arrays_that_share_memory_beside_a_nan_still_share_it(store: CheckpointStore) -> None:
    np = pytest.importorskip("numpy")
    array = np.arange(8.0)
    held = [array, array[:], float("nan")]
    found = carried({"held": held, "again": array[:]}, store)
    found["held"][0][0] = 5.0
    assert found["held"][1][0] == found["again"][0] == 5.0


def test_a_storage_beside_a_nan_has_its_memory_to_itself() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(8.0)
    got = written({"held": [tensor, tensor[2:], float("nan")]}, Counting())
    assert [alone for *_, alone in got.writer.buffers.layout().views] == [1]


def test_that_a_file_is_mapped_again_is_told_also_beside_a_nan(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "weights.bin"
    path.write_bytes(bytes(64))
    mapped = torch.UntypedStorage.from_file(str(path), True, 64)
    got = written({"held": [mapped, float("nan")]}, Counting())
    assert [row["name"] for row in got.rebuilt] == ["held"]
    assert f"the file {path} is mapped again" in got.rebuilt[0]["reason"]

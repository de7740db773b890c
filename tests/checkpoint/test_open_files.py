"""What open files hold in memory is written out before a save, whatever else is in memory."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

from jupyter_gkews.kernel.checkpoint.open_files import flush_open_files


class Unhashable(type):
    """A metaclass with an equality of its own: its classes have no hash."""

    def __eq__(cls, other: object) -> bool:
        return cls is other


def test_all_kinds_of_files_are_written_out_beside_a_class_without_a_hash(tmp_path: Path) -> None:
    class Odd(metaclass=Unhashable):
        pass

    class Own(io.BufferedWriter):
        pass

    odd = Odd()
    odd.__dict__["itself"] = odd  # so that the collector knows it
    text, binary = (tmp_path / "text").open("w"), (tmp_path / "binary").open("wb")
    own, packed = Own(io.FileIO(tmp_path / "own", "w")), gzip.open(tmp_path / "packed", "wb")  # noqa: SIM115
    text.write("x")
    for file in (binary, own):
        file.write(b"x")
    packed.write(b"x")
    flush_open_files()
    for name in ("text", "binary", "own"):
        assert (tmp_path / name).read_bytes() == b"x"
    assert (tmp_path / "packed").stat().st_size > 0
    for opened in (text, binary, own, packed):
        opened.close()

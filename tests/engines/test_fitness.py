"""Whether an image can be restored here is known before it is tried, and said in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_gkews.engines.base import Inside
from jupyter_gkews.engines.gvisor import fitness
from jupyter_gkews.engines.gvisor.causes import sentence
from jupyter_gkews.engines.gvisor.runsc import Runsc


class ThisRunsc(Runsc):
    """A runsc of a known version, as it need not be installed for a comparison."""

    version = "release-20260101.0"  # type: ignore[assignment]


@pytest.fixture
def taken(tmp_path: Path) -> dict[str, Any]:
    """What is recorded of a process with an open file and a folder."""
    (tmp_path / "open.txt").write_text("as it was")
    (tmp_path / "work").mkdir()
    inside = Inside(
        holds={"python": "3.11.2"},
        needs={
            "open": [str(tmp_path / "open.txt")],
            "folders": [str(tmp_path / "work")],
        },
    )
    runsc = ThisRunsc(tmp_path)
    return {
        "environment": fitness.environment(runsc, inside),
        "needs": fitness.needs(inside, [str(tmp_path)]),
        "runsc": runsc,
        "mounted": [str(tmp_path)],
    }


def problem(taken: dict[str, Any]) -> str | None:
    error = fitness.unfit(*taken.values())
    if error is None:
        return None
    assert error.reason == "snapshot_incompatible"
    assert "checkpoint" not in error.hint  # what else there is, the lifecycle knows
    return error.message


def test_where_all_is_as_it_was_nothing_is_said(taken: dict[str, Any]) -> None:
    assert taken["environment"]["python"] == "3.11.2"
    assert problem(taken) is None


def test_another_runsc_is_named(taken: dict[str, Any]) -> None:
    taken["environment"]["runsc"] = "0.0~20221219.0"
    said = problem(taken)
    assert said is not None and "0.0~20221219.0" in said and "release-20260101.0" in said


def test_features_that_this_processor_lacks_are_named_and_more_features_are_no_reason(
    taken: dict[str, Any],
) -> None:
    taken["environment"]["cpu"] = [*fitness.features(), "avx512_of_tomorrow"]
    assert "avx512_of_tomorrow" in str(problem(taken))
    taken["environment"]["cpu"] = list(fitness.features()[1:])
    assert problem(taken) is None


def test_only_features_count_that_programs_use_and_all_processors_have() -> None:
    first = "flags\t\t: fpu sse4_2 avx2 pti ibrs hypervisor constant_tsc\n"
    x86 = first + "flags : fpu avx2 sse4_2 amx_int8"
    assert fitness.features_in(x86) == ("avx2", "fpu", "sse4_2")
    assert fitness.features_in("Features\t: fp asimd sve\n") == ("asimd", "fp", "sve")
    assert fitness.features_in("no such line") == ()


def test_an_open_file_that_was_edited_is_no_reason(taken: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "open.txt").write_text("edited while it was paused")
    assert problem(taken) is None


@pytest.mark.parametrize("name", ["open.txt", "work"])
def test_what_is_gone_is_named(taken: dict[str, Any], tmp_path: Path, name: str) -> None:
    (tmp_path / name).rename(tmp_path / "elsewhere")
    assert str(tmp_path / name) in str(problem(taken))
    (tmp_path / "elsewhere").rename(tmp_path / name)
    assert problem(taken) is None


def test_other_mounts_are_named(taken: dict[str, Any], tmp_path: Path) -> None:
    taken["mounted"] = ["/somewhere/else"]
    assert str(tmp_path) in str(problem(taken))
    taken["mounted"] = []
    assert "bundle" in str(problem(taken))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            'running container: starting container: restoring container "gkews-7b0f8b64a750418d8b8e'
            '2b8f2fd63890": no such file or directory',
            "A file or folder that the process had open is gone; runsc does not say which. "
            "(runsc: no such file or directory)",
        ),
        (
            'restoring container "gkews-5adf": no server FD available for filesystem with unique '
            'ID "/home/ada/work"',
            "The folder /home/ada/work was mounted into the sandbox when the snapshot was taken, "
            'and is not now. (runsc: no server FD available for filesystem with unique ID "/home/'
            'ada/work")',
        ),
        ("starting container: unexpected EOF", "The image is cut off or damaged."),
        ("mismatched segment: expected 28672, got 0", "The image is cut off or damaged."),
        ("fork/exec /proc/self/exe: operation not permitted", "needs SYS_ADMIN"),
        ("panic: what nobody has seen", "runsc says: panic: what nobody has seen"),
        ("", "runsc says: it said nothing"),
    ],
)
def test_what_runsc_says_becomes_a_sentence(words: str, said: str) -> None:
    assert said in sentence(words)

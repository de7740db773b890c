"""What was changed on the volume meanwhile is not overwritten by who has not looked."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_gkews.volume_files import VolumeFiles


def body(text: str) -> str:
    return json.dumps({"type": "file", "format": "text", "content": text})


@pytest.fixture
def files(jp_serverapp: Any) -> VolumeFiles:
    watched = VolumeFiles(jp_serverapp.web_app, jp_serverapp.contents_manager)
    watched.watch()
    return watched


@pytest.mark.parametrize("looked_first", [True, False])
@pytest.mark.parametrize("ask", [{"content": "0", "hash": "1"}, {}])
async def test_who_asks_may_save_and_who_does_not_may_not(
    files: VolumeFiles, jp_fetch: Any, jp_root_dir: Path, ask: dict[str, str], looked_first: bool
) -> None:
    await jp_fetch("api/contents/a.txt", method="PUT", body=body("mine"))
    await jp_fetch("api/contents/b.txt", method="PUT", body=body("mine"))
    (jp_root_dir / "a.txt").write_text("theirs")
    files.woke_up(time.time())
    if looked_first:
        assert await files.changed() == [str(jp_root_dir / "a.txt")]
    with pytest.raises(HTTPClientError, match="409"):
        await jp_fetch("api/contents/a.txt", method="PUT", body=body("mine again"))
    assert (jp_root_dir / "a.txt").read_text() == "theirs"
    await jp_fetch("api/contents", params={"content": "1"})  # the list of files is no look at one
    with pytest.raises(HTTPClientError, match="409"):
        await jp_fetch("api/contents/a.txt", method="PUT", body=body("mine again"))
    await jp_fetch("api/contents/b.txt", method="PUT", body=body("mine again"))
    await jp_fetch("api/contents/a.txt", params=ask)
    await jp_fetch("api/contents/a.txt", method="PUT", body=body("mine, I know"))
    assert (jp_root_dir / "a.txt").read_text() == "mine, I know"


async def test_nothing_is_refused_while_nothing_was_restored(
    files: VolumeFiles, jp_fetch: Any, jp_root_dir: Path
) -> None:
    await jp_fetch("api/contents/a.txt", method="PUT", body=body("mine"))
    (jp_root_dir / "a.txt").write_text("theirs")
    await jp_fetch("api/contents/a.txt", method="PUT", body=body("mine again"))
    assert (jp_root_dir / "a.txt").read_text() == "mine again"


async def test_what_is_gone_or_only_read_is_no_conflict(
    files: VolumeFiles, jp_fetch: Any, jp_root_dir: Path
) -> None:
    (jp_root_dir / "read.txt").write_text("theirs")
    await jp_fetch("api/contents/read.txt")
    await jp_fetch("api/contents/gone.txt", method="PUT", body=body("mine"))
    os.unlink(jp_root_dir / "gone.txt")
    files.woke_up(time.time())
    assert await files.changed() == []
    for name in ("read.txt", "gone.txt"):
        await jp_fetch("api/contents", name, method="PUT", body=body("mine again"))


async def test_what_a_cell_wrote_before_the_pause_is_as_it_always_was(
    files: VolumeFiles, jp_fetch: Any, jp_root_dir: Path
) -> None:
    await jp_fetch("api/contents/a.txt", method="PUT", body=body("mine"))
    (jp_root_dir / "a.txt").write_text("a cell's")
    files.woke_up(time.time() + 3600)
    assert await files.changed() == []
    await jp_fetch("api/contents/a.txt", method="PUT", body=body("mine again"))

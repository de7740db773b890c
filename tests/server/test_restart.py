"""Paused kernels outlive their server: the next one takes them over, still paused, and only one."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from live_server import DEADLINE_S, LiveServer, wait_until


def pause_some(server: LiveServer, *names: str) -> dict[str, str]:
    """Notebooks whose kernels were paused with their own name in x: path -> kernel id."""
    ids = {}
    for name in names:
        kernel = server.notebook(name).ready()
        kernel.run(f"x = {name!r}")
        kernel.do("pause")
        ids[name] = kernel.id
    return ids


def sessions(server: LiveServer) -> dict[str, str]:
    return {s["path"]: s["kernel"]["id"] for s in server.get("api/sessions")}


@contextlib.contextmanager
def a_record_that_is_slow_to_read(store: Path) -> Iterator[Callable[[], None]]:
    """Let the next server be held in the middle of its adoption, until the function is called."""
    record = store / "paused" / "0.json"
    os.mkfifo(record)

    def is_read() -> None:
        with contextlib.suppress(FileNotFoundError):
            for _ in range(2):  # whoever waits for a writer, and whoever came meanwhile
                os.close(os.open(record, os.O_RDWR | os.O_NONBLOCK))
            record.unlink()

    try:
        yield is_read
    finally:
        is_read()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_three_paused_notebooks_are_taken_over_and_no_kernel_starts_by_itself(
    start_server, how: int
) -> None:
    server = start_server()
    ids = pause_some(server, "one.ipynb", "two.ipynb", "deep/three.ipynb")
    since = {k["id"]: k["since"] for k in server.get("gkews/status")["kernels"]}
    server.stop(how)

    server = start_server()
    # the very first thing that a page asks for
    assert sessions(server) == ids
    # a page that opens a notebook asks for a session, and gets the paused one
    assert server.notebook("one.ipynb").id == ids["one.ipynb"]
    kernels = server.get("gkews/status")["kernels"]
    assert {k["id"]: k["state"] for k in kernels} == dict.fromkeys(ids.values(), "paused")
    assert {k["id"]: k["since"] for k in kernels} == since
    assert {k["id"]: k["path"] for k in kernels} == {i: p for p, i in ids.items()}
    assert {k["execution_state"] for k in server.get("api/kernels")} == {"idle"}
    assert server.children() == []

    for path in ids:
        kernel = server.kernel_of(path)
        assert kernel.run("x") == repr(path)
        assert kernel.status["provenance"] == "recovered"
    assert len(server.children()) >= 3
    assert list((server.store / "paused").iterdir()) == []


def test_who_asks_for_a_paused_kernel_too_early_waits_until_it_is_taken_over(start_server) -> None:
    server = start_server()
    (kernel_id,) = pause_some(server, "early.ipynb").values()
    server.stop()
    with a_record_that_is_slow_to_read(server.store) as is_read, ThreadPoolExecutor(4) as pool:
        server = start_server()
        shown = pool.submit(server.get, f"gkews/kernels/{kernel_id}")
        listed = pool.submit(server.get, "gkews/status")
        resumed = pool.submit(server.post, f"gkews/kernels/{kernel_id}/resume")
        running = pool.submit(server.get, "api/kernels")  # as a page does that was left open
        # what does not speak of kernels is answered; so is who may not ask at all
        assert server.get("gkews/workspace")["state"] == "none"
        refused = httpx.get(server.url + "gkews/status", trust_env=False, timeout=DEADLINE_S)
        assert refused.status_code == 403
        assert not any(each.done() for each in (shown, listed, resumed, running))
        is_read()
        assert shown.result()["state"] in ("paused", "resuming", "running")
        assert [kernel["id"] for kernel in listed.result()["kernels"]] == [kernel_id]
        assert [kernel["id"] for kernel in running.result()] == [kernel_id]
        assert server.operation(resumed.result()["id"])["result"]["provenance"] == "recovered"
    assert server.kernel_of("early.ipynb").run("x") == "'early.ipynb'"
    error = server.get("gkews/kernels/no-such-kernel", status=404)
    assert error["reason"] == "kernel_not_found"
    # one that was resumed is taken over by nobody
    server.stop()
    server = start_server()
    assert sessions(server) == {}
    assert server.get("gkews/status")["kernels"] == []


@pytest.mark.soak
def test_what_is_not_known_for_long_is_not_said_to_be_gone(start_server) -> None:
    server = start_server()
    (kernel_id,) = pause_some(server, "late.ipynb").values()
    server.stop()
    with a_record_that_is_slow_to_read(server.store) as is_read:
        server = start_server()
        error = server.post(f"gkews/kernels/{kernel_id}/resume", status=409)
        assert error["reason"] == "kernel_starting"
        is_read()
        operation = server.post(f"gkews/kernels/{kernel_id}/resume")
        assert server.operation(operation["id"])["error"] is None


def test_a_taken_over_kernel_can_be_paused_again_and_taken_over_again(start_server) -> None:
    server = start_server()
    pause_some(server, "again.ipynb")
    for turn in range(2):
        server.stop()
        server = start_server()
        kernel = server.kernel_of("again.ipynb")
        assert kernel.run("x") == "'again.ipynb'"
        kernel.run(f"turn = {turn}")
        kernel.do("pause")
    assert kernel.run("x, turn") == "('again.ipynb', 1)"


def test_a_second_server_leaves_the_kernels_of_a_living_one_alone(start_server) -> None:
    first = start_server()
    ids = pause_some(first, "mine.ipynb")
    second = start_server()
    assert sessions(second) == {}
    checkpoint = first.get(f"gkews/kernels/{ids['mine.ipynb']}")["checkpoint"]
    shown = second.get(f"gkews/checkpoints/{checkpoint}")
    assert shown["in_use"] is True
    error = second.ask("DELETE", f"gkews/checkpoints/{checkpoint}", status=409)
    assert error["reason"] == "checkpoint_in_use"
    assert first.kernel_of("mine.ipynb").run("x") == "'mine.ipynb'"


def test_of_two_servers_that_start_at_once_only_one_takes_a_kernel_over(start_server) -> None:
    first = start_server()
    ids = pause_some(first, "one.ipynb", "two.ipynb", "three.ipynb")
    first.stop()
    with ThreadPoolExecutor(2) as pool:
        a, b = pool.map(lambda _: start_server(), range(2))
    taken = [sessions(a), sessions(b)]
    assert sorted([*taken[0], *taken[1]]) == sorted(ids)
    for server, mine in zip((a, b), taken, strict=True):
        for path in mine:
            assert server.kernel_of(path).run("x") == repr(path)


def test_notebooks_outside_the_root_are_offered_as_checkpoints_only(start_server, tmp_path) -> None:
    first = start_server()
    ids = pause_some(first, "elsewhere.ipynb", "gone.ipynb")
    checkpoint = first.get(f"gkews/kernels/{ids['elsewhere.ipynb']}")["checkpoint"]
    first.stop()
    (first.root / "gone.ipynb").unlink()
    gone = ids.pop("gone.ipynb")

    other = start_server(root=tmp_path / "other-root")
    assert sessions(other) == {}
    log = other.log.read_text()
    assert f"{gone} is not taken over: the notebook is gone" in log
    assert f"{ids['elsewhere.ipynb']} is not taken over: its notebook is not below" in log
    shown = other.get(f"gkews/checkpoints/{checkpoint}")
    assert shown["in_use"] is True, "a server started above that folder offers it again"
    assert "elsewhere.ipynb" in shown["why_in_use"]
    operation = other.post(f"gkews/checkpoints/{checkpoint}/restore")
    ended = other.operation(operation["id"])
    assert ended["error"] is None
    assert other.get(f"gkews/kernels/{ended['kernel']}")["path"] is None
    other.stop()

    back = start_server()
    assert sessions(back) == ids
    assert back.kernel_of("elsewhere.ipynb").run("x") == "'elsewhere.ipynb'"


def test_a_paused_kernel_whose_kernelspec_is_gone_is_offered_as_a_checkpoint_only(
    start_server, tmp_path
) -> None:
    specs = tmp_path / "jupyter" / "data" / "kernels"
    server = start_server()
    installed = server.get("api/kernelspecs")["kernelspecs"]["python3"]["spec"]
    (specs / "mine").mkdir(parents=True)
    (specs / "mine" / "kernel.json").write_text(
        json.dumps({k: installed[k] for k in ("argv", "display_name", "language")})
    )
    kernel = server.notebook("spec.ipynb", "mine").ready()
    kernel.run("x = 'spec'")
    checkpoint = kernel.do("pause")["result"]["checkpoint"]
    server.stop()
    shutil.rmtree(specs / "mine")

    server = start_server()
    assert sessions(server) == {}
    error = server.post(f"gkews/checkpoints/{checkpoint}/restore", status=404)
    assert error["reason"] == "kernel_not_found"
    here = server.notebook("here.ipynb").ready()
    operation = server.post(f"gkews/checkpoints/{checkpoint}/restore", {"kernel_id": here.id})
    assert server.operation(operation["id"])["error"] is None
    assert here.run("x") == "'spec'"
    # nobody can bring the kernel back: its checkpoint may be deleted, and its record goes too
    server.ask("DELETE", f"gkews/checkpoints/{checkpoint}")
    assert list((server.store / "paused").iterdir()) == []


def test_a_new_name_the_last_table_and_the_own_setting_are_remembered(start_server) -> None:
    server = start_server()
    kernel = server.notebook("old.ipynb").ready()
    kernel.run("x = 1")
    kernel.do("pause")
    table = server.get(f"gkews/kernels/{kernel.id}/survives")
    assert "x" in [v["name"] for v in table["variables"]]
    server.ask("PATCH", f"gkews/kernels/{kernel.id}", {"auto_resume": False})
    server.ask("PATCH", "api/contents/old.ipynb", {"path": "new.ipynb"})
    session = server.get("api/sessions")[0]["id"]
    server.ask("PATCH", f"api/sessions/{session}", {"path": "new.ipynb", "name": "new.ipynb"})
    server.stop()

    server = start_server()
    assert sessions(server) == {"new.ipynb": kernel.id}
    again = server.kernel_of("new.ipynb")
    assert again.status["auto_resume"] is False
    assert server.get(f"gkews/kernels/{kernel.id}/survives") == table
    again.do("resume")
    assert again.run("x") == "1"


def test_nothing_is_taken_over_where_that_is_turned_off(start_server) -> None:
    server = start_server()
    ids = pause_some(server, "off.ipynb")
    server.stop()
    server = start_server("--GkewsApp.adopt_paused=False")
    assert sessions(server) == {}
    checkpoints = server.get("gkews/checkpoints")["checkpoints"]
    assert [c["kernel"]["id"] for c in checkpoints] == list(ids.values())


def test_a_spoilt_record_does_not_keep_the_others_from_being_taken_over(start_server) -> None:
    server = start_server()
    ids = pause_some(server, "good.ipynb")
    server.stop()
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"format": 99}'), ("d", '{"format": 1}')):
        (server.store / "paused" / f"{name}.json").write_text(text)
    server = start_server()
    assert sessions(server) == ids
    assert server.kernel_of("good.ipynb").run("x") == "'good.ipynb'"


def test_a_server_that_stops_during_a_pause_leaves_nothing_half_done(start_server) -> None:
    server = start_server()
    kernel = server.notebook("half.ipynb").ready()
    kernel.run(
        "import time\n"
        "class Slow:\n"
        "    def __reduce__(self):\n"
        "        time.sleep(.2)\n"
        "        return (int, ())\n"
        "many = [Slow() for _ in range(100)]"
    )
    operation = kernel.ask("pause")
    path = f"gkews/operations/{operation['id']}"
    wait_until(lambda: server.get(path)["step"] is not None, "the kernel writes")
    server.stop()
    assert not list((server.store / "paused").glob("*.json"))
    left = server.store / "checkpoints" / ".saving-killed-1"  # as a kernel that is killed leaves it
    (left / "chunks").mkdir(parents=True)
    (left / "chunks" / "half").write_bytes(bytes(5000))
    server = start_server()
    assert server.get("gkews/checkpoints")["checkpoints"] == []
    wait_until(lambda: not left.exists(), "the next server has removed what was left")

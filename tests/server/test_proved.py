"""How a checkpoint is proved is asked for, configured, and told wherever it is shown."""

from __future__ import annotations

from live_server import LiveServer, wait_until


def test_a_pause_is_proved_by_a_test_load_and_says_so(server: LiveServer) -> None:
    kernel = server.notebook("proved.ipynb").ready()
    kernel.run("x = [1, 2]")
    result = kernel.do("pause")["result"]
    proved = result["proved"]
    assert (proved["how"], proved["by"]) == ("scratch", result["checkpoint"])
    listed = server.get("gkews/checkpoints")["checkpoints"]
    assert [c["proved"] for c in listed if c["id"] == result["checkpoint"]] == [proved]
    assert kernel.run("x") == "[1, 2]"


def test_less_is_done_where_the_request_or_the_server_says_so(start_server) -> None:
    server = start_server("--GkewsApp.prove=read-back")
    kernel = server.notebook("less.ipynb").ready()
    assert kernel.do("checkpoint")["result"]["proved"]["how"] == "read-back"
    assert kernel.do("checkpoint", {"prove": "off"})["result"]["proved"]["how"] == "off"
    take = "str(get_ipython().run_line_magic('checkpoint', {!r}))"
    assert "read back" in kernel.run(take.format("--wait"))
    said = kernel.run(take.format("--wait --prove off my name"))
    assert "not proved" in said and "my name" in said
    error = kernel.ask("pause", {"prove": "maybe"}, status=400)
    assert error["reason"] == "bad_request" and "read-back" in error["message"]
    assert kernel.do("pause", {"prove": "scratch"})["result"]["proved"]["how"] == "scratch"


def test_the_magic_that_pauses_says_how_too(server: LiveServer) -> None:
    kernel = server.notebook("magic.ipynb").ready()
    kernel.run("%pause --prove read-back")
    paused = wait_until(
        lambda: kernel.status["state"] == "paused" and kernel.status, "the kernel is paused"
    )
    assert paused["last_operation"]["result"]["proved"]["how"] == "read-back"

"""What is no array is compressed where the server, a request or a magic says so; this is told."""

from __future__ import annotations

from live_server import wait_until


def test_compression_is_configured_asked_for_and_told(start_server) -> None:
    server = start_server("--GkewsApp.compress=zstd")
    kernel = server.notebook("compressed.ipynb").ready()
    kernel.run("words = ['many of the same'] + [f'word {n}' for n in range(5000)]")
    told = kernel.do("checkpoint")["result"]["compressed"]
    assert told["codec"] in ("zstd", "gzip") and told["bytes"] < told["plain"]
    assert kernel.do("checkpoint", {"compress": "none"})["result"]["compressed"] is None
    assert kernel.ask("pause", {"compress": "lzma"}, status=400)["reason"] == "bad_request"
    take = "str(get_ipython().run_line_magic('checkpoint', {!r}))"
    assert f"compressed with {told['codec']}" in kernel.run(take.format("--wait"))
    assert "compressed" not in kernel.run(take.format("--wait --compress none"))
    kernel.run("%pause --compress zstd")
    paused = wait_until(
        lambda: kernel.status["state"] == "paused" and kernel.status, "the kernel is paused"
    )
    result = paused["last_operation"]["result"]
    assert result["compressed"]["codec"] == told["codec"]
    listed = server.get("gkews/checkpoints")["checkpoints"]
    mine = [c["compressed"] for c in listed if c["id"] == result["checkpoint"]]
    assert mine == [result["compressed"]]
    assert kernel.run("len(words)") == "5001"

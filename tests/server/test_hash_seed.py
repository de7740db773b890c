"""Hashes of texts are after a resume what they were, and nothing of that shows to the user."""

from __future__ import annotations

from live_server import LiveServer

CELL = """
import os, subprocess, sys
stored = {name: hash(name) for name in ("a", "bc", "def")}
class Word:
    def __init__(self, text): self.text, self.code = text, hash(text)
    def __hash__(self): return self.code
    def __eq__(self, other): return self.text == other.text
known = {Word("a"): 1}
"""
AS_IT_WAS = "({name: hash(name) for name in stored} == stored, known.get(Word('a')))"


def test_a_stored_hash_is_still_true_after_a_resume_and_not_after_a_restart(
    server: LiveServer,
) -> None:
    kernel = server.notebook("hashes.ipynb").ready()
    kernel.run(CELL)
    named = "[name for name in os.environ if 'SEED' in name]"
    assert kernel.run(named) == "[]"
    assert kernel.run("sys.flags.hash_randomization") == "1"
    child = "subprocess.check_output([sys.executable, '-c', 'print(hash(\"a\"))'], text=True)"
    assert kernel.run(f"{child} != {child}") == "True"
    told = server.get(f"gkews/kernels/{kernel.id}/survives")["process"]
    assert "hash() of strings" not in {row["what"] for row in told}
    for _ in range(2):
        kernel.do("pause")
        kernel.do("resume")
        assert kernel.run(AS_IT_WAS) == "(True, 1)"
        assert kernel.run(named) == "[]"
    before = kernel.run("hash('a')")
    server.post(f"api/kernels/{kernel.id}/restart", status=200)
    kernel.close()  # as JupyterLab does: an open connection may hear the new process too late
    assert kernel.run("hash('a')") != before

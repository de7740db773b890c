"""A pause and a resume leave the user's files alone, and never copy what belongs to ipykernel."""

from __future__ import annotations

from live_server import LiveServer

MODULE = """
import atexit, os
OUT = open('rows.csv', 'w'); OUT.write('header\\n'); OUT.flush()
open('own.lock', 'a').close()
atexit.register(os.remove, 'own.lock')
def rec(line): OUT.write(line + '\\n'); OUT.flush()
"""


def test_imports_of_the_test_load_and_of_the_resume_change_no_file(server: LiveServer) -> None:
    kernel = server.notebook("files/rows.ipynb").ready()
    folder = server.root / "files"
    (folder / "mylog.py").write_text(MODULE)
    kernel.run("import mylog; mylog.rec('1,2')")
    kernel.do("checkpoint")
    assert (folder / "rows.csv").read_text() == "header\n1,2\n" and (folder / "own.lock").exists()
    result = kernel.do("pause")["result"]
    told = {row["name"]: row["reason"] for row in result["rebuilt_details"]}
    assert "rows.csv" in told["module mylog"]
    kernel.do("resume")
    assert (folder / "rows.csv").read_text() == "header\n1,2\n" and (folder / "own.lock").exists()
    kernel.run("mylog.rec('3,4')")
    assert (folder / "rows.csv").read_text() == "header\n1,2\n3,4\n"


def test_what_ipykernel_owns_is_found_again_and_never_copied(server: LiveServer) -> None:
    kernel = server.notebook("owned.ipynb").ready()
    kernel.run(
        "import sys, io\n"
        "class Tee:\n"
        "    def __init__(self, *files): self.files = files\n"
        "    def write(self, text): return [file.write(text) for file in self.files][0]\n"
        "    def flush(self): [file.flush() for file in self.files]\n"
        "ip = get_ipython(); app = ip.kernel.parent; session = ip.kernel.session\n"
        "hook = sys.excepthook; execute = ip.kernel.do_execute; raw = sys.__stdout__\n"
        "original = sys.stdout; held = io.StringIO(); sys.stdout = Tee(original, held)"
    )
    kernel.run("print('before')")
    result = kernel.do("pause")["result"]
    assert result["lost"] == []
    assert kernel.do("resume")["result"]["lost"] == []
    kernel.run("print('after')")
    kernel.run("tee, sys.stdout = sys.stdout, original")
    assert kernel.run("tee.files == (original, held) and type(original).__name__") == "'OutStream'"
    assert kernel.run("held.getvalue()") == repr("before\nafter\n")
    assert (
        kernel.run(
            "app is ip.kernel.parent and session is ip.kernel.session and ip is get_ipython() and "
            "execute.__self__ is ip.kernel and raw is sys.__stdout__ and callable(hook)"
        )
        == "True"
    )

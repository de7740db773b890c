"""The kernel's environment may have none of our packages: the code travels, hashes fall back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import cloudpickle

import jupyter_gkews

SCRIPT = """
import importlib.util, json, sys
root, packages, store = sys.argv[1:]
sys.path.append(packages)
spec = importlib.util.spec_from_file_location(
    "jupyter_gkews", root + "/__init__.py", submodule_search_locations=[root])
module = sys.modules["jupyter_gkews"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from jupyter_gkews.kernel.checkpoint import chunks, restore, save, store as stores
namespace = vars(sys.modules["__main__"])
hidden = frozenset(namespace)
exec('''
import dataclasses
@dataclasses.dataclass
class P:
    x: int
p = P(1)
data = bytearray(3_000_000)
def f(): return p.x + 1
''', namespace)
hidden |= {"hidden"}
summary = save.save(namespace, stores.CheckpointStore(store), checkpoint="one", hidden=hidden)
back = {"__name__": "__main__"}
restore.restore(back, stores.CheckpointStore(store), "one", verify="full")
assert back["f"]() == 2 and back["p"] == back["P"](1) and "root" not in back
print(json.dumps([chunks.ALGORITHM, summary["counts"], "blake3" in sys.modules]))
"""


def test_a_save_is_made_and_proved_where_only_cloudpickle_travels_along(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "cloudpickle").symlink_to(Path(cloudpickle.__file__).parent)
    done = subprocess.run(
        [
            *(sys.executable, "-I", "-S", "-c", SCRIPT),
            *(str(Path(jupyter_gkews.__file__).parent), str(packages), str(tmp_path / "store")),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    algorithm, counts, has_blake3 = json.loads(done.stdout)
    assert algorithm == "blake2b" and not has_blake3
    assert counts == {"kept": 5, "rebuilt": 0, "lost": 0}

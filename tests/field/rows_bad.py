"""Small notebooks with one bad object among good ones: the one is named, the others live."""

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "reduce_raises": {
        "setup": """
class BdRaise:
    def __reduce__(self): raise ValueError('will not go')
bd_r = BdRaise(); bd_box = {'bad': bd_r, 'good': [1, 2]}""",
        "check": "assert bd_box['good'] == [1, 2]",
        "lost": {"bd_r": "will not go", "bd_box['bad']": "will not go"},
    },
    "reduce_hangs": {
        "setup": """
import time
class BdHang:
    def __reduce__(self):
        while True: time.sleep(0.01)
bd_h = BdHang(); bd_near = [1]""",
        "check": "assert bd_near == [1]",
        "lost": {"bd_h": ""},
    },
    "reduce_returns_nonsense": {
        "setup": """
class BdNonsense:
    def __reduce__(self): return 5
class BdNot:
    def __reduce_ex__(self, p): return (print,)
bd_n = BdNonsense(); bd_n2 = BdNot(); bd_ok = (1, 2)""",
        "check": "assert bd_ok == (1, 2)",
        "lost": {"bd_n": "", "bd_n2": ""},
    },
    "setstate_raises_at_resume": {
        "setup": """
class BdState:
    def __init__(self): self.x = 1
    def __setstate__(self, state): raise RuntimeError('not again')
bd_s = [BdState(), 'good']; bd_other = bd_s[1]""",
        "check": "assert bd_s[1] == 'good' and bd_other == 'good'",
        "lost": {"bd_s[0]": "not again"},
    },
    "constructor_fails_elsewhere": {
        "setup": """
import os
class BdPid:
    def __init__(self, pid=None):
        if pid is not None and pid != os.getpid(): raise OSError('wrong process')
    def __reduce__(self): return BdPid, (os.getpid(),)
bd_p = {'p': BdPid(), 'v': 3}""",
        "check": "assert bd_p['v'] == 3",
        "lost": {"bd_p['p']": "wrong process"},
    },
    "loading_ends_the_process": {
        "setup": """
import os
class BdExit:
    def __reduce__(self): return os._exit, (3,)
bd_x = BdExit(); bd_calm = 'calm'""",
        "check": "assert bd_calm == 'calm'",
        "lost": {"bd_x": ""},
    },
    "an_object_that_lies": {
        "setup": """
class BdLie:
    def __init__(self, v=0): self.v = v
    def __reduce__(self): return BdLie, (self.v + 1,)
bd_lie = BdLie(5); bd_truth = {'v': 5}""",
        "check": "assert bd_truth == {'v': 5}",
        "may_lose": {"bd_lie": "equal"},
    },
    "native_things": {
        "setup": """
import ctypes, io, sys, types
bd_frame = sys._getframe(); bd_lib = ctypes.CDLL(None); bd_tb = None
try: 1/0
except ZeroDivisionError as e: bd_tb = e.__traceback__
bd_good = {'k': 'v'}; bd_code = compile('1+1', 'x', 'eval')""",
        "check": "assert bd_good == {'k': 'v'} and eval(bd_code) == 2",
        "lost": {"bd_frame": "", "bd_tb": ""},
    },
}

"""What a checkpoint must bring back: modules of the user's, changed libraries, process settings."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "state_of_the_users_own_modules": {
        "setup": """
import os, sys
os.makedirs('own', exist_ok=True)
open('own/helper.py', 'w').write('''
import logging, threading, random
CACHE = {}
LIMIT = 3
total = 0
logger = logging.getLogger(__name__)
lock = threading.Lock()
def numbers():
    yield 1
class Config:
    def __init__(self): self.rate = 1
config = Config()
class Node:
    count = 0
    registry = []
    def __init__(self): Node.count += 1; Node.registry.append(self)
def calls(x, seen=[]):
    seen.append(x); calls.n = getattr(calls, 'n', 0) + 1
    return len(seen)
def memoize(f):
    memo = {}
    def wrapper(x):
        if x not in memo: memo[x] = f(x)
        return memo[x]
    wrapper.__name__, wrapper.__qualname__ = f.__name__, f.__qualname__
    wrapper.memo = memo
    return wrapper
@memoize
def square(x): return x * x
def get(key): return CACHE[key]
def bump():
    global total
    total += 1
gone = 'here'
''')
open('own/other.py', 'w').write('from helper import CACHE, config\\nstamp = None\\n')
sys.path.insert(0, os.path.abspath('own'))
import helper, other as second
from helper import CACHE, config, Node
CACHE['a'] = [1]; config.rate = 9; helper.LIMIT = 7; helper.bump(); helper.bump()
nodes = [Node(), Node()]
helper.calls(1); helper.calls(2); helper.square(5)
helper.extra = nodes; del helper.gone
second.stamp = nodes[0]
running = helper.running = helper.numbers(); next(running)
helper.patched = lambda: LOCAL
LOCAL = 'live'
Node.added = lambda self: LOCAL + '!'""",
        "check": """
import sys
assert helper is sys.modules['helper'] and second is sys.modules['other']
assert helper.CACHE is CACHE is second.CACHE and helper.get('a') == [1]
assert helper.config is config is second.config and config.rate == 9 and type(config) is helper.Config
assert helper.LIMIT == 7 and helper.total == 2
assert Node is helper.Node and Node.count == 2 and Node.registry[0] is nodes[0] and len(Node.registry) == 2
assert helper.calls(3) == 3 and helper.calls.n == 3 and helper.square.memo == {5: 25}
assert helper.extra is nodes and not hasattr(helper, 'gone') and second.stamp is nodes[0]
assert helper.logger.name == 'helper' and not helper.lock.locked()
assert helper.patched() == 'live' and nodes[1].added() == 'live!'
LOCAL = 'new'
assert helper.patched() == 'new' and nodes[1].added() == 'new!'
Node(); assert Node.count == 3
assert not isinstance(vars(helper).get('running'), (int, str)) and 'running' in {l['name'] for l in report.lost}
assert report.process == [], report.process""",
        "lost": ["running", "helper.running"],
    },
    "a_module_edited_after_the_checkpoint_is_told": {
        "setup": """
import os, sys
os.makedirs('own2', exist_ok=True)
open('own2/edited.py', 'w').write('STEP = 1\\ndef f(): return 1\\n')
sys.path.insert(0, os.path.abspath('own2'))
import edited
edited.STEP = 5
import jupyter_gkews.kernel.checkpoint.module_state as _m
edited_already = _m.was_edited(edited, edited.__file__)
open('own2/edited.py', 'w').write('STEP = 2\\nNEW = 3\\ndef f(): return 22 + STEP\\n')
edited_now = _m.was_edited(edited, edited.__file__)
open('own2/edited.py', 'w').write('STEP = 1\\ndef f(): return 1\\n')
del _m""",
        "check": """
assert not edited_already and edited_now
assert edited.STEP == 5 and edited.f() == 1 and report.process == []
from jupyter_gkews.kernel.checkpoint import module_state
open(edited.__file__, 'w').write('STEP = 2\\ndef f(): return 2\\n')
(said,) = module_state.put({'name': 'edited', 'digest': 'other', 'names': [], 'values': {'STEP': 8}, 'functions': {}})
assert edited.STEP == 8 and 'has been changed since the checkpoint' in said""",
    },
    "a_module_that_is_gone_costs_only_itself": {
        "setup": """
import os, sys
os.makedirs('own3', exist_ok=True)
open('own3/vanishing.py', 'w').write('X = 1\\n')
sys.path.insert(0, os.path.abspath('own3'))
import vanishing
ok = [1]""",
        "check": """
assert ok == [1] and vanishing.X == 1""",
    },
    "modules_made_by_cells": {
        "setup": """
import sys, types
virtual = types.ModuleType('virtual', 'made here')
sys.modules['virtual'] = virtual
exec('''
import json
state = []
class Thing:
    made = 0
    def __init__(self): Thing.made += 1; state.append(self)
def dump(): return json.dumps(len(state))
''', virtual.__dict__)
from virtual import Thing, dump
thing = Thing()
hidden_one = types.ModuleType('virtual.part')
hidden_one.value = 5
sys.modules['virtual.part'] = hidden_one
virtual.part = hidden_one
del hidden_one""",
        "check": """
import sys, importlib
assert sys.modules['virtual'] is virtual and importlib.import_module('virtual') is virtual
assert virtual.Thing is Thing and type(thing) is Thing and virtual.state[0] is thing and virtual.__doc__ == 'made here'
assert dump.__globals__ is vars(virtual) and dump() == '1'
Thing(); assert dump() == '2' and Thing.made == 2
import virtual.part
assert virtual.part.value == 5""",
    },
    "the_interpreter_and_the_process": {
        "setup": """
import sys, os, signal, gc, warnings, socket, time, threading, resource, faulthandler, locale
sys.setswitchinterval(0.01); sys.setrecursionlimit(3210); sys.argv[:] = ['mine', '--x']
os.umask(0o027); gc.set_threshold(900, 11, 12); gc.disable()
socket.setdefaulttimeout(12.5); sys.tracebacklimit = 7
os.environ['TZ'] = 'Asia/Seoul'; time.tzset()
os.environ['GONE'] = 'x'; del os.environ['GONE']; os.environ.pop('LANG', None)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
caught = []
def on_signal(number, frame): caught.append(number)
signal.signal(signal.SIGUSR1, on_signal); signal.signal(signal.SIGHUP, signal.SIG_IGN)
def hook(kind, value, tb): caught.append(kind)
sys.excepthook = hook
threading.excepthook = lambda args: caught.append(args.exc_type)
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        caught.append(name) if name == 'nowhere_at_all' else None
sys.meta_path.insert(0, Finder)
sys.path.append('relative_folder'); sys.path.insert(0, '/first.zip')
warnings.simplefilter('error', category=ImportWarning)
path = list(sys.path)""",
        "check": """
import sys, os, signal, gc, warnings, socket, time, threading, resource
assert abs(sys.getswitchinterval() - 0.01) < 1e-6 and sys.getrecursionlimit() == 3210 and sys.argv == ['mine', '--x']
mask = os.umask(0); os.umask(mask); assert mask == 0o027
assert gc.get_threshold() == (900, 11, 12) and not gc.isenabled()
assert socket.getdefaulttimeout() == 12.5 and sys.tracebacklimit == 7 and time.tzname[0] == 'KST'
assert 'LANG' not in os.environ and 'GONE' not in os.environ
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 256
os.kill(os.getpid(), signal.SIGUSR1); time.sleep(0)
assert caught == [signal.SIGUSR1] and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
assert sys.excepthook is hook and threading.excepthook.__globals__ is globals()
assert sys.meta_path[0] is Finder
try: import nowhere_at_all
except ImportError: pass
assert 'nowhere_at_all' in caught
assert sys.path == path and warnings.filters[0][0] == 'error'
assert report.process == [], report.process
gc.enable(); sys.setrecursionlimit(1000); sys.meta_path.remove(Finder); sys.excepthook = sys.__excepthook__
del sys.tracebacklimit; os.umask(0o022); threading.excepthook = threading.__excepthook__""",
    },
    "settings_that_are_functions": {
        "setup": """
import numpy as np, pandas as pd, torch, matplotlib, csv, multiprocessing
calls = []
np.seterrcall(lambda kind, flag: calls.append(kind)); np.seterr(over='call')
np.set_printoptions(formatter={'float': lambda x: 'F'})
pd.set_option('display.float_format', lambda x: f'<{x}>')
torch.set_printoptions(precision=2, sci_mode=False); torch.set_flush_denormal(True)
torch.autograd.set_detect_anomaly(True, check_nan=False); torch.set_float32_matmul_precision('medium')
torch.backends.cudnn.benchmark = True; torch.backends.cuda.enable_flash_sdp(False)
matplotlib.use('svg')
import matplotlib.pyplot as plt
plt.style.use('ggplot')
matplotlib.colormaps.register(matplotlib.colors.ListedColormap(['r', 'g'], name='two'))
plt.figure(7); plt.plot([1, 2]); plt.figure(3); plt.plot([3, 4]); plt.figure(7); plt.subplot(2, 1, 2)
csv.register_dialect('mine', delimiter='|', quoting=csv.QUOTE_ALL)
multiprocessing.set_start_method('spawn', force=True)""",
        "check": """
import numpy as np, pandas as pd, torch, matplotlib, csv, multiprocessing
np.float64(1e308) * 10
assert calls == ['overflow'] and str(np.array([1.5])) == '[F]'
assert '<1.5>' in str(pd.DataFrame({'a': [1.5]}))
assert str(torch.tensor([1 / 3])) == 'tensor([0.33])' and torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
assert torch.get_float32_matmul_precision() == 'medium' and torch.backends.cudnn.benchmark
assert not torch.backends.cuda.flash_sdp_enabled() and (torch.tensor([5e-324], dtype=torch.float64) * 1 == 0).item()
assert matplotlib.get_backend().lower() == 'svg' and plt.rcParams['axes.facecolor'] == '#E5E5E5'
assert matplotlib.colormaps['two'].N == 2
assert plt.get_fignums() == [3, 7] and plt.gcf().number == 7
assert list(plt.figure(3).axes[0].lines[0].get_ydata()) == [3, 4]
assert csv.get_dialect('mine').delimiter == '|' and multiprocessing.get_start_method() == 'spawn'
assert report.process == [], report.process
torch.set_printoptions(profile='default'); torch.autograd.set_detect_anomaly(False); torch.set_flush_denormal(False)
np.seterr(over='warn'); np.set_printoptions(formatter=None); pd.reset_option('display.float_format'); plt.close('all')""",
    },
    "generators_of_random_numbers": {
        "setup": """
import random, numpy as np
np.random.set_bit_generator(np.random.PCG64(5)); np.random.rand()
own = random.Random(3); own.random()
generators = [np.random.Generator(kind(1)) for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)]
old = np.random.RandomState(4); old.randn()
[g.normal() for g in generators]
import copy
state = np.random.get_state(legacy=False)
want = [copy.deepcopy(g).normal() for g in generators] + [copy.deepcopy(own).random(), copy.deepcopy(old).randn(), np.random.rand()]
np.random.set_state(state)""",
        "check": """
import numpy as np
assert [g.normal() for g in generators] + [own.random(), old.randn(), np.random.rand()] == want
assert type(np.random.get_bit_generator()).__name__ == 'PCG64'
np.random.set_bit_generator(np.random.MT19937())""",
    },
    "a_stream_put_in_the_place_of_stdout": {
        "setup": """
import sys
class Tee:
    def __init__(self, stream): self.stream, self.seen = stream, []
    def write(self, text): self.seen.append(text); return len(text)
    def flush(self): pass
before = sys.stdout
sys.stdout = tee = Tee(sys.stdout)
print('one')
sys.stdout = before""",
        "check": """
import sys
assert tee.seen[0] == 'one' and tee.stream is before is sys.stdout""",
    },
    "attributes_of_libraries_set_by_cells": {
        "setup": """
import json, string, textwrap, calendar, builtins, fractions, colorsys, time as clock
import pandas as pd, torch
SIGN = '!'
def shout(self): return SIGN * len(self)
pd.DataFrame.shout = shout
pd.Series.twice = property(lambda self: self * 2)
torch.nn.Module.size_of = lambda self: sum(p.numel() for p in self.parameters())
plain_dumps = json.dumps
def dumps(obj, **kw): return SIGN + plain_dumps(obj, **kw)
json.dumps = dumps
textwrap.LIMIT = 5
string.digits = '01'
setattr(calendar, 'January', 11)
del colorsys.ONE_SIXTH
fractions.Fraction.half = classmethod(lambda cls: cls(1, 2))
builtins.everywhere = {'a': SIGN}
plain_sleep = clock.sleep
clock.sleep = lambda seconds: 'slept'
@pd.api.extensions.register_dataframe_accessor('mine')
class Mine:
    def __init__(self, frame): self.frame = frame
    def width(self): return len(self.frame.columns)
frame = pd.DataFrame({'a': [1, 2]})
layer = torch.nn.Linear(2, 1)
import mimetypes, keyword
keyword.kwlist.append('quux')
mimetypes.types_map['.mine'] = 'x/mine'
everything = everywhere""",
        "check": """
import json, string, textwrap, calendar, builtins, fractions, colorsys, time
assert frame.shout() == '!!' and list(frame.a.twice) == [2, 4] and layer.size_of() == 3
assert json.dumps([1]) == '![1]' and plain_dumps([1]) == '[1]' and json.dumps is dumps
assert textwrap.LIMIT == 5 and string.digits == '01' and calendar.January == 11 and not hasattr(colorsys, 'ONE_SIXTH')
assert fractions.Fraction.half() == fractions.Fraction(1, 2) and everywhere == {'a': '!'} and everything is builtins.everywhere
assert time.sleep(3) == 'slept' and plain_sleep(0) is None
assert frame.mine.width() == 1 and type(frame.mine) is Mine
SIGN = '?'
assert frame.shout() == '??' and json.dumps(1) == '?1'
import mimetypes, keyword
assert keyword.kwlist[-1] == 'quux' and keyword.iskeyword('if') and mimetypes.types_map['.mine'] == 'x/mine'
assert report.process == [], report.process
json.dumps = plain_dumps; time.sleep = plain_sleep; string.digits = '0123456789'""",
    },
}

"""What a checkpoint must bring back: files, locks, and what belongs to the process."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "open_files": {
        "setup": """
for n in ('r', 'a', 'w', 'wb'): open(n + '.txt', 'w').write('line1\\nline2\\nline3\\n')
r = open('r.txt'); r.readline()
a = open('a.txt', 'a'); a.write('more\\n')
w = open('w.txt', 'w'); w.write('new\\n')
wb = open('wb.txt', 'w+b'); wb.write(b'12345'); wb.seek(2)
done = open('r.txt'); done.close()
raw = open('r.txt', 'rb', buffering=0); raw.read(3)""",
        "check": """
assert open('w.txt').read() == 'new\\n' and open('a.txt').read().endswith('more\\n') and open('wb.txt').read() == '12345'
assert r.readline() == 'line2\\n' and r.mode == 'r' and a.mode == 'a' and w.mode == 'w' and done.closed and raw.read(3) == b'e1\\n'
w.write('x'); w.flush(); assert open('w.txt').read() == 'new\\nx'
a.write('z'); a.flush(); assert open('a.txt').read().endswith('more\\nz')
assert wb.read() == b'345'""",
    },
    "a_file_in_a_for_loop": {
        "setup": """
open('it.txt', 'w').write('a\\nb\\nc\\n')
f = open('it.txt')
for line in f: break""",
        "check": """
assert next(f) == 'b\\n'""",
    },
    "a_deleted_file": {
        "setup": """
import os
f = open('gone.txt', 'w+'); f.write('x'); f.flush(); os.unlink('gone.txt')
ok = 1""",
        "check": """
import os
f.seek(0); assert ok == 1 and f.read() == 'x' and not os.path.exists('gone.txt')""",
    },
    "locks_and_queues": {
        "setup": """
import threading, queue, collections
l = threading.Lock()
held = threading.Lock(); held.acquire()
r = threading.RLock(); r.acquire(); r.acquire()
e = threading.Event(); e.set()
q = queue.Queue(); q.put(1); q.put([2])
s = threading.Semaphore(3); s.acquire()
c = threading.Condition()
loc = threading.local(); loc.x = 5""",
        "check": """
assert not l.locked() and held.locked() and e.is_set() and q.get() == 1 and q.get() == [2] and q.empty()
r.release(); r.release()
assert s.acquire(blocking=False) and s.acquire(blocking=False) and not s.acquire(blocking=False)
with c: c.notify_all()
assert loc.x == 5""",
    },
    "what_runs_is_lost_and_named": {
        "setup": """
import threading, subprocess, socket, concurrent.futures, sys
stop = threading.Event()
t = threading.Thread(target=stop.wait, daemon=True); t.start()
p = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)
sk = socket.socket()
pool = concurrent.futures.ThreadPoolExecutor(2)
done = pool.submit(pow, 2, 5); done.result()
running = pool.submit(stop.wait)
ok = [1]
import atexit; atexit.register(p.kill); atexit.register(stop.set)""",
        "check": """
assert ok == [1] and done.result() == 32 and pool.submit(pow, 2, 3).result() == 8
reasons = {l['name']: l['reason'] for l in report.lost}
assert 'thread' in reasons['t'] and 'child process' in reasons['p'] and 'connection' in reasons['sk']
pool.shutdown()""",
        "lost": ["t", "p", "sk", "running"],
    },
    "random_numbers_go_on": {
        "setup": """
import random, numpy as np
random.seed(1); np.random.seed(2); random.random(); np.random.rand()
st, nst = random.getstate(), np.random.get_state()
want = (random.random(), np.random.rand())
random.setstate(st); np.random.set_state(nst)""",
        "check": """
import random, numpy as np
assert (random.random(), np.random.rand()) == want""",
    },
    "folder_paths_environment": {
        "setup": """
import os, sys
os.makedirs('sub', exist_ok=True); os.chdir('sub'); sys.path.insert(0, '/extra'); os.environ['MINE'] = 'yes'
os.environ['HF_TOKEN'] = 'hush'; os.environ.pop('HOME2', None)
import warnings; warnings.filterwarnings('ignore', message='boo')""",
        "check": """
import os, sys, warnings
assert os.path.basename(os.getcwd()) == 'sub' and sys.path[0] == '/extra' and os.environ['MINE'] == 'yes'
assert 'HF_TOKEN' not in os.environ and warnings.filters[0][1].pattern == 'boo'
os.chdir('..')""",
    },
    "a_logger_with_a_file": {
        "setup": """
import logging
log = logging.getLogger('mine')
log.setLevel(logging.INFO)
log.propagate = False
log.addHandler(logging.FileHandler('mine.log'))
log.addHandler(logging.StreamHandler())
log.info('before')""",
        "check": """
import logging, sys
assert logging.getLogger('mine') is log and log.level == logging.INFO and not log.propagate
assert log.handlers[1].stream is sys.stderr
log.removeHandler(log.handlers[1])
log.info('after')
log.debug('never')
assert open('mine.log').read() == 'before\\nafter\\n'""",
    },
    "finalizers_of_a_test_load_touch_no_file": {
        "setup": """
import os
class Owner:
    def __init__(self, path): self.path = path
    def __del__(self): os.path.exists(self.path) and os.unlink(self.path)
class Bad:
    def __getstate__(self): return 1
    def __setstate__(self, state): raise ValueError('bad')
open('owned.txt', 'w').write('mine')
owner = Owner(os.path.abspath('owned.txt'))
bad = Bad()""",
        "check": """
assert open('owned.txt').read() == 'mine' and owner.path.endswith('owned.txt')
del owner
report.values = None
import os
assert not os.path.exists('owned.txt')""",
        "lost": ["bad"],
    },
    "a_bar_of_tqdm": {
        "setup": """
from tqdm import tqdm
bar = tqdm(range(10), desc='epochs')
bar.update(3)
out = open('bar.txt', 'w+')
other = tqdm(total=5, file=out)""",
        "check": """
import sys
assert report.lost == [] and bar.n == 3 and bar.fp._wrapped is sys.stderr and other.fp._wrapped is out
bar.update(1); bar.refresh(); other.update(2); other.refresh()
assert bar.n == 4 and '2/5' in open('bar.txt').read()
bar.close(); other.close()""",
    },
    "parametrized_modules": {
        "setup": """
import torch
from torch.nn.utils import parametrizations, parametrize
class Double(torch.nn.Module):
    def forward(self, x): return 2 * x
    def right_inverse(self, x): return x / 2
layer = parametrizations.weight_norm(torch.nn.Linear(3, 2))
parametrize.register_parametrization(layer, 'bias', Double())
model = torch.nn.Sequential(layer, torch.nn.Tanh())
x = torch.ones(1, 3)
want = model(x).detach()
adam = torch.optim.SGD(model.parameters(), lr=.1)""",
        "check": """
import torch
assert report.lost == [] and torch.equal(model(x), want) and model[0] is layer
assert parametrize.is_parametrized(layer, 'weight') and isinstance(layer, torch.nn.Linear)
assert adam.param_groups[0]['params'][0] is next(model.parameters())
model(x).sum().backward(); adam.step()
assert not torch.equal(model(x), want)
parametrize.remove_parametrizations(layer, 'bias')
assert isinstance(layer.bias, torch.nn.Parameter)""",
    },
    "settings_of_libraries": {
        "setup": """
import decimal, logging, sys
import matplotlib, numpy as np, pandas as pd, torch
torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False); torch.set_num_threads(1)
torch.use_deterministic_algorithms(True, warn_only=True)
np.seterr(divide='raise', over='ignore'); np.set_printoptions(precision=3, suppress=True)
pd.set_option('display.max_rows', 7, 'display.precision', 2, 'display.float_format', '{:.1f}'.format)
matplotlib.rcParams['figure.dpi'] = 77
matplotlib.rcParams['figure.figsize'] = (3, 4)
matplotlib.rcParams['axes.prop_cycle'] = matplotlib.cycler(color=['r', 'g'], lw=[1, 2])
decimal.getcontext().prec = 9; decimal.getcontext().rounding = decimal.ROUND_UP
decimal.getcontext().traps[decimal.Inexact] = True
logging.getLogger().setLevel(logging.DEBUG)
sys.setrecursionlimit(4321)
del matplotlib
from jupyter_gkews.kernel.checkpoint import process_state
rows = {row['what']: (row['fate'], row['reason']) for row in process_state.capture().rows}
del process_state""",
        "check": """
import decimal, logging, sys
import matplotlib
assert report.process == [], report.process
assert torch.get_default_dtype() is torch.float64 and not torch.is_grad_enabled() and torch.get_num_threads() == 1
assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
assert np.geterr() == {'divide': 'raise', 'over': 'ignore', 'under': 'ignore', 'invalid': 'warn'}
assert np.get_printoptions()['precision'] == 3 and np.get_printoptions()['suppress'] is True
assert pd.get_option('display.max_rows') == 7 and pd.get_option('display.precision') == 2
assert matplotlib.rcParams['figure.dpi'] == 77 and list(matplotlib.rcParams['figure.figsize']) == [3, 4]
assert matplotlib.rcParams['axes.prop_cycle'] == matplotlib.cycler(color=['r', 'g'], lw=[1, 2])
context = decimal.getcontext()
assert context.prec == 9 and context.rounding == decimal.ROUND_UP and context.traps[decimal.Inexact]
assert logging.getLogger().level == logging.DEBUG and sys.getrecursionlimit() == 4321
kept = {what for what, (fate, _) in rows.items() if fate == 'kept'}
assert kept >= {'PyTorch settings', 'NumPy settings', 'pandas options', 'Matplotlib rcParams', 'decimal context', 'root logger', 'recursion limit'}
assert 'default_dtype float64' in rows['PyTorch settings'][1] and 'figure.dpi 77' in rows['Matplotlib rcParams'][1]
assert 'display.float_format' in rows['pandas options'][1] and pd.get_option('display.float_format')(2) == '2.0'
torch.set_default_dtype(torch.float32); torch.set_grad_enabled(True); torch.use_deterministic_algorithms(False)
np.seterr(divide='warn', over='warn'); pd.reset_option('all'); sys.setrecursionlimit(1000)
decimal.setcontext(decimal.Context()); logging.getLogger().setLevel(logging.WARNING)""",
    },
}

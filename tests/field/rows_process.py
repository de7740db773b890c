"""Small notebooks, process and IPython: files, locks, what runs, modules, settings, magics."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "files_for_reading": {
        "setup": """
open('fr.txt', 'w').write('one\\ntwo\\nthree\\n'); open('fr.bin', 'wb').write(bytes(range(100)))
fr_t = open('fr.txt', encoding='utf-8'); fr_t.readline()
fr_b = open('fr.bin', 'rb'); fr_b.seek(10)
fr_loop = open('fr.txt')
for fr_line in fr_loop: break
fr_closed = open('fr.txt'); fr_closed.close()
import csv; fr_csv_file = open('fr.txt'); fr_csv = csv.reader(fr_csv_file); next(fr_csv)""",
        "check": """
assert fr_t.readline() == 'two\\n' and fr_t.tell() == 8 and fr_b.read(2) == b'\\x0a\\x0b' and next(fr_loop) == 'two\\n' and fr_closed.closed
assert open('fr.txt').read() == 'one\\ntwo\\nthree\\n'""",
        "may_lose": {"fr_csv": "csv"},
    },
    "files_for_writing": {
        "setup": """
open('fw_a.txt', 'w').write('old\\n'); open('fw_p.txt', 'w').write('0123456789')
fw_a = open('fw_a.txt', 'a'); fw_a.write('more\\n')
fw_w = open('fw_w.txt', 'w'); fw_w.write('written')
fw_wp = open('fw_wp.bin', 'wb+'); fw_wp.write(b'abcdef'); fw_wp.seek(3)
fw_p = open('fw_p.txt', 'r+'); fw_p.seek(4)
fw_x = open('fw_x.txt', 'x'); fw_x.write('x')""",
        "check": """
assert open('fw_w.txt').read() == 'written' and open('fw_a.txt').read() == 'old\\nmore\\n' and open('fw_wp.bin', 'rb').read() == b'abcdef' and open('fw_x.txt').read() == 'x'
fw_a.write('last'); fw_a.flush(); fw_w.write('!'); fw_w.flush(); fw_p.write('X'); fw_p.flush(); fw_x.write('y'); fw_x.flush()
assert open('fw_a.txt').read() == 'old\\nmore\\nlast' and open('fw_w.txt').read() == 'written!' and fw_wp.read() == b'def'
assert open('fw_p.txt').read() == '0123X56789' and open('fw_x.txt').read() == 'xy' and fw_w.mode == 'w' and fw_a.mode == 'a'""",
    },
    "compressed_and_temporary_files": {
        "setup": """
import gzip, io, tempfile, os, zipfile
with gzip.open('fz.gz', 'wt') as f: f.write('line1\\nline2\\n')
fz_mem = io.StringIO('hello world'); fz_mem.read(6); fz_bytes = io.BytesIO(); fz_bytes.write(b'12345'); fz_bytes.seek(2)
fz_dir = tempfile.TemporaryDirectory(); fz_inside = os.path.join(fz_dir.name, 'in.txt'); open(fz_inside, 'w').write('inside')
fz_named = tempfile.NamedTemporaryFile('w+', suffix='.txt'); fz_named.write('temp'); fz_named.flush()""",
        "check": """
assert gzip.open('fz.gz', 'rt').read() == 'line1\\nline2\\n' and fz_mem.read() == 'world' and fz_bytes.read() == b'345'
assert open(fz_inside).read() == 'inside' and os.path.dirname(fz_inside) == fz_dir.name
fz_named.seek(0); assert fz_named.read() == 'temp'""",
    },
    "sqlite_in_a_file": {
        "setup": """
import sqlite3
sq_c = sqlite3.connect('sq.db'); sq_c.row_factory = sqlite3.Row
sq_c.execute('create table t (a int, b text)'); sq_c.executemany('insert into t values (?, ?)', [(1, 'x'), (2, 'y')]); sq_c.commit()""",
        "check": """
assert [tuple(r) for r in sq_c.execute('select a, b from t order by a')] == [(1, 'x'), (2, 'y')]
assert sq_c.execute('select b from t').fetchone()['b'] == 'x'
sq_c.execute('insert into t values (3, "z")'); sq_c.commit(); assert sqlite3.connect('sq.db').execute('select count(*) from t').fetchone() == (3,)""",
    },
    "sqlite_in_memory": {
        "setup": """
import sqlite3
sm_c = sqlite3.connect(':memory:'); sm_c.execute('create table t (a int)'); sm_c.executemany('insert into t values (?)', [(i,) for i in range(100)]); sm_c.commit()""",
        "check": "assert sm_c.execute('select sum(a) from t').fetchone() == (4950,); sm_c.execute('insert into t values (1)')",
    },
    "a_logger_with_a_file": {
        "setup": """
import logging
lg = logging.getLogger('field.lg'); lg.setLevel('INFO'); lg.propagate = False
lg_h = logging.FileHandler('lg.log'); lg_h.setFormatter(logging.Formatter('%(levelname)s %(message)s')); lg.addHandler(lg_h)
lg.info('first')""",
        "check": """
lg.info('second'); lg.debug('hidden'); logging.getLogger('field.lg').warning('third')
assert open('lg.log').read() == 'INFO first\\nINFO second\\nWARNING third\\n' and lg.handlers == [lg_h] and logging.getLogger('field.lg') is lg""",
    },
    "locks_events_queues": {
        "setup": """
import threading, queue
lk_l = threading.Lock(); lk_held = threading.Lock(); lk_held.acquire(); lk_r = threading.RLock(); lk_e = threading.Event(); lk_e.set()
lk_q = queue.Queue(maxsize=3); lk_q.put('a'); lk_q.put('b'); lk_pq = queue.PriorityQueue(); [lk_pq.put(i) for i in (3, 1, 2)]; lk_sq = queue.SimpleQueue(); lk_sq.put(1)
lk_s = threading.Semaphore(2); lk_s.acquire(); lk_b = threading.Barrier(1); lk_c = threading.Condition(lk_r)""",
        "check": """
assert not lk_l.locked() and lk_held.locked() and lk_e.is_set() and lk_q.get() == 'a' and lk_q.maxsize == 3 and lk_pq.get() == 1 and lk_sq.get() == 1
assert lk_s.acquire(False) and not lk_s.acquire(False) and lk_b.wait() == 0
with lk_c: lk_c.notify_all()
with lk_r: pass""",
    },
    "what_runs": {
        "setup": """
import threading, subprocess, sys, concurrent.futures, asyncio, socket
rn_stop = threading.Event()
rn_thread = threading.Thread(target=rn_stop.wait, name='ticker', daemon=True); rn_thread.start()
rn_proc = subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'], stdin=subprocess.PIPE)
rn_done = subprocess.run(['true']); rn_pool = concurrent.futures.ThreadPoolExecutor(2); rn_fut = rn_pool.submit(pow, 2, 8); rn_fut.result()
rn_pending = rn_pool.submit(rn_stop.wait)
async def rn_sleep(): await asyncio.sleep(1000)
rn_task = asyncio.get_running_loop().create_task(rn_sleep())
rn_sock = socket.socket(); rn_data = {'x': [1]}""",
        "check": """
assert rn_data == {'x': [1]} and rn_fut.result() == 256 and rn_pool.submit(pow, 2, 3).result() == 8 and rn_done.returncode == 0
rn_pool.shutdown()""",
        "lost": {
            "rn_thread": "thread",
            "rn_proc": "process",
            "rn_pending": "",
            "rn_task": "",
            "rn_sock": "connection",
        },
    },
    "modules_and_names": {
        "setup": """
import numpy as np, os.path, xml.etree.ElementTree as ET, importlib, json as js
from collections import OrderedDict as OD
import concurrent.futures.thread
md_name = js.loads; md_mod = os.path; md_all = {'np': np}""",
        "check": """
import sys
assert np is sys.modules['numpy'] and ET is sys.modules['xml.etree.ElementTree'] and md_mod is os.path and md_all['np'] is np
assert concurrent.futures.thread and md_name is js.loads and OD is __import__('collections').OrderedDict""",
    },
    "a_module_of_the_users_own": {
        "setup": """
import pathlib, sys
pathlib.Path('field_own.py').write_text('COUNT = 0\\nCACHE = {}\\nclass Thing:\\n    pass\\ndef up():\\n    global COUNT\\n    COUNT += 1\\n    return COUNT\\n')
sys.path.insert(0, str(pathlib.Path.cwd()))
import field_own
field_own.up(); field_own.up(); field_own.CACHE['k'] = ow_shared = [1]; ow_thing = field_own.Thing(); ow_thing.v = 1
from field_own import up as ow_up""",
        "check": """
assert field_own.up() == 3 and field_own.CACHE['k'] is ow_shared and type(ow_thing) is field_own.Thing and ow_up is field_own.up and ow_up() == 4""",
    },
    "path_environment_folder": {
        "setup": """
import os, sys
pe_here = os.getcwd(); os.makedirs('pe_sub', exist_ok=True); os.chdir('pe_sub'); sys.path.append('/pe/extra')
os.environ['PE_SET'] = 'value'; os.environ.pop('LESSOPEN', None); os.environ['PE_API_KEY'] = 'sk-very-secret'; os.environ['PE_PASSWORD'] = 'hush'""",
        "check": """
assert os.getcwd() == os.path.join(pe_here, 'pe_sub') and '/pe/extra' in sys.path and os.environ['PE_SET'] == 'value'
assert 'PE_API_KEY' not in os.environ and 'PE_PASSWORD' not in os.environ
os.chdir(pe_here)""",
        "order": "last",
    },
    "random_numbers_go_on": {
        "setup": """
import random, numpy as np, torch
random.seed(5); np.random.seed(6); torch.manual_seed(7); rg_g = np.random.default_rng(8); rg_r = random.Random(9); rg_m = np.random.Generator(np.random.MT19937(3)); rg_t = torch.Generator().manual_seed(4)
random.random(); np.random.rand(3); torch.rand(2); rg_g.normal(); rg_r.gauss(0, 1); np.random.randn(1); torch.rand(1, generator=rg_t)
rg_state = (random.getstate(), np.random.get_state(), torch.get_rng_state(), rg_g.bit_generator.state, rg_r.getstate(), rg_m.bit_generator.state, rg_t.get_state())
rg_next = [random.random(), np.random.rand(), np.random.randn(), float(torch.rand(1)), rg_g.normal(), rg_r.gauss(0, 1), rg_m.random(), float(torch.rand(1, generator=rg_t))]
random.setstate(rg_state[0]); np.random.set_state(rg_state[1]); torch.set_rng_state(rg_state[2]); rg_g.bit_generator.state = rg_state[3]; rg_r.setstate(rg_state[4]); rg_m.bit_generator.state = rg_state[5]; rg_t.set_state(rg_state[6])""",
        "check": "rg_now = [random.random(), np.random.rand(), np.random.randn(), float(torch.rand(1)), rg_g.normal(), rg_r.gauss(0, 1), rg_m.random(), float(torch.rand(1, generator=rg_t))]\nassert rg_now == rg_next, (rg_now, rg_next)",
        "order": "last",
    },
    "settings_of_python": {
        "setup": """
import warnings, decimal, sys, locale, gc
warnings.filterwarnings('ignore', message='field.*'); warnings.simplefilter('always', ImportWarning)
decimal.getcontext().prec = 7; sys.setrecursionlimit(4321); st_rounding = decimal.getcontext().rounding""",
        "check": """
with warnings.catch_warnings(record=True) as caught:
    warnings.warn('field of no interest', UserWarning); warnings.warn('other', ImportWarning)
assert [str(w.message) for w in caught] == ['other']
assert decimal.Decimal(1) / 3 == decimal.Decimal('0.3333333') and sys.getrecursionlimit() == 4321""",
    },
    "settings_of_libraries": {
        "setup": """
import numpy as np, pandas as pd, matplotlib, matplotlib.pyplot as plt, torch
np.set_printoptions(precision=3, suppress=True); np.seterr(over='raise'); pd.set_option('display.max_rows', 7); pd.options.display.float_format = '{:.1f}'.format
matplotlib.rcParams['lines.linewidth'] = 4.5; torch.set_default_dtype(torch.float64); torch.set_printoptions(precision=2); torch.set_num_threads(1)""",
        "check": """
assert np.get_printoptions()['precision'] == 3 and np.geterr()['over'] == 'raise' and pd.get_option('display.max_rows') == 7 and '1.2' in pd.Series([1.23]).to_string()
assert matplotlib.rcParams['lines.linewidth'] == 4.5 and torch.tensor([1.0]).dtype is torch.float64 and torch.get_num_threads() == 1
torch.set_default_dtype(torch.float32)""",
    },
    "patched_things": {
        "setup": """
import builtins, pandas as pd, json
builtins.field_everywhere = lambda: 'here'
pd.DataFrame.field_shape = lambda self: f'{len(self)} rows'
json.field_note = {'a': 1}
pa_df = pd.DataFrame({'a': [1, 2]})""",
        "check": "assert field_everywhere() == 'here' and pa_df.field_shape() == '2 rows' and json.field_note == {'a': 1}",
    },
    "in_out_and_count": {
        "setup": """
io_obj = [1, 2]
# %%
io_obj
# %%
io_ahead = len(In) - get_ipython().execution_count; io_out = [v for v in Out.values() if v is io_obj][0]""",
        "check": "assert io_out is io_obj and any(v is io_obj for v in Out.values()) and 'io_obj = [1, 2]' in ''.join(In) and len(In) - get_ipython().execution_count == io_ahead",
    },
    "magics_and_formatters": {
        "setup": """
from IPython.core.magic import register_line_magic, register_cell_magic
@register_line_magic
def field_hi(line): return 'hi ' + line + mg_suffix
@register_cell_magic
def field_len(line, cell): return len(cell)
mg_suffix = '!'
get_ipython().run_line_magic('alias', 'field_echo echo said')
class MgThing: pass
get_ipython().display_formatter.formatters['text/html'].for_type(MgThing, lambda t: '<b>thing</b>')
get_ipython().run_line_magic('load_ext', 'autoreload')
mg_events = []
def mg_hook(result): mg_events.append(1)
get_ipython().events.register('post_run_cell', mg_hook)
get_ipython().run_line_magic('precision', '3')""",
        "check": """
ip = get_ipython()
assert ip.run_line_magic('field_hi', 'you') == 'hi you!' and ip.run_cell_magic('field_len', '', 'abcd') == 4 and 'field_echo' in dict(ip.alias_manager.aliases)
assert ip.display_formatter.format(MgThing())[0]['text/html'] == '<b>thing</b>' and any('autoreload' in name for name in ip.extension_manager.loaded)
assert ip.display_formatter.formatters['text/plain'].float_precision == '3'
mg_before = len(mg_events)
# %%
assert len(mg_events) > mg_before
get_ipython().events.unregister('post_run_cell', mg_hook)""",
    },
    "a_name_deleted_before": {
        "setup": "dl_gone = 1; dl_kept = [dl_gone]\n# %%\ndel dl_gone",
        "check": "assert dl_kept == [1] and 'dl_gone' not in globals()",
    },
    "context_variables_and_locals": {
        "setup": """
import contextvars, threading
cv_user = contextvars.ContextVar('cv_user', default='nobody'); cv_user.set('somebody')
cv_local = threading.local(); cv_local.x = 5""",
        "check": "assert cv_user.get() in ('somebody', 'nobody') and cv_user.name == 'cv_user'; cv_user.set('x'); assert cv_user.get() == 'x'",
        "may_lose": {"cv_local": "thread"},
    },
    "widgets": {
        "needs": "ipywidgets",
        "setup": """
import ipywidgets as W
wd_seen = []
wd_s = W.IntSlider(value=3, max=50, description='n'); wd_s.observe(lambda change: wd_seen.append(change['new']), 'value')
wd_l = W.Label(); W.jslink((wd_s, 'value'), (wd_l, 'value')); wd_box = W.HBox([wd_s, wd_l], layout=W.Layout(width='50%'))
wd_s.value = 7""",
        "check": """
assert wd_s.value == 7 and wd_s.max == 50 and wd_box.children[0] is wd_s and wd_box.layout.width == '50%' and wd_seen == [7]
wd_s.value = 9; assert wd_seen == [7, 9]
from IPython.display import display
display(wd_box); assert wd_box.comm is not None""",
    },
}

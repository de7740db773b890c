"""What a checkpoint must bring back: the user's own modules, from the files that they came from,
with no file changed by the imports of the test load and of the resume."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

from jupyter_gkews.kernel.checkpoint import landlock

_BEGIN = """
import os, sys, pathlib
if os.getcwd() not in sys.path:
    sys.path.insert(0, os.getcwd())
sys.dont_write_bytecode = False
def write(path, text):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(text)
# %%
"""
#: What stands at the begin of a check: the reasons of what was told for a name.
_TOLD = """
def told(name):
    return '; '.join(row['reason'] for row in report.rebuilt_details if row['name'] == name)
"""

ROWS: dict[str, dict[str, Any]] = {
    "module_that_opens_to_write": {
        "setup": _BEGIN
        + """
write('guarded_log.py', '''
import logging
OUT = open('guarded.csv', 'w'); OUT.write('header\\\\n'); OUT.flush()
def hidden():
    f = open('hidden.csv', 'w'); f.write('header\\\\n')
    return lambda x: (f.write(x), f.flush())
rec_hidden = hidden()
logging.basicConfig(filename='guarded.log', filemode='w', level='INFO', force=True)
def rec(x): OUT.write(x + '\\\\n'); OUT.flush()
''')
# %%
import guarded_log, logging
guarded_log.rec('1,2'); guarded_log.rec_hidden('3,4'); logging.info('hello')""",
        "check": _TOLD
        + """
import pathlib, logging
assert pathlib.Path('guarded.csv').read_text() == 'header\\n1,2\\n'
assert pathlib.Path('hidden.csv').read_text() == 'header\\n3,4'
assert pathlib.Path('guarded.log').read_text() == 'INFO:root:hello\\n'
guarded_log.rec('5,6'); guarded_log.rec_hidden('7,8'); logging.info('again')
assert pathlib.Path('guarded.csv').read_text() == 'header\\n1,2\\n5,6\\n'
assert pathlib.Path('hidden.csv').read_text() == 'header\\n3,47,8'
assert pathlib.Path('guarded.log').read_text() == 'INFO:root:hello\\nINFO:root:again\\n'
assert 'guarded.csv' in told('module guarded_log')
import builtins, io, os
assert builtins.open is io.open and type(os.remove) is type(len) and type(os.open) is type(len)""",
    },
    "module_that_ends_with_atexit": {
        "setup": _BEGIN
        + """
write('guarded_exit.py', '''
import atexit, os
LOCK = 'guarded.lock'
open(LOCK, 'a').close()
atexit.register(lambda: os.path.exists(LOCK) and os.remove(LOCK))
''')
# %%
import guarded_exit
assert os.path.exists('guarded.lock')""",
        "check": """
import os
assert os.path.exists('guarded.lock') and guarded_exit.LOCK == 'guarded.lock'""",
    },
    "module_that_removes_and_replaces": {
        "setup": _BEGIN
        + """
write('guarded_clean.py', '''
import os, shutil, json, tempfile, pathlib, sqlite3
if os.path.exists('out_dir'):
    shutil.rmtree('out_dir')
os.makedirs('out_dir')
if os.path.exists('old.txt'):
    os.remove('old.txt')
pathlib.Path('state.json.tmp').write_text('{}')
os.replace('state.json.tmp', 'state.json')
os.rename('moves.txt', 'moved.txt') if os.path.exists('moves.txt') else None
DB = sqlite3.connect('guarded.db')
DB.execute('drop table if exists t'); DB.execute('create table t (x)'); DB.commit()
with open('opened.txt', 'w', opener=lambda path, flags: os.open(path, flags)) as f: f.write('new')
TMP = tempfile.mkdtemp()
pathlib.Path(TMP, 'inside').write_text('new')
from os import unlink
''')
# %%
import guarded_clean
for path in ('out_dir/kept.txt', 'old.txt', 'state.json', 'moves.txt', 'opened.txt'):
    pathlib.Path(path).write_text('precious')
guarded_clean.DB.execute('insert into t values (7)'); guarded_clean.DB.commit()""",
        "check": _TOLD
        + """
import pathlib, os
for path in ('out_dir/kept.txt', 'old.txt', 'state.json', 'moves.txt', 'opened.txt'):
    assert pathlib.Path(path).read_text() == 'precious', path
assert not os.path.exists('moved.txt') and not os.path.exists('state.json.tmp')
assert guarded_clean.DB.execute('select x from t').fetchall() == [(7,)]
assert guarded_clean.unlink is os.unlink
assert 'old.txt' in told('module guarded_clean') and 'state.json' in told('module guarded_clean')
os.remove('old.txt')
assert not os.path.exists('old.txt')
import shutil; shutil.rmtree(guarded_clean.TMP)""",
    },
    "module_that_writes_natively": {
        "setup": _BEGIN
        + """
write('guarded_native.py', '''
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.open(b'native.bin', os.O_WRONLY | os.O_TRUNC | os.O_CREAT, 0o644)
if fd < 0:
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), 'native.bin')
libc.close(fd)
class Point:
    pass
''')
# %%
import guarded_native
pathlib.Path('native.bin').write_bytes(b'precious')
p = guarded_native.Point()""",
        "lost": ["module guarded_native", "p", "guarded_native"],
        "check": """
import pathlib
assert pathlib.Path('native.bin').read_bytes() == b'precious'""",
    },
    "object_that_opens_to_write_when_it_is_loaded": {
        "setup": _BEGIN
        + """
class Journal:
    def __init__(self, path): self.path = path; self.f = open(path, 'w')
    def __getstate__(self): return {'path': self.path}
    def __setstate__(self, state):
        self.path = state['path']; self.f = open(self.path, 'w')
journal = Journal('journal.txt')
journal.f.write('first\\n'); journal.f.flush()""",
        "check": _TOLD
        + """
import pathlib
assert pathlib.Path('journal.txt').read_text() == 'first\\n'
journal.f.write('second\\n'); journal.f.flush()
assert pathlib.Path('journal.txt').read_text() == 'first\\nsecond\\n'
assert 'journal.txt' in told('objects of cells')""",
    },
    "module_edited_after_its_import": {
        "setup": _BEGIN
        + """
write('guarded_edit.py', 'def f(): return 1\\nK = 1\\n')
write('guarded_const.py', 'def f(): return LIMIT\\nLIMIT = 1\\n')
# %%
import guarded_edit, guarded_const
write('guarded_edit.py', 'def f(): return 2222\\nK = 1\\n')
write('guarded_const.py', 'def f(): return LIMIT\\nLIMIT = 22222\\n')""",
        "check": _TOLD
        + """
assert guarded_edit.f() == 2222 and guarded_const.LIMIT == 1
""",
    },
    "module_of_the_folder_it_came_from": {
        "setup": _BEGIN
        + """
write('A/guarded_twin.py', 'def f(): return "A"\\nclass C: m = "A"\\n')
write('B/guarded_twin.py', 'def f(): return "B"\\nclass C: m = "B"\\n')
write('lib/guarded_popped.py', 'import guarded_below\\nN = []\\nclass C: pass\\n')
write('lib/guarded_below.py', 'X = 3\\n')
# %%
home = os.getcwd()
os.chdir('A'); sys.path.insert(0, '')
import guarded_twin
os.chdir('../B'); twin = guarded_twin.C()
os.chdir(home); sys.path.remove('')
sys.path.insert(0, 'lib')
import guarded_popped
sys.path.pop(0)
guarded_popped.N.append(4); popped = guarded_popped.C()
os.chdir('B'); sys.path.insert(0, '')""",
        "check": """
import os, sys
assert guarded_twin.f() == 'A' and twin.m == 'A' and type(twin) is guarded_twin.C
assert guarded_popped.N == [4] and type(popped) is guarded_popped.C and guarded_popped.guarded_below.X == 3
os.chdir(home); sys.path.remove('')
""",
    },
    "module_whose_file_is_gone": {
        "setup": _BEGIN
        + """
import shutil
write('guarded_gone.py', 'N = []\\nclass C:\\n    def m(self): return len(N)\\n')
write('guarded_pack/__init__.py', 'from .inner import f\\n')
write('guarded_pack/inner.py', 'def f(): return 11\\n')
write('guarded_bytes.py', 'def f(): return 12\\n')
# %%
import guarded_gone, guarded_pack, guarded_bytes
guarded_gone.N.append(1); gone = guarded_gone.C()
import linecache
linecache.getlines(guarded_gone.__file__)
for each in (guarded_pack, guarded_pack.inner):
    linecache.getlines(each.__file__)
os.remove('guarded_gone.py'); os.remove('guarded_bytes.py'); shutil.rmtree('guarded_pack')""",
        "check": _TOLD
        + """
assert gone.m() == 1 and guarded_gone.N == [1] and type(gone) is guarded_gone.C
assert guarded_pack.f() == 11 and guarded_bytes.f() == 12
assert 'takes its place' in told('module guarded_gone')
import inspect
assert 'len(N)' in inspect.getsource(guarded_gone.C.m)""",
    },
    "module_loaded_from_its_path": {
        "setup": _BEGIN
        + """
import importlib.util
write('elsewhere/plug.txt', 'N = []\\nclass C: pass\\n')
# %%
from importlib.machinery import SourceFileLoader
spec = importlib.util.spec_from_file_location('plugs.guarded_plug', 'elsewhere/plug.txt', loader=SourceFileLoader('plugs.guarded_plug', 'elsewhere/plug.txt'))
plug = importlib.util.module_from_spec(spec)
sys.modules['plugs.guarded_plug'] = plug
spec.loader.exec_module(plug)
plug.N.append(5); c = plug.C()""",
        "check": """
import sys
assert plug.N == [5] and type(c) is plug.C and sys.modules['plugs.guarded_plug'] is plug""",
    },
    "functions_that_change_files": {
        "setup": _BEGIN
        + """
import builtins, io, sqlite3, functools
real_open, real_remove, connect = open, os.remove, sqlite3.connect
opener = functools.partial(open, mode='r')
def counted(*args, **kwargs):
    return real_open(*args, **kwargs)
builtins.open = counted""",
        "check": """
import builtins, io, os, sqlite3
assert real_open is io.open and builtins.open is counted and opener.func is io.open
assert type(real_open) is type(len) and real_remove is os.remove and connect is sqlite3.connect
builtins.open = real_open""",
    },
    "entries_of_sys_modules": {
        "setup": """
import sys, types
class Config(types.ModuleType):
    base = 20
    @property
    def now(self): return self.base + self.offset
conf_made = Config('conf_made', 'doc'); conf_made.offset = 2
sys.modules['conf_made'] = conf_made
sys.modules['plain_made'] = types.SimpleNamespace(x=3)
class Lazy(types.ModuleType):
    def __getattr__(self, name):
        raise AttributeError(name) if name[:2] == '__' else RuntimeError('cannot be imported')
sys.modules[7] = types; sys.modules['evil_made'] = 5; sys.modules['none_made'] = None
sys.modules['lazy_made'] = Lazy('lazy_made')
def use():
    import conf_made as c, plain_made as p
    return c.now, p.x""",
        "check": """
assert use() == (22, 3) and type(conf_made) is Config and conf_made.__doc__ == 'doc'
import conf_made as again
assert again is conf_made""",
    },
    "class_of_a_module_with_a_class_of_a_cell": {
        "setup": _BEGIN
        + """
write('guarded_conf.py', 'class Base: pass')
# %%
import guarded_conf
class Mine: k = 5
guarded_conf.Base.extra = Mine""",
        "check": """
assert guarded_conf.Base.extra is Mine and guarded_conf.Base.extra.k == 5""",
    },
    "settings_of_the_standard_library": {
        "setup": """
import mimetypes, logging, sys
mimetypes.add_type('text/x-mine', '.mine'); mimetypes.add_type('text/x-loose', '.loose', False)
logging.addLevelName(25, 'NOTICE'); logging.disable(logging.DEBUG)
sys.ps1 = 'mine> '""",
        "check": """
import mimetypes, logging, sys
assert mimetypes.guess_type('a.mine')[0] == 'text/x-mine'
assert mimetypes.guess_type('a.loose', strict=False)[0] == 'text/x-loose'
assert logging.getLevelName(25) == 'NOTICE' and logging.root.manager.disable == logging.DEBUG
assert sys.ps1 == 'mine> '
logging.disable(logging.NOTSET); del sys.ps1""",
    },
    "names_that_a_cell_gives_itself": {
        "setup": """
__file__ = '/x/nb.py'
def where(): return __file__""",
        "check": """
assert __file__ == '/x/nb.py' and where() == '/x/nb.py'""",
    },
}
if not landlock.version():  # only Linux's Landlock holds native code back
    del ROWS["module_that_writes_natively"]

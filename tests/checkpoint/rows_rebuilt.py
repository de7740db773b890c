"""What a checkpoint must bring back: objects that are made again, family by family."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "files_of_every_mode": {
        "setup": """
import io, os, pathlib
def new(name, text='line1\\nline2\\nline3\\n'):
    with open(name, 'w', newline='') as file: file.write(text)
    return name
r = open(new('m_r')); r.readline()
rp = open(new('m_rp'), 'r+'); rp.read(3); rp.seek(rp.tell()); rp.write('XX')
w = open(new('m_w'), 'w'); w.write('new')
wp = open(new('m_wp'), 'w+'); wp.write('hello'); wp.seek(2)
a = open(new('m_a'), 'a'); a.write('more')
ap = open(new('m_ap'), 'a+'); ap.seek(6)
os.path.exists('m_x') and os.unlink('m_x'); x = open('m_x', 'x'); x.write('made')
os.path.exists('m_xb') and os.unlink('m_xb'); xb = open('m_xb', 'x+b'); xb.write(b'made'); xb.seek(1)
rb = open(new('m_rb'), 'rb'); rb.read(2); rb.peek(1)
wb = open(new('m_wb'), 'wb'); wb.write(b'12345')
ab = open(new('m_ab'), 'ab'); ab.write(b'!')
rpb = open(new('m_rpb'), 'rb+'); rpb.seek(3)
raw = open(new('m_raw'), 'rb', buffering=0); raw.read(3)
fd = os.open(new('m_fd'), os.O_RDWR); by_fd = os.fdopen(fd, 'r+'); by_fd.readline()
by_path = open(pathlib.Path(new('m_path'))); by_path.read(1)
by_bytes = open(b'm_path'); by_bytes.read(2)
latin = open('m_latin', 'w+', encoding='latin-1', newline='\\r\\n', errors='replace'); latin.write('\\xe9\\n\\u20ac\\n')
universal = open(new('m_uni', 'a\\r\\nb\\rc\\nd')); universal.readline()
verbatim = open('m_uni', newline=''); verbatim.readline()
cr = open('m_uni', newline='\\r'); cr.readline()
utf16 = open('m_16', 'w+', encoding='utf-16'); utf16.write('ab\\ncd\\n'); utf16.seek(0); utf16.readline()
lb = open('m_lb', 'w', buffering=1); lb.write('a')
wt = io.TextIOWrapper(open('m_wt', 'wb'), write_through=True)
layers = [r.buffer, r.buffer.raw]
null = open(os.devnull, 'w')
import codecs; old = codecs.open('m_r', 'r', 'utf-8'); old.readline()
text_of_bytes = io.TextIOWrapper(io.BytesIO(b'one\\ntwo\\n')); text_of_bytes.readline()
sio = io.StringIO('abc'); sio.read(1); bio = io.BytesIO(b'abc'); bio.read(2)
before = {n: open(n, 'rb').read() for n in os.listdir('.') if n.startswith('m_') and os.path.isfile(n)}
os.makedirs('elsewhere', exist_ok=True)""",
        "check": """
import os
assert report.lost == [], report.lost
assert r.readline() == 'line2\\n' and r.name == 'm_r' and r.mode == 'r'
assert layers[0] is r.buffer and layers[1] is r.buffer.raw
rp.write('Y'); rp.flush(); assert open('m_rp').read() == 'linXXYline2\\nline3\\n'
w.write('er'); w.close(); assert open('m_w').read() == 'newer' and w.mode == 'w'
assert wp.read() == 'llo' and wp.mode == 'w+'
a.write('!'); a.close(); assert open('m_a').read() == 'line1\\nline2\\nline3\\nmore!'
assert ap.read() == 'line2\\nline3\\n'; ap.write('z'); ap.close(); assert open('m_ap').read().endswith('3\\nz')
x.write('2'); x.close(); assert open('m_x').read() == 'made2' and x.mode == 'x'
assert xb.read() == b'ade' and rb.read(3) == b'ne1' and rb.mode == 'rb'
wb.write(b'6'); wb.close(); assert open('m_wb').read() == '123456'
ab.write(b'?'); ab.close(); assert open('m_ab').read().endswith('3\\n!?')
assert rpb.read(3) == b'e1\\n' and raw.read(3) == b'e1\\n' and raw.tell() == 6
assert by_fd.readline() == 'line2\\n' and by_path.read(2) == 'in' and by_bytes.read(1) == 'n' and by_bytes.name == b'm_path'
latin.write('x\\n'); latin.flush(); assert open('m_latin', 'rb').read() == b'\\xe9\\r\\n?\\r\\nx\\r\\n' and latin.encoding == 'latin-1' and latin.errors == 'replace'
assert universal.read() == 'b\\nc\\nd' and verbatim.readline() == 'b\\r' and cr.readline() == '\\nb\\r'
assert utf16.readline() == 'cd\\n'; utf16.write('e'); utf16.flush(); assert open('m_16', encoding='utf-16').read() == 'ab\\ncd\\ne'
lb.write('b\\n'); assert open('m_lb').read() == 'ab\\n' and lb.line_buffering
wt.write('now'); wt.buffer.flush(); assert wt.write_through and open('m_wt').read() == 'now'
null.write('x'); null.flush()
assert old.readline() == 'line2\\n' and old.readline() == 'line3\\n'; old.close()
assert text_of_bytes.readline() == 'two\\n' and sio.read() == 'bc' and bio.read() == b'c'
for each in (rp, wp, xb, rb, rpb, raw, by_fd, by_path, by_bytes, latin, universal, verbatim, cr, utf16, lb, wt, r, null): each.close()""",
    },
    "files_in_a_for_loop": {
        "setup": """
def at_second(file):
    for line in file: break
    return file
def new(name, data):
    with open(name, 'wb') as file: file.write(data)
    return name
plain = at_second(open(new('l1', b'a\\nb\\nc\\n')))
crlf = at_second(open(new('l2', b'a\\r\\nb\\r\\nc\\r\\n')))
verbatim = at_second(open('l2', newline=''))
wide = at_second(open(new('l3', 'é1\\nü2\\n€3\\n'.encode() * 5000), encoding='utf-8'))
utf16 = at_second(open(new('l4', 'é1\\nü2\\n'.encode('utf-16')), encoding='utf-16'))
bom = at_second(open(new('l5', 'x\\ny\\nz\\n'.encode('utf-8-sig')), encoding='utf-8-sig'))
jis = at_second(open(new('l6', 'あ\\nい\\n'.encode('shift_jis')), encoding='shift_jis'))
bad = at_second(open(new('l7', b'a\\xff\\nb\\xff\\nc'), encoding='utf-8', errors='replace'))
last = open('l1')
for line in last: pass
binary = at_second(open('l1', 'rb'))
numbered = enumerate(open('l1')); next(numbered)
import json
records = map(json.loads, open(new('l8', b'{"a": 1}\\n{"a": 2}\\n'))); next(records)""",
        "check": """
assert report.lost == [], report.lost
assert list(plain) == ['b\\n', 'c\\n'] and list(crlf) == ['b\\n', 'c\\n'] and list(verbatim) == ['b\\r\\n', 'c\\r\\n']
rest = list(wide); assert rest[0] == 'ü2\\n' and rest[1] == '€3\\n' and len(rest) == 14999
assert list(utf16) == ['ü2\\n'] and list(bom) == ['y\\n', 'z\\n'] and list(jis) == ['い\\n'] and list(bad) == ['b\\ufffd\\n', 'c']
assert list(last) == [] and next(binary) == b'b\\n' and next(numbered) == (1, 'b\\n') and next(records) == {'a': 2}""",
    },
    "closed_files_are_not_touched": {
        "setup": """
import os
def closed(name, mode, **options):
    with open(name, mode, **options) as file: pass
    return file
open('c1', 'w').write('text')
done = [closed('c1', 'r'), closed('c1', 'rb'), closed('c2', 'w', encoding='latin-1'), closed('c3', 'ab'), closed('c1', 'rb', buffering=0), closed('c1', 'r+b')]
os.unlink('c2')
closed_before = [(type(f).__name__, f.name, f.mode) for f in done]""",
        "check": """
import os
assert report.lost == [] and all(f.closed for f in done) and not os.path.exists('c2') and open('c1').read() == 'text'
assert [(type(f).__name__, f.name, f.mode) for f in done] == closed_before
assert done[2].encoding == 'latin-1'
try: done[0].read()
except ValueError as error: assert 'closed' in str(error)
else: assert False""",
    },
    "files_moved_or_deleted_before_the_pause": {
        "setup": """
import os
os.makedirs('moved', exist_ok=True)
open('f1', 'w').write('a\\nb\\n'); open('f2', 'w').write('c\\nd\\n'); open('f3', 'w').write('old')
moved = open('f1'); moved.readline(); os.rename('f1', 'moved/f1')
gone = open('f2', 'r+'); gone.readline(); os.unlink('f2')
replaced = open('f3', 'a+'); os.unlink('f3'); open('f3', 'w').write('other')
os.chdir('moved'); local = open('local', 'w'); os.chdir('..')
pipe_r, pipe_w = os.pipe(); pipe = os.fdopen(pipe_r); ok = [1]""",
        "check": """
import os
assert moved.readline() == 'b\\n' and gone.readline() == 'd\\n' and not os.path.exists('f2')
gone.write('e\\n'); gone.seek(0); assert gone.read() == 'c\\nd\\ne\\n'
replaced.seek(0); assert replaced.read() == 'old' and open('f3').read() == 'other'
local.write('x'); local.close(); assert open('moved/local').read() == 'x' and not os.path.exists('local')
assert ok == [1]""",
        "lost": ["pipe"],
    },
    "temporary_files": {
        "setup": """
import os, tempfile
named = tempfile.NamedTemporaryFile('w+', suffix='.txt'); named.write('hello\\n'); named.seek(2)
path = named.name
kept = tempfile.NamedTemporaryFile(delete=False); kept.write(b'x'); kept.flush()
nameless = tempfile.TemporaryFile(); nameless.write(b'0123456789'); nameless.seek(4)
big = tempfile.TemporaryFile(); big.write(bytes(range(256)) * 8192); big.seek(0)
spooled = tempfile.SpooledTemporaryFile(max_size=100, mode='w+'); spooled.write('abc'); spooled.seek(1)
rolled = tempfile.SpooledTemporaryFile(max_size=2); rolled.write(b'abcdef'); rolled.seek(3)
folder = tempfile.TemporaryDirectory(); os.makedirs(folder.name + '/deep/er')
open(folder.name + '/deep/er/f', 'w').write('content'); os.symlink('deep', folder.name + '/link')
os.chmod(folder.name + '/deep/er/f', 0o640)
inside = open(folder.name + '/deep/er/f'); inside.read(3)
cleaned = tempfile.TemporaryDirectory(); cleaned.cleanup()
over = tempfile.NamedTemporaryFile(); over.close()
here = [path, kept.name, folder.name]""",
        "check": """
import os, stat
assert report.lost == [], report.lost
assert all(map(os.path.exists, here)) and named.name == path and open(path).read() == 'hello\\n'
assert named.read() == 'llo\\n'; named.close(); assert not os.path.exists(path)
kept.write(b'y'); kept.close(); assert open(kept.name).read() == 'xy'; os.unlink(kept.name)
assert nameless.read() == b'456789' and big.read() == bytes(range(256)) * 8192
assert spooled.read() == 'bc' and not spooled._rolled and rolled.read() == b'def' and rolled._rolled
assert inside.read() == 'tent' and os.readlink(folder.name + '/link') == 'deep'
folder.cleanup(); assert not os.path.exists(here[2]); cleaned.cleanup()
assert over.closed; del over""",
    },
    "compressed_files_and_archives": {
        "setup": """
import bz2, gzip, io, lzma, tarfile, zipfile
lines = ''.join(f'line {i}\\n' for i in range(5000))
with gzip.open('a.gz', 'wt') as f: f.write(lines)
with bz2.open('a.bz2', 'wt') as f: f.write(lines)
with lzma.open('a.xz', 'wt') as f: f.write(lines)
gz = gzip.open('a.gz'); gz.readline()
gzt = gzip.open('a.gz', 'rt'); gzt.readline()
loop = gzip.open('a.gz', 'rt', encoding='utf-8')
for line in loop:
    if line == 'line 7\\n': break
bz = bz2.open('a.bz2', 'rt'); bz.readline()
xz = lzma.open('a.xz'); xz.read(7)
raw_lzma = lzma.LZMAFile(io.BytesIO(lzma.compress(b'abcdef', format=lzma.FORMAT_ALONE)), format=lzma.FORMAT_ALONE); raw_lzma.read(2)
on_bytes = gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(b'abcdef'))); on_bytes.read(3)
out = gzip.open('out.gz', 'wb'); out.write(b'first,' * 1000)
outt = gzip.open('outt.gz', 'wt'); outt.write('one\\n')
half = bz2.open('half.bz2', 'wb'); half.write(b'x')
done = gzip.open('a.gz'); done.close()
with zipfile.ZipFile('a.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('in.txt', lines); z.writestr('b', 'bb')
zr = zipfile.ZipFile('a.zip'); member = zr.open('in.txt'); member.readline()
zw = zipfile.ZipFile('w.zip', 'w'); zw.writestr('one', '1')
open('t.txt', 'w').write('tar')
with tarfile.open('a.tgz', 'w:gz') as t: t.add('t.txt'); t.add('a.gz')
tar = tarfile.open('a.tgz'); first = tar.next()
plain_tar = tarfile.open('b.tar', 'w'); plain_tar.add('t.txt')""",
        "check": """
assert gz.readline() == b'line 1\\n' and gzt.readline() == 'line 1\\n' and next(loop) == 'line 8\\n' and bz.readline() == 'line 1\\n' and xz.readline() == b'line 1\\n'
assert raw_lzma.read() == b'cdef' and on_bytes.read() == b'def' and done.closed
out.write(b'second'); out.close(); outt.write('two\\n'); outt.close()
import gzip
with gzip.open('out.gz') as f: assert f.read() == b'first,' * 1000 + b'second'
with gzip.open('outt.gz', 'rt') as f: assert f.read() == 'one\\ntwo\\n'
assert zr.read('b') == b'bb' and member.readline() == b'line 1\\n' and zr.namelist() == ['in.txt', 'b']
zw.writestr('two', '2'); zw.close()
import zipfile, tarfile
with zipfile.ZipFile('w.zip') as z: assert z.read('one') == b'1' and z.read('two') == b'2' and z.testzip() is None
assert first.name == 't.txt' and tar.extractfile('t.txt').read() == b'tar' and tar.getnames() == ['t.txt', 'a.gz']
plain_tar.add('a.gz'); plain_tar.close()
with tarfile.open('b.tar') as t: assert t.getnames() == ['t.txt', 'a.gz']
assert 'compressor' in {l['name']: l['reason'] for l in report.lost}['half']
for each in (gz, gzt, loop, bz, xz, member, zr, tar): each.close()""",
        "lost": ["half"],
    },
    "csv_in_mid_file": {
        "setup": """
import csv
with open('t.csv', 'w', newline='') as f: f.write('a;b\\r\\n1;"x\\r\\ny"\\r\\n2;z\\r\\n3;w\\r\\n')
f = open('t.csv', newline=''); rows = csv.reader(f, delimiter=';'); next(rows); next(rows)
g = open('t.csv', newline=''); dicts = csv.DictReader(g, delimiter=';'); next(dicts)
out = open('o.csv', 'w', newline=''); table = csv.writer(out, delimiter='|', quoting=csv.QUOTE_ALL); table.writerow([1, 'a'])
named = csv.DictWriter(open('n.csv', 'w', newline=''), ['p', 'q']); named.writeheader()
dialect = table.dialect
memory = csv.reader(['a,b', 'c,d']); next(memory)""",
        "check": """
assert report.lost == [], report.lost
assert rows.line_num == 3 and next(rows) == ['2', 'z'] and rows.line_num == 4 and rows.dialect.delimiter == ';'
assert next(dicts) == {'a': '2', 'b': 'z'} and next(dicts) == {'a': '3', 'b': 'w'}
table.writerow([2, 'b']); out.close(); assert open('o.csv', newline='').read() == '"1"|"a"\\r\\n"2"|"b"\\r\\n'
named.writerow({'p': 1, 'q': 2}); named.writer; assert dialect.delimiter == '|' and next(memory) == ['c', 'd']""",
    },
    "memory_maps": {
        "setup": """
import mmap, os, tempfile
import numpy as np
np.arange(2000, dtype='f8').tofile('n.bin')
whole = np.memmap('n.bin', 'f8', 'r+'); whole[0] = 7
part = whole[10:20]; plain = np.asarray(whole)[::3]; square = whole[:100].reshape(10, 10).T
only_view = np.memmap('n.bin', 'f8', 'r')[5:8]
fortran = np.memmap('n.bin', 'f8', 'r', offset=80, shape=(10, 5), order='F'); column = fortran[:, 1]
private = np.memmap('n.bin', 'f8', 'c'); private[1] = -1; private[1999] = -2
np.save('s.npy', np.arange(12).reshape(3, 4)); loaded = np.load('s.npy', mmap_mode='r')
made = np.memmap('made.bin', 'i4', 'w+', shape=(4,)); made[:] = 3
gone = np.memmap('gone.bin', 'i4', 'w+', shape=(4,)); gone[:] = 4; os.unlink('gone.bin')
rw = open('n.bin', 'r+b'); shared = mmap.mmap(rw.fileno(), 0); shared.seek(16)
ro = mmap.mmap(rw.fileno(), 4096, access=mmap.ACCESS_READ)
cow = mmap.mmap(rw.fileno(), 4096, access=mmap.ACCESS_COPY, offset=4096); cow[0:3] = b'abc'
split = mmap.mmap(rw.fileno(), 12288, access=mmap.ACCESS_COPY); split[8192:8195] = b'xyz'
split.madvise(mmap.MADV_RANDOM, 4096, 4096)  # one map is several regions now
anonymous = mmap.mmap(-1, 5000); anonymous.write(b'hello'); anonymous.seek(1)
closed = mmap.mmap(-1, 10); closed.close()""",
        "check": """
import numpy as np
assert report.lost == [], report.lost
assert type(whole) is np.memmap and whole.mode == 'r+' and whole[0] == 7 and whole[1999] == 1999
part[0] = 55; assert whole[10] == 55 and type(part) is np.memmap and type(plain) is np.ndarray
whole[3] = 33; assert plain[1] == 33 and square[3, 0] == 33 and square.shape == (10, 10)
whole.flush(); assert np.fromfile('n.bin', 'f8')[10] == 55 and only_view.tolist() == [5, 6, 7]
assert fortran[1, 0] == 11 and column[0] == 20 and fortran.flags.f_contiguous and np.shares_memory(column, fortran)
assert private[1] == -1 and private[1999] == -2 and private[2] == 2 and private.mode == 'c'
assert np.fromfile('n.bin', 'f8')[1] == 1 and loaded[2, 3] == 11 and loaded.mode == 'r' and not loaded.flags.writeable
made[0] = 9; made.flush(); assert np.fromfile('made.bin', 'i4').tolist() == [9, 3, 3, 3]
assert gone.tolist() == [4] * 4
assert np.frombuffer(shared, 'f8')[0] == 7 and shared.tell() == 16 and np.frombuffer(ro, 'f8')[0] == 7
shared[0:8] = np.float64(8).tobytes(); assert np.frombuffer(ro, 'f8')[0] == 8 and whole[0] == 8
assert cow[0:3] == b'abc' and np.fromfile('n.bin', 'f8')[512] == 512
assert split[8192:8195] == b'xyz' and np.fromfile('n.bin', 'f8')[1024] == 1024
assert anonymous.read(4) == b'ello' and len(anonymous) == 5000 and closed.closed""",
    },
    "locks_conditions_barriers": {
        "setup": """
import threading
lock = threading.Lock(); lock.acquire(); same = [lock]
rlock = threading.RLock(); rlock.acquire()
event = threading.Event()
bounded = threading.BoundedSemaphore(2); bounded.acquire()
condition = threading.Condition(lock2 := threading.Lock())
barrier = threading.Barrier(2); broken = threading.Barrier(2); broken.abort()
class Mine(threading.Semaphore):
    tag = 'mine'
mine = Mine(4); mine.extra = [lock]
waiter = threading.Thread(target=lambda: (condition.acquire(), condition.wait()), daemon=True); waiter.start()
at_barrier = threading.Thread(target=barrier.wait, daemon=True); at_barrier.start()
other = threading.RLock()
def hold(): other.acquire(); event.wait()
holder = threading.Thread(target=hold, daemon=True, name='holder'); holder.start()
import time
while not (condition._waiters and barrier.n_waiting and 'count=1' in repr(other)): time.sleep(.01)""",
        "check": """
import threading
assert lock.locked() and same[0] is lock and mine.extra[0] is lock and type(mine).tag == 'mine'
lock.release(); rlock.release(); bounded.release()
try: bounded.release()
except ValueError: pass
else: assert False
assert condition._lock is lock2
heard = []
def listen():
    with condition: heard.append(condition.wait(20))
t = threading.Thread(target=listen); t.start()
while not condition._waiters: pass
with condition: condition.notify()
t.join(20); assert heard == [True], 'the notify went to a thread that is gone'
met = threading.Thread(target=barrier.wait); met.start(); barrier.wait(20); met.join()
assert broken.broken and other.acquire(timeout=1) and sum(mine.acquire(blocking=False) for _ in range(9)) == 4
reasons = {l['name']: l['reason'] for l in report.lost}
assert "'holder' was running" in reasons['holder']
told = {r['name']: r['reason'] for r in report.rebuilt_details}
assert 'release it yourself' in told['lock'] and 'free again' in told['other'] and 'barrier' in told['barrier']""",
        "lost": ["waiter", "at_barrier", "holder"],
    },
    "queues": {
        "setup": """
import queue, threading, time
fifo = queue.Queue(5); fifo.put('a'); fifo.put(fifo); fifo.put([1]); fifo.get()
lifo = queue.LifoQueue(); lifo.put(1); lifo.put(2)
prio = queue.PriorityQueue(); prio.put((3, 'c')); prio.put((1, 'a'))
simple = queue.SimpleQueue(); item = ['x']; simple.put(item); simple.put(simple)
class Named(queue.Queue):
    def __init__(self, name): super().__init__(2); self.name = name
named = Named('n'); named.put(item)
waited = queue.Queue()
worker = threading.Thread(target=waited.get, daemon=True); worker.start()
while not waited.not_empty._waiters: time.sleep(.01)""",
        "check": """
import threading
assert fifo.get(timeout=1) is fifo and fifo.get(timeout=1) == [1] and fifo.maxsize == 5 and fifo.unfinished_tasks == 3
for _ in range(3): fifo.task_done()
fifo.join(); assert lifo.get() == 2 and lifo.get() == 1 and prio.get() == (1, 'a') and prio.get() == (3, 'c')
assert simple.get() is item and simple.get() is simple and simple.empty()
assert named.name == 'n' and named.get() is item and named.maxsize == 2
got = []
t = threading.Thread(target=lambda: got.append(waited.get(timeout=20))); t.start()
while not waited.not_empty._waiters: pass
waited.put('hello'); t.join(20); assert got == ['hello']""",
        "lost": ["worker"],
    },
    "threads_pools_futures_processes": {
        "setup": """
import concurrent.futures as cf, multiprocessing, multiprocessing.pool, subprocess, sys, threading
ran = []
todo = threading.Thread(target=ran.append, args=(1,), name='todo', daemon=True)
class Work(threading.Thread):
    def __init__(self, n): super().__init__(); self.n = n; self.result = None
    def run(self): self.result = self.n * 2
ended = Work(21); ended.start(); ended.join()
later = Work(4)
timer = threading.Timer(1000, ran.append, [2])
main = threading.main_thread()
class Store(threading.local):
    def __init__(self, base): self.base = base
store = Store(7); store.mine = [1]
def init(x): local.x = x
local = threading.local()
pool = cf.ThreadPoolExecutor(2, 'name', init, (5,)); ok = pool.submit(lambda: local.x); ok.result()
closed = cf.ThreadPoolExecutor(1); closed.shutdown()
failed = pool.submit(int, 'x'); failed.exception()
stopped = cf.Future(); stopped.cancel()
processes = cf.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context('fork'))
threads = multiprocessing.pool.ThreadPool(2); threads.map(abs, [1])
from multiprocessing.shared_memory import SharedMemory
shared = SharedMemory(create=True, size=16); shared.buf[0] = 5
import atexit; atexit.register(shared.unlink)
forked = multiprocessing.Pool(1); forked.terminate(); forked.join()
bad = subprocess.Popen([sys.executable, '-c', 'import sys; sys.exit(3)']); bad.wait()
unseen = subprocess.Popen([sys.executable, '-c', 'import sys; sys.exit(4)'])
import os; os.waitid(os.P_PID, unseen.pid, os.WEXITED | os.WNOWAIT)
done = subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True, text=True)
runs = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)
import atexit; atexit.register(runs.kill)""",
        "check": """
import threading
todo.start(); todo.join(10); assert ran == [1] and todo.name == 'todo' and todo.daemon
assert ended.result == 42 and not ended.is_alive() and ended.ident is not None; ended.join()
later.start(); later.join(); assert later.result == 8 and timer.interval == 1000 and main is threading.main_thread()
try: ended.start()
except RuntimeError: pass
else: assert False
assert store.mine == [1] and store.base == 7
seen = []
t = threading.Thread(target=lambda: seen.append(store.base)); t.start(); t.join(); assert seen == [7]
assert ok.result() == 5 and pool.submit(lambda: local.x).result() == 5 and pool._thread_name_prefix == 'name'
assert isinstance(failed.exception(), ValueError) and stopped.cancelled()
try: closed.submit(abs, 1)
except RuntimeError: pass
else: assert False
assert processes.submit(pow, 2, 5).result() == 32 and threads.map(abs, [-1, -2]) == [1, 2]
assert bad.returncode == 3 and bad.wait() == 3 and unseen.poll() == 4 and done.stdout == '1\\n'
reasons = {l['name']: l['reason'] for l in report.lost}
assert 'copy it' in reasons['shared']
assert 'input()' in reasons['runs'] and 'pool' in reasons['forked']
pool.shutdown(); processes.shutdown(); threads.terminate()""",
        "lost": ["runs", "forked", "shared"],
    },
    "asyncio_and_context_variables": {
        "setup": """
import asyncio, contextvars
var = contextvars.ContextVar('var', default='d'); unset = contextvars.ContextVar('unset')
token = var.set(['mine']); context = contextvars.copy_context(); context.run(unset.set, 3)
async def work():
    global lock, event, queue, task, error, waiting, semaphore, condition, future
    lock = asyncio.Lock(); await lock.acquire()
    event = asyncio.Event(); event.set()
    queue = asyncio.Queue(3); await queue.put('a'); await queue.put('b')
    semaphore = asyncio.Semaphore(2); await semaphore.acquire()
    condition = asyncio.Condition()
    waiting = asyncio.ensure_future(condition_wait())
    getter = asyncio.ensure_future(asyncio.Queue().get())
    async def value(): return [42]
    async def fail(): raise KeyError('no')
    task = asyncio.ensure_future(value()); error = asyncio.ensure_future(fail())
    await asyncio.wait([task, error]); await asyncio.sleep(0)
    future = asyncio.get_running_loop().create_future()
    getter.cancel()
async def condition_wait():
    async with condition: await condition.wait()
loop = asyncio.new_event_loop(); loop.run_until_complete(work())""",
        "check": """
import asyncio
assert var.get() == ['mine'] and unset.get('none') == 'none' and context[unset] == 3 and context[var] is var.get()
import contextvars
assert contextvars.Context().run(var.get) == 'd' and var.name == 'var'
assert task.result() == [42] and isinstance(error.exception(), KeyError)
async def use():
    assert lock.locked(); lock.release(); await asyncio.wait_for(lock.acquire(), 5)
    assert event.is_set() and await queue.get() == 'a' and await queue.get() == 'b' and queue.maxsize == 3
    await semaphore.acquire(); assert semaphore.locked()
    async with condition: condition.notify_all()
    return await task
assert asyncio.run(use()) == [42]""",
        "lost": ["token", "loop", "waiting", "future"],
    },
    "small_objects_of_the_standard_library": {
        "setup": """
import ctypes, os, random, struct, weakref, hashlib, zlib, re, array, decimal, operator, string, typing, zoneinfo, ipaddress, argparse, select, selectors
import http.cookiejar, email.message, xml.etree.ElementTree as ET, xml.dom.minidom
packed = struct.Struct('<id'); system = random.SystemRandom(); rnd = random.Random(3); rnd.random(); want = rnd.getstate()
open('entry', 'w').close(); entry = next(e for e in os.scandir('.') if e.name == 'entry')
class Owner: pass
owner = Owner(); calls = []
final = weakref.finalize(owner, calls.append, 'bye'); dead = weakref.finalize(owner, calls.append, 1); dead.detach()
libc = ctypes.CDLL(None); strlen = libc.strlen; strlen.restype = ctypes.c_size_t; strlen.argtypes = [ctypes.c_char_p]
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: x + 1)
digest = hashlib.sha256(b'x'); compressor = zlib.compressobj(); poll = select.epoll(); selector = selectors.DefaultSelector(); scan = os.scandir('.')
pattern = re.compile('a(b)', re.I); match = pattern.search('xAB'); arr = array.array('d', [1, 2])
context = decimal.Context(prec=5); getter = operator.itemgetter(1, 2); template = string.Template('$a'); kind = typing.Optional[typing.List[int]]
zone = zoneinfo.ZoneInfo('Europe/Berlin'); net = ipaddress.ip_network('10.0.0.0/8')
parser = argparse.ArgumentParser(prog='p'); parser.add_argument('--n', type=int)
jar = http.cookiejar.CookieJar(); mail = email.message.EmailMessage(); mail['Subject'] = 's'; mail.set_content('c')
tree = ET.fromstring('<a><b x="1"/></a>'); child = tree[0]; dom = xml.dom.minidom.parseString('<a><b/></a>')
ok = [1]""",
        "check": """
import ctypes, weakref
assert packed.unpack(packed.pack(1, 2.0)) == (1, 2.0) and 0 <= system.random() < 1 and rnd.getstate() == want
assert entry.name == 'entry' and entry.is_file() and final.alive and not dead.alive
del owner
import gc; report.values = None; gc.collect()
assert calls == ['bye'] and not final.alive
assert strlen(b'four') == 4 and libc.strlen is strlen and compare(4) == 5
assert pattern.match('AB') and arr.tolist() == [1, 2] and context.prec == 5 and getter('abc') == ('b', 'c')
assert template.substitute(a=1) == '1' and zone.key == 'Europe/Berlin' and net.num_addresses == 2 ** 24
assert parser.parse_args(['--n', '3']).n == 3 and len(jar) == 0 and mail['Subject'] == 's' and mail.get_content() == 'c\\n'
assert tree[0] is child and child.get('x') == '1' and dom.documentElement.tagName == 'a' and ok == [1]
reasons = {l['name']: l['reason'] for l in report.lost}
assert all(reasons.values())""",
        "lost": ["digest", "compressor", "poll", "selector", "scan", "match"],
    },
    "loggers": {
        "setup": """
import logging, logging.config, logging.handlers, queue, sys
logging.config.dictConfig({'version': 1, 'disable_existing_loggers': False, 'handlers': {'f': {'class': 'logging.FileHandler', 'filename': 'conf.log'}}, 'loggers': {'conf': {'handlers': ['f'], 'level': 'INFO', 'propagate': False}}})
logging.getLogger('conf').info('c1')
logging.basicConfig(filename='root.log', level=logging.INFO, format='%(levelname)s:%(message)s')
logging.info('root before')
rotating = logging.getLogger('app.rotating'); rotating.propagate = False
rotating.addHandler(logging.handlers.RotatingFileHandler('rot.log', maxBytes=30, backupCount=2)); rotating.warning('r1')
timed = logging.handlers.TimedRotatingFileHandler('timed.log', when='D', delay=True)
del rotating
once = logging.FileHandler('once.log', 'w'); once.setFormatter(logging.Formatter('<%(message)s>')); once.set_name('once')
class Only(logging.Filter):
    def filter(self, record): return 'no' not in record.getMessage()
once.addFilter(Only())
child = logging.getLogger('app.child'); child.addHandler(once); child.setLevel(logging.DEBUG); child.propagate = False; child.debug('one')
memory = logging.handlers.MemoryHandler(10, target=once, flushLevel=logging.CRITICAL); parent = logging.getLogger('app'); parent.addHandler(memory); parent.propagate = False
parent.info('held'); parent.disabled = False
off = logging.getLogger('app.off'); off.disabled = True
records = queue.Queue(); sent = logging.getLogger('sent'); sent.propagate = False; sent.addHandler(logging.handlers.QueueHandler(records)); sent.setLevel(10)
target = logging.FileHandler('target.log'); listener = logging.handlers.QueueListener(records, target); listener.start()
class Mine(logging.Handler):
    def __init__(self): super().__init__(); self.seen = []
    def emit(self, record): self.seen.append(record.getMessage())
mine = Mine(); loud = logging.getLogger('loud'); loud.addHandler(mine); loud.propagate = False; loud.warning('m1')
adapter = logging.LoggerAdapter(loud, {'a': 1})
out = logging.StreamHandler(sys.stdout); logging.getLogger('urllib3').setLevel(logging.ERROR)
logging.addLevelName(25, 'NOTE')""",
        "check": """
import logging, sys
assert report.lost == [] and report.process == [], (report.lost, report.process)
logging.info('root after'); logging.debug('never')
assert open('root.log').read() == 'INFO:root before\\nINFO:root after\\n' and len(logging.getLogger().handlers) == 1
r = logging.getLogger('app.rotating'); r.warning('r2'); r.warning('x' * 40); r.warning('r3')
assert open('rot.log.1').read().startswith('xxx') and open('rot.log').read() == 'r3\\n' and 'r1\\nr2' in open('rot.log.2').read()
child.debug('two'); child.debug('no'); assert open('once.log').read() == '<one>\\n<two>\\n'
assert logging.getHandlerByName('once') is once if hasattr(logging, 'getHandlerByName') else True
memory.flush(); assert open('once.log').read().endswith('<held>\\n') and memory.target is once
assert off.disabled and logging.getLogger('app.child').parent is parent
sent.info('by queue'); listener.stop(); assert open('target.log').read() == 'by queue\\n'
logging.getLogger('conf').info('c2'); assert open('conf.log').read() == 'c1\\nc2\\n' and not logging.getLogger('conf').propagate
adapter.warning('m2'); assert mine.seen == ['m1', 'm2'] and adapter.logger is loud
assert out.stream is sys.stdout and logging.getLogger('urllib3').level == logging.ERROR
timed.emit(logging.makeLogRecord({'msg': 't'})); assert open('timed.log').read() == 't\\n'
for h in logging.getLogger().handlers[:]: logging.getLogger().removeHandler(h); h.close()
logging.getLogger().setLevel(logging.WARNING)""",
    },
    "sqlite": {
        "setup": """
import sqlite3
db = sqlite3.connect('mine.db', isolation_level=None, detect_types=sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES, check_same_thread=False, timeout=9)
db.execute('CREATE TABLE t (n INTEGER, d TEXT)'); db.executemany('INSERT INTO t VALUES (?, ?)', [(i, str(i)) for i in range(5)])
db.execute('PRAGMA foreign_keys = ON'); db.row_factory = sqlite3.Row
db.execute("ATTACH 'other.db' AS other"); db.execute('CREATE TABLE other.o (x)'); db.execute('INSERT INTO other.o VALUES (7)')
rows = db.execute('SELECT n, d AS "a b" FROM t').fetchall(); cursor = db.execute('SELECT * FROM t'); cursor.fetchone()
memory = sqlite3.connect(':memory:'); memory.execute('CREATE TABLE m (x)'); memory.execute('INSERT INTO m VALUES (1)'); memory.commit()
memory.execute('INSERT INTO m VALUES (2)')
memory.create_function('twice', 1, lambda x: 2 * x); memory.text_factory = bytes
open_work = sqlite3.connect('work.db'); open_work.execute('CREATE TABLE w (x)'); open_work.commit(); open_work.execute('INSERT INTO w VALUES (1)')
with sqlite3.connect('ro.db') as ro: ro.execute('CREATE TABLE t (x)')
ro.close(); del ro
read_only = sqlite3.connect('file:ro.db?mode=ro', uri=True)
class Mine(sqlite3.Connection):
    tag = None
mine = sqlite3.connect('mine.db', factory=Mine); mine.tag = [rows]
closed = sqlite3.connect(':memory:'); closed.close()""",
        "check": """
import sqlite3, threading
assert report.lost == [], report.lost
assert [tuple(r) for r in db.execute('SELECT n FROM t')] == [(i,) for i in range(5)] and db.isolation_level is None
assert db.row_factory is sqlite3.Row and db.execute('PRAGMA foreign_keys').fetchone()[0] == 1 and db.execute('PRAGMA busy_timeout').fetchone()[0] == 9000
assert db.execute('SELECT x FROM other.o').fetchone()['x'] == 7
assert rows[2]['a b'] == '2' and rows[2].keys() == ['n', 'a b'] and type(rows[0]) is sqlite3.Row and len(rows) == 5
assert cursor.connection is db and cursor.execute('SELECT 1').fetchone()[0] == 1
got = []
t = threading.Thread(target=lambda: got.append(db.execute('SELECT 1').fetchone()[0])); t.start(); t.join(); assert got == [1]
sqlite3.register_converter('mark', lambda raw: 'marked'); assert db.execute("SELECT 1 AS 'x [mark]'").fetchone()[0] == 'marked'
assert memory.execute('SELECT x FROM m').fetchall() == [(1,), (2,)] and memory.text_factory is bytes
assert open_work.execute('SELECT count(*) FROM w').fetchone() == (0,) and not open_work.in_transaction
try: read_only.execute('DELETE FROM t')
except sqlite3.OperationalError as error: assert 'readonly' in str(error)
else: assert False
assert type(mine) is Mine and mine.tag[0] is rows and mine.execute('SELECT count(*) FROM t').fetchone() == (5,)
try: closed.execute('SELECT 1')
except sqlite3.ProgrammingError: pass
else: assert False
told = {r['name']: r['reason'] for r in report.rebuilt_details}
assert 'uncommitted' in told['open_work'] and 'twice' in told['memory'] and 'rolled back' in told['memory'] and 'run again' in told['cursor']
for each in (db, memory, open_work, read_only, mine): each.close()""",
    },
}

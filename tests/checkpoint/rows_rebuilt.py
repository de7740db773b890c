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
assert anonymous.read(4) == b'ello' and len(anonymous) == 5000 and closed.closed""",
    },
}

"""Memory of one kind that others look at: setup in one process, check in another."""

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "numpy_on_bytearray": {
        "setup": """
import numpy, array, mmap
b = bytearray(range(200)); n = numpy.frombuffer(b, 'u1'); part = numpy.frombuffer(b, '<u2', 10, 4)
big = bytearray(10000); nb = numpy.frombuffer(big, 'f8')
a = array.array('d', [1., 2., 3.]); na = numpy.frombuffer(a)
mv = memoryview(b); cast = mv[8:16].cast('I')
nm = numpy.asarray(memoryview(a))
m = mmap.mmap(-1, 8192); m[:3] = b'abc'
nmm = numpy.frombuffer(m, 'u1'); mmv = memoryview(m)[:8]
large = mmap.mmap(-1, 3 << 20)
whole = numpy.frombuffer(large, 'u1'); whole[:] = 5; tail = whole[-100:]""",
        "check": """
b[4] = 77; assert n[4] == 77 and part[0] & 255 == 77
n[9] = 88; assert b[9] == 88
cast[0] = 0; assert list(b[8:12]) == [0] * 4 and mv[8] == 0
big[0:8] = b'\\x00' * 6 + b'\\xf0\\x3f'; assert nb[0] == 1.0
a[0] = 9.; assert na[0] == 9. and nm[0] == 9.; na[1] = 8.; assert a[1] == 8.
assert m[:3] == b'abc'; m[0] = 90; assert nmm[0] == 90 and mmv[0] == 90
nmm[7] = 5; assert m[7] == 5
assert (whole == 5).all(); large[-1] = 9; assert tail[-1] == 9 and whole[-1] == 9""",
    },
    "torch_on_bytearray": {
        "setup": """
import torch, array, numpy
b = bytearray(range(64)); t = torch.frombuffer(b, dtype=torch.uint8)
t2 = torch.frombuffer(b, dtype=torch.int16, offset=2, count=4)
big = bytearray(40000); tb = torch.frombuffer(big, dtype=torch.float32)
a = array.array('f', [1., 2., 3., 4.]); ta = torch.frombuffer(a, dtype=torch.float32)
n = numpy.zeros(5000); tn = torch.from_numpy(n); tf = torch.frombuffer(n, dtype=torch.float64)
mv = memoryview(b)[8:16]; tm = torch.frombuffer(mv, dtype=torch.uint8)
chain = torch.from_numpy(numpy.frombuffer(b, 'u1'))""",
        "check": """
b[2] = 7; assert t[2] == 7 and t2[0] & 255 == 7 and chain[2] == 7
t[8] = 99; assert b[8] == 99 and tm[0] == 99 and mv[0] == 99
big[3] = 64; assert tb[0] == 2.0
a[0] = 5.; assert ta[0] == 5.; ta[1] = 6.; assert a[1] == 6.
n[0] = 3; assert tn[0] == 3 and tf[0] == 3; tf[1] = 4; assert n[1] == 4""",
    },
    "torch_on_memory_that_comes_later_or_lies_deeper": {
        "setup": """
import torch, mmap
class Box: pass
held = bytearray(b'x' * 5000)
t = torch.frombuffer(held, dtype=torch.uint8)
model = torch.nn.Linear(2, 2)
raw = bytearray(16)
model.weight = torch.nn.Parameter(torch.frombuffer(raw, dtype=torch.float32).view(2, 2))
box = Box(); box.inner = {'deep': [held]}; box.raw = raw
del held, raw
m = mmap.mmap(-1, 4096); tm = torch.frombuffer(m, dtype=torch.int32)
alone = torch.frombuffer(bytearray(b'abcd' * 600), dtype=torch.uint8)
file_free = torch.frombuffer(bytearray(b'abcd'), dtype=torch.uint8)""",
        "check": """
held = box.inner['deep'][0]
held[4] = 1; assert t[4] == 1 and len(held) == 5000
t[5] = 2; assert held[5] == 2
with torch.no_grad(): model.weight.fill_(1.0)
assert bytes(box.raw) == b'\\x00\\x00\\x80\\x3f' * 4
m[0:4] = b'\\x01\\x00\\x00\\x00'; assert tm[0] == 1
alone[0] = 1; assert bytes(alone[:4].tolist()) == b'\\x01bcd'
assert file_free.tolist() == [97, 98, 99, 100]""",
    },
}

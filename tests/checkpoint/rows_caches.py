"""Caches of results, as `functools` makes them: setup in one process, check in another."""

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "bounded": {
        "setup": """
import functools
calls = []
@functools.lru_cache(maxsize=3)
def f(x, *, by=1):
    calls.append(x); return [x, by]
f(1); f(2); kept = f(3, by=2); f(4); f(2)
try: f([])
except TypeError: pass
info = f.cache_info()
calls.clear()
f.note = 'mine'""",
        "check": """
assert f.cache_info() == info, (f.cache_info(), info)
assert f(3, by=2) is kept and f(2) == [2, 1] and f(4) == [4, 1] and not calls
assert f.note == 'mine' and f.__wrapped__.__globals__ is globals() and f.__name__ == 'f'
f(2); f(4)  # 3 is the least recently used one now
f(9); assert calls == [9] and f.cache_info().currsize == 3
f(2); f(4); assert calls == [9]
f(3, by=2); assert calls == [9, 3]
f.cache_clear(); assert f.cache_info() == (0, 0, 3, 0) and f(2) == [2, 1] and calls[-1] == 2
assert f.cache_parameters() == {'maxsize': 3, 'typed': False}""",
    },
    "order_of_use": {
        "setup": """
import functools
calls = []
@functools.lru_cache(2)
def g(x): calls.append(x); return x
g('old'); g('new'); g('old')
calls.clear()""",
        "check": """
g('third'); g('old'); assert calls == ['third']
g('new'); assert calls == ['third', 'new']""",
    },
    "unbounded": {
        "setup": """
import functools
ran = 0
@functools.cache
def fib(n):
    global ran
    ran += 1
    return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(60)
before, info = ran, fib.cache_info()""",
        "check": """
assert fib.cache_info() == info
assert fib(60) == 1548008755920 and ran == before
assert fib(62) == 4052739537881 and ran == before + 2""",
    },
    "typed": {
        "setup": """
import functools
calls = []
@functools.lru_cache(maxsize=None, typed=True)
def t(*a, **k): calls.append(a); return (a, k)
made = [t(1), t(1.0), t(), t('x', 2, z=3), t(q=None), t(y=1, x=2), t(x=2, y=1)]
calls.clear()
@functools.lru_cache(maxsize=8, typed=True)
def u(*a, **k): calls.append(a); return (a, k)
more = [u(True), u(1), u(a=1), u(a=1.0)]
calls.clear()""",
        "check": """
again = [t(1), t(1.0), t(), t('x', 2, z=3), t(q=None), t(y=1, x=2), t(x=2, y=1)]
assert all(a is b for a, b in zip(made, again))
assert all(a is b for a, b in zip(more, [u(True), u(1), u(a=1), u(a=1.0)])) and not calls
assert t(True)[0] == (True,) and calls == [(True,)]""",
    },
    "no_room": {
        "setup": """
import functools
@functools.lru_cache(maxsize=0)
def z(x): return x
z(1); z(1)
@functools.lru_cache
def never(x): return x""",
        "check": """
assert z.cache_info() == (0, 2, 0, 0) and z(3) == 3
assert never.cache_info() == (0, 0, 128, 0) and never(3) == 3""",
    },
    "methods_and_keys_with_code_of_their_own": {
        "setup": """
import functools
calls = []
class Point:
    def __init__(self, x): self.x = x
    def __hash__(self): return hash(self.x)
    def __eq__(self, other): return self.x == other.x
    @functools.lru_cache(maxsize=None)
    def twice(self): calls.append(self); return 2 * self.x
    @staticmethod
    @functools.lru_cache
    def of(x): calls.append(x); return Point(x)
    @classmethod
    @functools.lru_cache
    def make(cls, x): calls.append(x); return cls(x)
    @functools.cached_property
    def slow(self): calls.append('slow'); return [self.x]
p = Point(4); p.twice(); made = Point.of(7); other = Point.make(8); slow = p.slow
calls.clear()
@functools.lru_cache
def by_point(point, word=None): calls.append(word); return point
by_point(p); by_point(p, word=('a', 1)); calls.clear()""",
        "check": """
assert p.twice() == 8 and Point(4).twice() == 8 and Point.of(7) is made
assert Point.make(8) is other and p.slow is slow and not calls
assert by_point(Point(4)) is p and by_point(p, word=('a', 1)) is p and not calls
assert Point(5).twice() == 10 and len(calls) == 1
assert Point(6).slow == [6]""",
    },
    "a_cache_whose_results_hold_it": {
        "setup": """
import functools
@functools.cache
def self_made(x): return {'f': self_made, 'x': x}
first = self_made(1)
first['first'] = first
def outer():
    @functools.cache
    def inner(n): return [n]
    return inner
inner = outer(); one = inner(1)
arr = None
try:
    import numpy
    @functools.cache
    def ones(n): return numpy.ones(n)
    arr = ones(2000)
except ImportError: pass
wrapped_builtin = functools.lru_cache(pow); wrapped_builtin(2, 10)""",
        "check": """
assert self_made(1) is first and first['f'] is self_made and first['first'] is first
assert inner(1) is one and inner(2) == [2]
if arr is not None:
    assert ones(2000) is arr
    arr[0] = 5; assert ones(2000)[0] == 5
assert wrapped_builtin(2, 10) == 1024 and wrapped_builtin.cache_info().hits == 1""",
    },
    "many_counts": {
        "setup": """
import functools
@functools.lru_cache(maxsize=1)
def f(x): return x
for _ in range(150_000): f(1); f(2)
assert f.cache_info().misses == 300_000""",
        "check": """
f(2); assert f.cache_info() == (1, 1, 1, 1)
assert [row['name'] for row in report.rebuilt_details] == ['f']
assert 'counts' in report.rebuilt_details[0]['reason']""",
    },
    "a_result_that_is_lost": {
        "setup": """
import functools
calls = []
@functools.cache
def stream(n): calls.append(n); return (i for i in range(n))
@functools.cache
def plain(n): calls.append(n); return n
stream(3); plain(1); calls.clear()""",
        "check": """
assert plain(1) == 1 and not calls
assert list(stream(3)) == [0, 1, 2] and calls == [3]""",
        "lost": ["stream (a cached result)"],
    },
}

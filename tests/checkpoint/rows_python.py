"""What a checkpoint must bring back: plain Python. (setup, check); `lost` names what may be lost."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "plain_values": {
        "setup": """
n = 2 ** 500
s = 'ü' * 100000
z = 1 + 2j
b = b'x' * 70000
f = float('inf')
none = None""",
        "check": """
assert n == 2 ** 500 and s == 'ü' * 100000 and z == 1 + 2j
assert b == b'x' * 70000 and f == float('inf') and none is None""",
    },
    "two_names_for_one_list": {
        "setup": """
a = [1]
# %%
b = a
class Box: pass
box = Box()
box.a = a
d = {'k': (a, [a])}""",
        "check": """
assert a is b and box.a is a and d['k'][0] is a and d['k'][1][0] is a
b.append(2)
assert box.a == [1, 2]""",
    },
    "containers_that_contain_themselves": {
        "setup": """
l = [1]
l.append(l)
d = {}
d['me'] = d
t = ([],)
t[0].append(t)""",
        "check": """
assert l[1] is l and d['me'] is d and t[0][0] is t""",
    },
    "function_from_a_cell": {
        "setup": """
def f(a, b=2, *, c=3) -> int:
    'doc'
    return a + b + c
f.note = [1]
note = f.note""",
        "check": """
assert f(1) == 6 and f(1, c=0) == 3 and f.__doc__ == 'doc' and f.note is note
assert f.__module__ == '__main__' and f.__annotations__ == {'return': int}
import inspect
assert 'return a + b + c' in inspect.getsource(f)""",
    },
    "objects_that_need_the_notebook_to_be_made": {
        "setup": """
class Timed:
    def __init__(self, at):
        self.at = at
    def __getstate__(self):
        return {'text': self.at.isoformat()}
    def __setstate__(self, state):
        self.at = parse(state['text'])
class Place:
    def __init__(self, path):
        self.path = path
    def __reduce__(self):
        return place, (str(self.path),)
moment = Timed(__import__('datetime').datetime(2026, 1, 2))
here = Place(__import__('pathlib').Path('/a'))
# %%
import datetime
from pathlib import Path
def parse(text):
    return datetime.datetime.fromisoformat(text)
def place(text):
    return Place(Path(text))""",
        "check": """
assert moment.at == datetime.datetime(2026, 1, 2) and here.path == Path('/a')
names = list(globals())
assert names.index('moment') < names.index('datetime') < names.index('parse'), names""",
    },
    "function_sees_the_live_namespace": {
        "setup": """
def f():
    global n
    n = later + 1
    return n
# %%
later = 1
f()""",
        "check": """
assert f.__globals__ is globals()
later = 41
assert f() == 42 and n == 42""",
    },
    "recursive_and_mutual_functions": {
        "setup": """
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)""",
        "check": """
assert even(10) and odd(7)""",
    },
    "closures_sharing_a_cell": {
        "setup": """
def make():
    n = 0
    def inc():
        nonlocal n
        n += 1
        return n
    def get(): return n
    return inc, get
inc, get = make()
inc()""",
        "check": """
assert get() == 1 and inc() == 2 and get() == 2
assert inc.__closure__[0] is get.__closure__[0]""",
    },
    "recursive_closure": {
        "setup": """
def make():
    def fact(n): return 1 if n < 2 else n * fact(n - 1)
    return fact
fact = make()
cell = fact.__closure__[0]""",
        "check": """
assert fact(5) == 120 and cell is fact.__closure__[0] and cell.cell_contents is fact""",
    },
    "classes_and_registries": {
        "setup": """
class A:
    registry = []
    def __init__(self): A.registry.append(self)
    def __init_subclass__(cls): kinds.append(cls.__name__)
kinds = []
class B(A):
    def __init__(self):
        super().__init__()
        self.v = 1
x = B()
m = x.__init__""",
        "check": """
assert type(x) is B and isinstance(x, A) and A.registry == [x] and A.registry[0] is x
y = B()
assert A.registry == [x, y] and m.__self__ is x
assert kinds == ['B'], kinds""",
    },
    "dataclass": {
        "setup": """
from dataclasses import dataclass, field, fields, replace
@dataclass(order=True)
class P:
    x: int
    tags: list = field(default_factory=list)
p = P(1)
q = P(2, ['a'])""",
        "check": """
assert p < q and replace(p, x=5).x == 5 and P(9).tags == []
assert [f.name for f in fields(p)] == ['x', 'tags'] and repr(p) == 'P(x=1, tags=[])'""",
    },
    "frozen_dataclass_with_slots": {
        "setup": """
from dataclasses import dataclass
@dataclass(frozen=True)
class P:
    x: int
    y: int = 2
p = P(1)
s = {p}""",
        "check": """
assert P(1) in s and hash(p) == hash(P(1))""",
    },
    "enum": {
        "setup": """
import enum
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    def up(self): return self.name
class Flag(enum.IntFlag):
    A = 1
    B = 2
c = Color.RED
d = {Color.BLUE: 1}
ab = Flag.A | Flag.B""",
        "check": """
assert c is Color.RED and d[Color.BLUE] == 1 and Color(2) is Color.BLUE and c.up() == 'RED'
assert ab == Flag.A | Flag.B and Flag.A in ab""",
    },
    "namedtuple": {
        "setup": """
import collections, typing
P = collections.namedtuple('P', 'x y')
p = P(1, 2)
class Q(typing.NamedTuple):
    a: int
    b: str = 'z'
q = Q(1)""",
        "check": """
assert type(p) is P and p.y == 2 and type(q) is Q and q.b == 'z' and P(3, 4)._replace(x=1).x == 1""",
    },
    "abc": {
        "setup": """
import abc
class Base(abc.ABC):
    @abc.abstractmethod
    def run(self): ...
class Impl(Base):
    def run(self): return 1
Base.register(int)
i = Impl()""",
        "check": """
assert isinstance(i, Base) and isinstance(3, Base) and i.run() == 1
try:
    Base()
    raise SystemExit('abstract class was made')
except TypeError: pass""",
    },
    "slots_properties_static": {
        "setup": """
class S:
    __slots__ = ('a', 'b')
    @property
    def both(self): return self.a + self.b
    @staticmethod
    def st(): return 1
    @classmethod
    def cl(cls): return cls
s = S()
s.a, s.b = 1, 2""",
        "check": """
assert s.both == 3 and S.st() == 1 and S.cl() is S and not hasattr(s, '__dict__')""",
    },
    "generic": {
        "setup": """
from typing import Generic, TypeVar
T = TypeVar('T')
class Stack(Generic[T]):
    def __init__(self): self.items = []
s = Stack[int]()
U = Stack[int]""",
        "check": """
assert type(s) is Stack and U is not None and Stack[str]().items == []""",
    },
    "metaclass": {
        "setup": """
class Meta(type):
    made = []
    def __call__(cls, *a):
        o = super().__call__(*a)
        Meta.made.append(o)
        return o
class K(metaclass=Meta): pass
k = K()""",
        "check": """
assert type(K) is Meta and Meta.made == [k]
K()
assert len(Meta.made) == 2""",
    },
    "lambda_and_partial": {
        "setup": """
import functools
double = lambda x: 2 * x
p = functools.partial(pow, 2)
q = functools.partial(double, 4)""",
        "check": """
assert double(4) == 8 and p(5) == 32 and q() == 8 and q.func is double""",
    },
    "lru_cache": {
        "setup": """
import functools
calls = []
@functools.lru_cache(None)
def f(x):
    calls.append(x)
    return x * 2
f(3)""",
        "check": """
assert f(4) == 8 and f.__wrapped__.__globals__ is globals()""",
    },
    "decorator": {
        "setup": """
import functools
def deco(g):
    @functools.wraps(g)
    def w(*a):
        w.calls += 1
        return g(*a)
    w.calls = 0
    return w
@deco
def add(a, b): return a + b
add(1, 2)""",
        "check": """
assert add(2, 3) == 5 and add.calls == 2 and add.__wrapped__(1, 1) == 2""",
    },
    "half_consumed_iterators": {
        "setup": """
it = iter([1, 2, 3]); next(it)
z = zip([1, 2], 'ab'); next(z)
e = enumerate('xyz'); next(e)
m = map(str, iter([1, 2, 3])); next(m)
r = iter(range(5)); next(r)
d = iter({'a': 1, 'b': 2}); next(d)""",
        "check": """
assert list(it) == [2, 3] and list(z) == [(2, 'b')] and list(e) == [(1, 'y'), (2, 'z')]
assert list(m) == ['2', '3'] and list(r) == [1, 2, 3, 4] and list(d) == ['b']""",
    },
    "generator_is_lost_alone": {
        "setup": """
g = (i for i in range(3))
runs = [1, g, 3]
ok = 5
async def co(): pass
c = co()""",
        "check": """
assert ok == 5 and runs[0] == 1 and runs[2] == 3 and runs[1] is g
assert {l['name'] for l in report.lost} == {'g', 'runs[1]', 'c'}, report.lost
try:
    next(g)
    raise SystemExit('no error')
except RuntimeError as error:
    assert "'g' was a generator; it could not be kept" in str(error)""",
        "lost": ["g", "runs[1]", "c"],
    },
    "values_drawn_before": {
        "setup": """
import uuid, time, random
u = uuid.uuid4()
t = time.time()
r = random.random()
keep = [str(u), repr(t), repr(r)]""",
        "check": """
assert keep == [str(u), repr(t), repr(r)]""",
    },
    "weak_references": {
        "setup": """
import weakref
class N: pass
n = N()
w = weakref.ref(n)
wv = weakref.WeakValueDictionary(k=n)
wk = weakref.WeakKeyDictionary()
wk[n] = 1
ws = weakref.WeakSet([n])
dead = weakref.ref(N())""",
        "check": """
import gc
assert w() is n and wv['k'] is n and wk[n] == 1 and n in ws and dead() is None
import sys
del n
report.values = None
gc.collect()
assert w() is None and not len(wv) and not len(wk) and not len(ws)""",
    },
    "globals_and_builtins": {
        "setup": """
g = globals()
import builtins
b = vars(builtins)
len2 = len
printer = print""",
        "check": """
import builtins
assert g is globals() and b is vars(builtins) and len2 is len and printer is print""",
    },
    "exceptions": {
        "setup": """
class MyError(ValueError):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b
try:
    raise MyError(1, 2)
except MyError as e:
    err = e
plain = KeyError('k')""",
        "check": """
assert plain.args == ('k',) and err.args == (1,) and err.b == 2 and type(err) is MyError
(row,) = report.rebuilt_details
assert row['name'] == 'err' and 'without its traceback' in row['reason']""",
    },
    "containers_of_the_library": {
        "setup": """
import collections, decimal, fractions, datetime, re, pathlib, array
c = collections.Counter('aab')
dd = collections.defaultdict(list, a=[1])
od = collections.OrderedDict(x=1)
dq = collections.deque([1, 2], maxlen=3)
dec = decimal.Decimal('1.1')
fr = fractions.Fraction(1, 3)
now = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
rx = re.compile('a+', re.I)
p = pathlib.Path('x') / 'y'
ar = array.array('d', [1.0, 2.0])
cm = collections.ChainMap({'a': 1}, {'b': 2})""",
        "check": """
assert c['a'] == 2 and dd['z'] == [] and dd['a'] == [1] and od['x'] == 1 and dq.maxlen == 3
assert dec + 1 == dec.__class__('2.1') and fr * 3 == 1 and now.year == 2026 and rx.match('AAA')
assert str(p) == 'x/y' and ar[1] == 2.0 and cm['b'] == 2""",
    },
    "subclasses_of_builtins": {
        "setup": """
class L(list):
    def total(self): return sum(self)
class D(dict):
    tag = 'd'
class I(int): pass
class S(str): pass
l = L([1, 2]); l.note = 'n'
d = D(a=1)
i = I(5)
s = S('x')
s.k = 1""",
        "check": """
assert l.total() == 3 and l.note == 'n' and d['a'] == 1 and d.tag == 'd' and i == 5
assert type(i) is I and type(s) is S and s.k == 1""",
    },
    "long_linked_list": {
        "setup": """
class Node:
    def __init__(self, v): self.v, self.next, self.prev = v, None, None
head = tail = Node(0)
for i in range(1, 200000):
    n = Node(i)
    tail.next, n.prev = n, tail
    tail = n
del n
gen = (i for i in head.__dict__)""",
        "check": """
k = 0
n = head
while n.next is not None:
    assert n.next.prev is n
    n = n.next
    k += 1
assert k == 199999 and n is tail and tail.v == 199999
node = head
head = tail = n = None
while node is not None:
    following = node.next
    node.next = node.prev = None
    node = following""",
        "lost": ["gen"],
    },
    "deeply_nested_lists": {
        "setup": """
deep = []
for _ in range(100000):
    deep = [deep]
ok = [1, 2]""",
        "check": """
depth, inner = 0, deep
while inner:
    inner, depth = inner[0], depth + 1
assert ok == [1, 2] and depth == 100000""",
    },
    "many_small_objects": {
        "setup": """
class P:
    def __init__(self, i): self.i = i
ps = [P(i) for i in range(50000)]
by = {p.i: p for p in ps}""",
        "check": """
assert len(ps) == 50000 and all(by[i] is ps[i] for i in range(50000))""",
    },
    "many_variables": {
        "setup": """
for i in range(5000):
    globals()[f'v{i}'] = [i]""",
        "check": """
assert all(globals()[f'v{i}'] == [i] for i in range(5000))""",
    },
    "nothing_of_the_users_runs_twice": {
        "setup": """
log = []
class Meta(type):
    def __init__(cls, *a):
        super().__init__(*a)
        log.append(cls)
class A(metaclass=Meta):
    def __init_subclass__(cls, **k): log.append(cls.__name__)
class B(A): pass
class C(B): pass
c = C()""",
        "check": """
assert log == [A, 'B', B, 'C', C], log
class D(C): pass
assert log[5:] == ['D', D]
assert type(c) is C and type(C) is Meta""",
    },
    "private_slots": {
        "setup": """
class S:
    __slots__ = ('__x', '__dict__', '__weakref__')
    def __init__(self): self.__x = 1
    def get(self): return self.__x
s = S()
s.other = 2""",
        "check": """
import weakref
assert s.get() == 1 and s.other == 2 and weakref.ref(s)() is s""",
    },
    "a_class_redefined": {
        "setup": """
class A:
    v = 1
old = A()
class A:
    v = 2
new = A()""",
        "check": """
assert old.v == 1 and new.v == 2 and type(new) is A and type(old) is not A""",
    },
    "module_objects": {
        "setup": """
import json as j
import xml.dom.minidom
from os import path as p
import collections.abc""",
        "check": """
import json, os
assert j is json and p is os.path
assert xml.dom.minidom.parseString('<a/>')""",
    },
    "module_made_in_memory": {
        "setup": """
import types, sys
m = types.ModuleType('made')
m.x = [1]
exec('def f(): return x', vars(m))
shared = m.x""",
        "check": """
assert m.x is shared and m.f() == [1]""",
    },
    "functions_of_exec": {
        "setup": """
d = {}
exec('k = 3\\ndef f(): return k', d)
f = d['f']""",
        "check": """
d['k'] = 4
assert f() == 4 and f.__globals__ is d""",
    },
    "views_of_bytes": {
        "setup": """
data = bytearray(b'abcdef')
view = memoryview(data)
part = view[2:4]
frozen = memoryview(b'xyz')[1:]
numbers = memoryview(data).cast('H')""",
        "check": """
view[0] = 65
part[0] = 66
assert data == b'AbBdef' and bytes(part) == b'Bd' and bytes(frozen) == b'yz' and frozen.readonly
assert len(numbers) == 3 and numbers.format == 'H'""",
    },
    "an_object_with_a_hostile_class": {
        "setup": """
class Hostile:
    @property
    def __class__(self): raise RuntimeError('who asks?')
class Proxy:
    def __getattr__(self, name): raise RuntimeError('proxy ' + name)
hostile = [Hostile()]
proxy = Proxy()
ok = [1]""",
        "check": """
assert ok == [1] and type(hostile[0]) is Hostile""",
    },
}

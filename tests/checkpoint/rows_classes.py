"""What a checkpoint must bring back: classes that do more than hold methods, and what lies about
its class."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "a_metaclass_that_counts_and_registers": {
        "setup": """
created = []
class Meta(type):
    made = {}
    def __new__(meta, name, bases, namespace, **keywords):
        created.append(name); cls = super().__new__(meta, name, bases, dict(namespace)); cls.keywords = keywords
        return cls
    def __init__(cls, name, bases, namespace, **keywords):
        super().__init__(name, bases, namespace); cls.inits = getattr(cls, 'inits', 0) + 1
    def __call__(cls, *args):
        if cls not in Meta.made: Meta.made[cls] = super().__call__(*args)
        return Meta.made[cls]
    def __prepare__(name, bases, **keywords): return {'injected': 1}
class S(metaclass=Meta, opt=3):
    def __init__(self, *args): self.args = args
class S2(S): pass
s = S(1); s2 = S2(2)""",
        "check": """
assert created == ['S', 'S2'], created
assert S() is s and S2() is s2 and Meta.made[S] is s and type(S) is Meta
assert S.keywords == {'opt': 3} and S2.keywords == {} and (S.inits, S2.inits) == (1, 2)
S.injected = 2; assert S2.injected == 1""",
    },
    "what_a_class_repeats_of_its_base": {
        "setup": """
class A:
    __slots__ = ()
    z = None; names = []; one = 1
class B(A):
    __slots__ = ()
    one = 1; names = A.names; z = None; y = 3
order = [name for name in vars(B) if name[0] != '_']""",
        "check": """
assert B.names is A.names and [name for name in vars(B) if name[0] != '_'] == order
A.z = 5; A.one = 2
assert B.z is None and B.one == 1 and not hasattr(B(), '__dict__')""",
    },
    "a_metaclass_that_sees_what_is_set": {
        "setup": """
log = []
class M(type):
    def __setattr__(cls, name, value): log.append(name); super().__setattr__(name, value)
class X(metaclass=M):
    def start(self): return super().__init__()
X.q = 1""",
        "check": "assert log == ['q'], log; X.r = 2; assert log == ['q', 'r'] and X().start() is None",
    },
    "objects_that_say_they_are_of_another_class": {
        "setup": """
import unittest.mock
class Liar:
    @property
    def __class__(self): return dict
class Raiser:
    __class__ = property(lambda self: (_ for _ in ()).throw(RuntimeError('no')))
class Made:
    def __new__(cls, *, n): made = object.__new__(cls); made.given = n; return made
    def __getnewargs_ex__(self): return (), {'n': self.given}
    __class__ = property(lambda self: int)
a = Liar(); a.v = 1; c = Raiser(); c.v = 3; k = Made(n=4)
m = unittest.mock.Mock(spec=dict); m.get.return_value = 4
held = [a, c]""",
        "check": """
assert type(a) is Liar and a.v == 1 and isinstance(a, dict) and held[0] is a
assert type(c) is Raiser and c.v == 3 and held[1] is c
assert type(k) is Made and k.given == 4 and isinstance(k, int)
assert isinstance(m, dict) and m.get(1) == 4""",
    },
    "a_property_of_an_own_class": {
        "setup": """
class P(property):
    def __init__(self, *functions, tag='t', **words): super().__init__(*functions, **words); self.tag = tag
class V:
    def __init__(self): self._x = 7
    def x(self): 'its doc'; return self._x
    x = P(x)
    def y(self, value): self._x = value
    y = P(None, y, tag='u')
v = V()""",
        "check": """
assert v.x == 7 and type(V.__dict__['x']) is P and V.x.__doc__ == 'its doc' and V.x.tag == 't'
v.y = 9; assert v.x == 9 and V.y.tag == 'u'""",
    },
    "what_wraps_a_function_or_an_iterator": {
        "setup": """
import decimal, functools, itertools, re, weakref
import numpy as np
class M:
    def m(self): return 5
    def __del__(self): pass
class R(weakref.ref): pass
mm = M(); wm = weakref.WeakMethod(mm.m); gone = weakref.WeakMethod(M().m); r = R(mm); r.tag = 1
shared = iter([1, 2, 3, 4])
if hasattr(itertools, 'pairwise'):
    pw = itertools.pairwise(shared); next(pw); new = itertools.pairwise([1, 2]); end = itertools.pairwise([1]); list(end)
k = functools.cmp_to_key(lambda a, b: b - a); k3 = k(3)
calls = iter([9, 8, 0].pop, 9); next(calls)
fm = re.finditer('.', 'abc'); next(fm)
fr = np.frompyfunc(lambda a, b: a + b, 2, 1); most = np.frompyfunc(max, 2, 1, identity=0); add = np.add
lc = decimal.localcontext(decimal.Context(prec=3))""",
        "check": """
assert wm()() == 5 and type(wm) is weakref.WeakMethod and gone() is None
assert type(r) is R and r() is mm and r.tag == 1
if hasattr(itertools, 'pairwise'):
    assert list(pw) == [(2, 3), (3, 4)] and list(new) == [(1, 2)] and list(end) == [] == list(shared)
assert sorted([1, 2, 3], key=k) == [3, 2, 1] and k3 < k(2) and list(calls) == [8]
assert fr(1, 2) == 3 and fr.nin == 2 and add is np.add and most.reduce([1, 5, 2]) == 5 and most.identity == 0
told = {row['name']: row['reason'] for row in report.lost}
assert told['fm'].startswith('a re.finditer: its place in the text cannot be read'), told
assert told['lc'].startswith('a decimal.localcontext'), told""",
        "lost": ["fm", "lc"],
    },
    "loggers_of_an_own_class": {
        "setup": """
import logging
class Loud(logging.Logger):
    def shout(self, text): return text.upper()
logging.setLoggerClass(Loud)
loud = logging.getLogger('rows_classes.loud'); loud.setLevel(10); loud.tag = [1]""",
        "check": """
assert loud.shout('a') == 'A' and type(loud) is Loud and loud.level == 10 and loud.tag == [1]
assert logging.getLogger('rows_classes.loud') is loud and type(logging.getLogger('rows_classes.new')) is Loud
logging.setLoggerClass(logging.Logger)""",
    },
    "overloads_of_functions_and_methods": {
        "setup": """
import typing
@typing.overload
def f(x: int) -> int: ...
@typing.overload
def f(x: str) -> str: ...
def f(x): return x
class K:
    @typing.overload
    def m(self, x: int) -> int: ...
    def m(self, x): return x""",
        "check": """
told = getattr(typing, 'get_overloads', None)
assert told is None or [each.__annotations__['x'] for each in told(f)] == [int, str]
assert told is None or len(told(K.m)) == 1
assert f(1) == 1 and not hasattr(f, 'overloads')""",
    },
    "generic_models_of_pydantic": {
        "setup": """
import pydantic, typing
T = typing.TypeVar('T')
class Item(pydantic.BaseModel): n: int
class Box(pydantic.BaseModel, typing.Generic[T]): v: T
class Hold(pydantic.BaseModel): b: Box[Item]
box = Box[Item](v=Item(n=1)); hold = Hold(b=box); kind = Box[Item]""",
        "check": """
assert type(box) is Box[Item] is kind and type(hold.b) is kind
assert Hold(b=box) == hold and Hold(b=Box[Item](v=Item(n=2))).b.v.n == 2""",
    },
    "words_that_are_compared_by_is": {
        "setup": """
import dataclasses, sys
options = {'slots': True} if sys.version_info >= (3, 10) else {}
@dataclasses.dataclass(**options)
class P: x: int; y: list = dataclasses.field(default_factory=list)
p = P(1); first = dataclasses.fields(P)[0]; missing = dataclasses.MISSING""",
        "check": """
assert missing is dataclasses.MISSING is first.default and first is dataclasses.fields(P)[0]
@dataclasses.dataclass
class P2(P): z: int = 0
assert P2(1).z == 0 and dataclasses.replace(p, x=2) == P(2)""",
    },
    "who_observes_an_object_with_traits": {
        "setup": """
import traitlets
seen = []
class H(traitlets.HasTraits):
    a = traitlets.Int(); b = traitlets.Int()
    @traitlets.observe('b')
    def _b(self, change): seen.append(('b', change['new']))
h = H(a=1); g = H()
def told(change): seen.append(change['new'])
h.observe(told, 'a'); h.observe(lambda change: seen.append('any'))
tie = traitlets.link((h, 'a'), (g, 'a'))
seen.clear()""",
        "check": """
h.a = 7; assert sorted(map(str, seen)) == ['7', 'any'] and g.a == 7, seen
seen.clear(); h.b = 3; assert seen.count(('b', 3)) == 1, seen
g.a = 4; assert h.a == 4
tie.unlink(); g.a = 5; assert h.a == 4
h.unobserve(told, 'a'); seen.clear(); h.a = 6; assert seen == ['any']""",
    },
    "what_an_object_leaves_out_of_itself": {
        "setup": """
import functools
class Cached:
    def __init__(self): self.x = 1; self.cache = {1: 2}; self.n = 3
    def __getstate__(self): state = dict(vars(self)); del state['cache']; state['n'] = None; return state
class Derived(Cached): pass
class Refilled:
    def __init__(self): self.x = 1; self.lock = 2
    def __getstate__(self): state = dict(vars(self)); del state['lock']; return state
    def __setstate__(self, state): vars(self).update(state); self.lock = 5
class NotRefilled(Refilled):
    def __setstate__(self, state): vars(self).update(state)
class Reduced:
    def __init__(self, x): self.x = x
    def __reduce__(self): return (Reduced, (self.x,))
class Slotted:
    __slots__ = ('p', 'q')
    def __getstate__(self): return (None, {'p': self.p})
class Listed:
    def __getstate__(self): return [self.a]
    def __setstate__(self, state): self.a = state[0]
class Nothing:
    def __init__(self): self.x = 1
    def __getstate__(self): return None
class Lazy:
    def __init__(self): self.x = 1
    @functools.cached_property
    def twice(self): return 2 * self.x
    def __getstate__(self): return {'x': self.x}
cached = Cached(); derived = Derived(); refilled = Refilled(); bare = NotRefilled()
reduced = Reduced(1); reduced.extra = 3; whole = Reduced(2)
slotted = Slotted(); slotted.p = 1; slotted.q = 2; listed = Listed(); listed.a = 1; listed.b = 2
nothing = Nothing(); lazy = Lazy(); lazy.twice; held = [bare, lazy]""",
        "check": """
told = {row['name']: row['reason'] for row in report.rebuilt_details}
assert told == {
    'cached': "its own __getstate__ leaves out 'cache', 'n'", 'derived': "its own __getstate__ leaves out 'cache', 'n'",
    'bare': "its own __getstate__ leaves out 'lock'", 'reduced': "its own __reduce__ leaves out 'extra'",
    'slotted': "its own __getstate__ leaves out 'q'", 'listed': "its own __getstate__ leaves out 'b'",
    'nothing': "its own __getstate__ leaves out 'x'"}, told
assert cached.x == 1 and refilled.lock == 5 and whole.x == 2 and lazy.twice == 2 and held[0] is bare""",
        "rebuilt": ["cached", "derived", "bare", "reduced", "slotted", "listed", "nothing"],
    },
    "what_fails_is_told_in_words_of_the_user": {
        "setup": """
class D(dict):
    def __setitem__(self, key, value): raise ValueError('no')
    def __reduce__(self): return (D, (), None, None, iter([('a', 1)]))
class L(list):
    def extend(self, values): raise ValueError('no')
    append = extend
    def __reduce__(self): return (L, (), None, iter([1]))
class S:
    def __setstate__(self, state): raise ValueError('no')
class N:
    def __new__(cls, *args):
        if not args: raise ValueError('bare')
        return object.__new__(cls)
d = D(); l = L(); s = S(); s.x = 1; n = N(1)""",
        "check": """
told = {row['name']: row['reason'] for row in report.lost}
for name in 'dlsn':
    why = 'bare' if name == 'n' else 'no'
    assert told[name] == f'an object of the class {name.upper()}: it could not be rebuilt: {why}', told""",
        "lost": ["d", "l", "n", "s"],
    },
    "ufuncs_of_scipy_behind_a_formula": {
        "setup": """
import sympy
x, y = sympy.symbols('x y')
formula = sympy.lambdify((x, y), sympy.sin(x) * y, 'scipy')""",
        "check": "assert abs(formula(1, 2) - 1.682941969615793) < 1e-12",
    },
    "abstract_classes_of_a_metaclass_that_counts": {
        "setup": """
import abc, collections, typing
class Base(abc.ABC):
    registry = {}
    def __init_subclass__(cls, **words): super().__init_subclass__(**words); Base.registry[cls.__name__] = cls
    @property
    @abc.abstractmethod
    def q(self): ...
    @abc.abstractproperty
    def old(self): ...
class K(Base):
    q = 1; old = 2
class Meta(abc.ABCMeta):
    count = 0
    def __setattr__(cls, name, value): Meta.count += 1; super().__setattr__(name, value)
class X(metaclass=Meta): y = 1
X.z = 2; X.register(int); count = Meta.count
T = typing.TypeVar('T')
class G(typing.Generic[T]): x: int = None
class G2(G[int]): x: int = None
class Hashless:
    def __eq__(self, other): return True
class H2(Hashless): __hash__ = None
class O(collections.OrderedDict): limit = None
class O2(O): limit = None""",
        "check": """
try: Base(); assert False
except TypeError: pass
class New(Base): q = 3; old = 4
assert Base.registry == {'K': K, 'New': New} and K().q == 1
assert Meta.count == count and issubclass(int, X) and X.z == 2
X.t = 1; assert Meta.count == count + 1
assert typing.get_type_hints(G2) == {'x': int} and G2.__orig_bases__ == (G[int],) and H2.__hash__ is None
O.limit = 5; assert O2.limit is None and G2.x is None""",
    },
}

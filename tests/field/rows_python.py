"""Small notebooks, Python: what a setup makes, and what must hold of it after the resume.

`lost` names what may not come back, with a word that its reason must hold.
"""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "big_numbers_and_text": {
        "setup": "bn = 7 ** 5000; bt = 'é漢🙂' * 40000; bc = complex(-0.0, float('inf')); bb = bytes(range(256)) * 300; bf = -0.0",
        "check": """
import math
assert bn == 7 ** 5000 and bt == 'é漢🙂' * 40000 and bb == bytes(range(256)) * 300
assert str(bc) == '(-0+infj)' and math.copysign(1, bf) == -1""",
    },
    "two_names_for_one_list": {
        "setup": """
al = [1, 2]; al2 = al; al_in = {'deep': [al, (al,)]}
class AlHolder: pass
al_h = AlHolder(); al_h.it = al
# %%
al_later = al_h.it""",
        "check": """
assert al is al2 is al_later is al_h.it is al_in['deep'][0] is al_in['deep'][1][0]
al2.append(3); assert al_in['deep'][0] == [1, 2, 3]""",
    },
    "containers_that_hold_themselves": {
        "setup": """
cl = [1]; cl.append(cl)
cd = {}; cd['me'] = cd; cd['l'] = [cd]
class CNode: pass
cn = CNode(); cn.me = cn; cn.t = (cn, [cn])
cs = CNode(); cs.members = {cs}""",
        "check": """
assert cl[1] is cl and cd['me'] is cd and cd['l'][0] is cd
assert cn.me is cn and cn.t[0] is cn and cn.t[1][0] is cn and cs in cs.members""",
    },
    "a_function": {
        "setup": """
def fn_add(a, b=[10], *rest, scale: float = 2.0, **more) -> float:
    "Adds and scales."
    b.append(a)
    return (a + sum(rest)) * scale
fn_add.unit = 'm'
fn_add(1)""",
        "check": """
import inspect
assert fn_add.__defaults__ == ([10, 1],) and fn_add.__kwdefaults__ == {'scale': 2.0}
assert fn_add.__doc__ == 'Adds and scales.' and fn_add.unit == 'm' and fn_add.__module__ == '__main__'
assert 'b.append(a)' in inspect.getsource(fn_add) and str(inspect.signature(fn_add)).endswith('-> float')
assert fn_add(1, [], 2, scale=3) == 9 and fn_add.__globals__ is globals()""",
    },
    "functions_and_the_live_namespace": {
        "setup": """
def lv_read(): return lv_later
def lv_write():
    global lv_made
    lv_made = lv_later * 2
# %%
lv_later = 1
lv_alias = lv_read""",
        "check": """
lv_later = 50
assert lv_read() == 50 and lv_alias is lv_read
lv_write(); assert lv_made == 100""",
    },
    "closures_that_share_a_cell": {
        "setup": """
def cc_make():
    n = 0; log = []
    def up(): nonlocal n; n += 1; log.append(n); return n
    def see(): return n, log
    return up, see
cc_up, cc_see = cc_make(); cc_up()
cc_fact = (lambda f: (lambda x: f(f, x)))(lambda f, x: 1 if x < 2 else x * f(f, x - 1))""",
        "check": """
assert cc_up() == 2 and cc_see() == (2, [1, 2]) and cc_fact(6) == 720""",
    },
    "classes_and_registries": {
        "setup": """
class RgBase:
    made = []; kinds = {}
    def __init_subclass__(cls, tag=None, **kw): super().__init_subclass__(**kw); RgBase.kinds[tag] = cls
    def __init__(self, v): self.v = v; RgBase.made.append(self)
    def hello(self): return f'base {self.v}'
class RgChild(RgBase, tag='child'):
    def hello(self): return 'child of ' + super().hello()
rg_a, rg_b = RgBase(1), RgChild(2)""",
        "check": """
assert type(rg_b) is RgChild and isinstance(rg_b, RgBase) and rg_b.hello() == 'child of base 2'
assert RgBase.made == [rg_a, rg_b] and RgBase.made[1] is rg_b and RgBase.kinds == {'child': RgChild}
assert RgChild(3) is RgBase.made[2]
class RgThird(RgBase, tag='t'): pass
assert RgBase.kinds['t'] is RgThird""",
    },
    "a_class_defined_again": {
        "setup": """
class Rd:
    def who(self): return 1
rd_old = Rd()
class Rd:
    def who(self): return 2
rd_new = Rd()""",
        "check": """
assert rd_old.who() == 1 and rd_new.who() == 2 and type(rd_old) is not Rd and type(rd_new) is Rd
class Rd:
    def who(self): return 3
assert Rd().who() == 3 and rd_new.who() == 2""",
    },
    "dataclasses": {
        "setup": """
from dataclasses import dataclass, field, asdict, replace, fields
@dataclass(frozen=True, order=True)
class DcPoint:
    x: int
    y: int = 0
    tags: list = field(default_factory=list, compare=False, repr=False)
@dataclass
class DcBox:
    corner: DcPoint
    name: str = 'box'
dc_p = DcPoint(1, 2, ['a']); dc_box = DcBox(dc_p)""",
        "check": """
assert dc_box.corner is dc_p and dc_p == DcPoint(1, 2) and hash(dc_p) == hash(DcPoint(1, 2)) and dc_p < DcPoint(2)
assert asdict(dc_box) == {'corner': {'x': 1, 'y': 2, 'tags': ['a']}, 'name': 'box'} and replace(dc_p, x=9).x == 9
assert [f.name for f in fields(dc_p)] == ['x', 'y', 'tags'] and DcPoint(1).tags == []
try: dc_p.x = 5
except Exception as e: assert type(e).__name__ == 'FrozenInstanceError'
else: raise AssertionError('not frozen')""",
    },
    "enums": {
        "setup": """
import enum
class EnColour(enum.Enum):
    RED = 1; GREEN = 2; ROUGE = 1
    def loud(self): return self.name + '!'
class EnPerm(enum.Flag):
    R = enum.auto(); W = enum.auto(); RW = R | W
class EnInt(enum.IntEnum):
    ONE = 1
en_made = enum.Enum('en_made', 'a b'); en_r = EnColour.RED; en_d = {EnColour.GREEN: 'g'}; en_rw = EnPerm.R | EnPerm.W""",
        "check": """
assert en_r is EnColour.RED is EnColour(1) is EnColour['RED'] is EnColour.ROUGE and en_d[EnColour.GREEN] == 'g'
assert en_r.loud() == 'RED!' and [m.name for m in EnColour] == ['RED', 'GREEN'] and en_rw is EnPerm.RW
assert EnInt.ONE == 1 and en_made.a.name == 'a' and type(en_r) is EnColour""",
    },
    "namedtuples_abcs_slots": {
        "setup": """
import abc, collections, typing
NtP = collections.namedtuple('NtP', 'x y', defaults=[5]); nt_p = NtP(1)
class NtT(typing.NamedTuple):
    a: int
    b: str = 'b'
    def both(self): return f'{self.a}{self.b}'
nt_t = NtT(3)
class NtAbc(abc.ABC):
    @abc.abstractmethod
    def go(self): ...
class NtReal(NtAbc):
    def go(self): return 'gone'
NtAbc.register(int)
class NtSlots:
    __slots__ = ('a', 'b', '__weakref__')
    def __init__(self): self.a = 1
nt_s = NtSlots()
class NtProp:
    def __init__(self): self._v = 1
    @property
    def v(self): return self._v
    @v.setter
    def v(self, new): self._v = new * 10
    @classmethod
    def make(cls): return cls()
    @staticmethod
    def plain(): return 'plain'
nt_pr = NtProp()""",
        "check": """
import weakref
assert nt_p == (1, 5) and nt_p._replace(x=2).y == 5 and type(nt_p) is NtP and nt_t.both() == '3b' and type(nt_t) is NtT
try: NtAbc()
except TypeError: pass
else: raise AssertionError('no longer abstract')
assert NtReal().go() == 'gone' and isinstance(3, NtAbc) and not isinstance('', NtAbc)
assert nt_s.a == 1 and not hasattr(nt_s, 'b') and not hasattr(nt_s, '__dict__'); weakref.ref(nt_s)
try: nt_s.c = 1
except AttributeError: pass
else: raise AssertionError('slots lost')
nt_pr.v = 4; assert nt_pr.v == 40 and type(NtProp.make()) is NtProp and nt_pr.plain() == 'plain'""",
    },
    "generics_and_typing": {
        "setup": """
from typing import Generic, TypeVar, Protocol, TypedDict, NewType, Optional, runtime_checkable
GnT = TypeVar('GnT')
class GnStack(Generic[GnT]):
    def __init__(self): self.items: list[GnT] = []
    def push(self, x: GnT) -> None: self.items.append(x)
gn_s = GnStack[int](); gn_s.push(1); gn_alias = GnStack[str]; gn_opt = Optional[list[int]]
@runtime_checkable
class GnSized(Protocol):
    def size(self) -> int: ...
class GnHas:
    def size(self): return 3
class GnMovie(TypedDict, total=False):
    title: str
GnId = NewType('GnId', int); gn_id = GnId(5)""",
        "check": """
assert gn_s.items == [1] and gn_s.__orig_class__ == GnStack[int] and gn_alias.__origin__ is GnStack
assert GnStack.__parameters__ == (GnT,) and isinstance(GnHas(), GnSized) and not isinstance(3, GnSized)
assert GnMovie.__annotations__.keys() == {'title'} and not GnMovie.__total__ and GnId(6) == 6 and gn_id == 5 and gn_opt == Optional[list[int]]""",
    },
    "lambdas_and_partials": {
        "setup": """
import functools, operator
lp_sq = lambda x, k=2: x ** k
lp_part = functools.partial(lp_sq, k=3); lp_part.note = 'cube'
lp_get = operator.itemgetter(1); lp_attr = operator.attrgetter('real.imag'); lp_call = operator.methodcaller('upper')
lp_map = {'sq': lp_sq}; lp_meth = [3, 1, 2].sort; lp_up = str.upper; lp_bound = 'abc'.replace
lp_keyed = sorted(['bb', 'a'], key=functools.cmp_to_key(lambda a, b: len(a) - len(b)))""",
        "check": """
assert lp_part(2) == 8 and lp_part.func is lp_sq is lp_map['sq'] and lp_part.note == 'cube'
assert lp_get('ab') == 'b' and lp_attr(3) == 0 and lp_call('x') == 'X' and lp_up('y') == 'Y' and lp_bound('a', 'z') == 'zbc'
lp_meth(); assert lp_meth.__self__ == [1, 2, 3]""",
    },
    "half_consumed_iterators": {
        "setup": """
it_l = iter([1, 2, 3, 4]); next(it_l)
it_src = [10, 20, 30]; it_shared = iter(it_src); next(it_shared)
it_d = iter({'a': 1, 'b': 2, 'c': 3}.items()); next(it_d)
it_z = zip([1, 2, 3], 'abc'); next(it_z)
it_e = enumerate('xyz', 5); next(it_e)
it_m = map(str, it_shared); it_r = reversed([1, 2, 3]); next(it_r)
it_f = filter(None, [0, 1, 2]); it_rg = iter(range(5)); next(it_rg); it_st = iter('abc'); next(it_st)""",
        "check": """
assert list(it_l) == [2, 3, 4] and list(it_d) == [('b', 2), ('c', 3)] and list(it_z) == [(2, 'b'), (3, 'c')]
assert list(it_e) == [(6, 'y'), (7, 'z')] and list(it_r) == [2, 1] and list(it_f) == [1, 2] and list(it_rg) == [1, 2, 3, 4] and list(it_st) == ['b', 'c']
it_src.append(40); assert next(it_m) == '20' and list(it_shared) == [30, 40]""",
    },
    "itertools_in_mid_way": {
        "setup": """
import itertools
ic_count = itertools.count(5, 2); next(ic_count)
ic_cycle = itertools.cycle('abc'); next(ic_cycle); next(ic_cycle)
ic_chain = itertools.chain([1, 2], [3]); next(ic_chain)
ic_slice = itertools.islice(range(100), 2, 9, 3); next(ic_slice)
ic_comb = itertools.combinations('abcd', 2); next(ic_comb)
ic_acc = itertools.accumulate([1, 2, 3, 4]); next(ic_acc); next(ic_acc)""",
        "check": """
assert next(ic_count) == 7 and [next(ic_cycle) for _ in range(3)] == ['c', 'a', 'b'] and list(ic_chain) == [2, 3]
assert list(ic_slice) == [5, 8] and next(ic_comb) == ('a', 'c') and list(ic_acc) == [6, 10]""",
    },
    "a_generator_among_others": {
        "setup": """
def gg_count():
    for i in range(5): yield i
async def gg_co(): return 1
async def gg_ag(): yield 1
gg_gen = gg_count(); next(gg_gen); gg_c = gg_co(); gg_a = gg_ag()
gg_mix = {'gen': gg_gen, 'data': [1, 2, 3]}; gg_data = gg_mix['data']; gg_expr = (x for x in gg_data)""",
        "check": """
assert gg_mix['data'] == [1, 2, 3] and gg_mix['data'] is gg_data and list(gg_count()) == [0, 1, 2, 3, 4]
for lost in (gg_gen, gg_mix['gen'], gg_expr):
    try: next(lost)
    except Exception as error: assert 'generator' in str(error)
    else: raise AssertionError('a lost generator yields')
assert gg_gen is gg_mix['gen']
import asyncio
assert asyncio.iscoroutinefunction(gg_co)
gg_c2 = gg_co(); gg_c2.close()""",
        "lost": {
            "gg_gen": "generator",
            "gg_c": "coroutine",
            "gg_a": "generator",
            "gg_mix['gen']": "generator",
            "gg_expr": "generator",
        },
    },
    "values_drawn_before": {
        "setup": """
import uuid, time, random, datetime
dr_u = uuid.uuid4(); dr_t = time.time(); dr_s = random.sample(range(10 ** 6), 5); dr_now = datetime.datetime.now()
dr_proof = (str(dr_u), repr(dr_t), list(dr_s), dr_now.isoformat())""",
        "check": "assert dr_proof == (str(dr_u), repr(dr_t), list(dr_s), dr_now.isoformat())",
    },
    "weak_references": {
        "setup": """
import weakref
class WkThing: pass
wk_a, wk_b = WkThing(), WkThing()
wk_ref = weakref.ref(wk_a); wk_dead = weakref.ref(WkThing())
wk_vals = weakref.WeakValueDictionary(a=wk_a, b=wk_b); wk_keys = weakref.WeakKeyDictionary({wk_a: 1, wk_b: 2}); wk_set = weakref.WeakSet([wk_a])
wk_prox = weakref.proxy(wk_a); wk_a.x = 7""",
        "check": """
import gc
assert wk_ref() is wk_a and wk_dead() is None and wk_vals['a'] is wk_a and wk_keys[wk_b] == 2 and wk_a in wk_set and wk_prox.x == 7
del wk_b; gc.collect()
assert 'b' not in wk_vals and len(wk_keys) == 1""",
    },
    "caches_of_functions": {
        "setup": """
import functools
ca_calls = []
@functools.lru_cache(maxsize=None)
def ca_fib(n): ca_calls.append(n); return n if n < 2 else ca_fib(n - 1) + ca_fib(n - 2)
ca_fib(10)
class CaThing:
    @functools.cached_property
    def slow(self): ca_calls.append('slow'); return 42
ca_t = CaThing(); ca_t.slow
@functools.singledispatch
def ca_show(x): return 'any'
@ca_show.register(int)
def _(x): return 'int'""",
        "check": """
before = len(ca_calls)
assert ca_t.slow == 42 and len(ca_calls) == before and ca_fib(10) == 55 and ca_fib.cache_parameters()['maxsize'] is None
assert ca_show(1) == 'int' and ca_show('') == 'any'""",
    },
    "exceptions": {
        "setup": """
class ExMine(Exception):
    def __init__(self, code, text): super().__init__(text); self.code = code
try:
    try: 1 / 0
    except ZeroDivisionError as inner: raise ExMine(7, 'outer') from inner
except ExMine as error: ex_e = error
ex_list = [ValueError('a', 1), KeyError('k')]""",
        "check": """
assert type(ex_e) is ExMine and ex_e.code == 7 and str(ex_e) == 'outer' and type(ex_e.__cause__) is ZeroDivisionError
assert ex_list[0].args == ('a', 1) and repr(ex_list[1]) == "KeyError('k')"
try: raise ex_e
except ExMine as again: assert again is ex_e""",
    },
    "collections_of_the_library": {
        "setup": """
import collections, types, array, fractions, decimal, datetime, re, zoneinfo, ipaddress, pathlib
co_dq = collections.deque([1, 2, 3], maxlen=3); co_dd = collections.defaultdict(list, a=[1]); co_od = collections.OrderedDict(b=1, a=2); co_od.move_to_end('b')
co_ct = collections.Counter('aab'); co_cm = collections.ChainMap({'x': 1}, co_dd); co_ns = types.SimpleNamespace(a=co_dq); co_mp = types.MappingProxyType(co_dd)
co_ar = array.array('d', [1.5, 2.5]); co_fr = fractions.Fraction(1, 3); co_de = decimal.Decimal('1.10'); co_re = re.compile(r'(?P<n>\\d+)', re.I)
co_dt = datetime.datetime(2026, 3, 29, 2, 30, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin'), fold=1); co_off = co_dt.utcoffset(); co_ip = ipaddress.ip_network('10.0.0.0/8'); co_path = pathlib.Path('a') / 'b'
co_sl = slice(1, 5, 2); co_rg = range(1, 9, 3); co_fs = frozenset({1, (2, 3)}); co_el = ...; co_ni = NotImplemented; co_key = {(1, 'a'): {2: 3}}""",
        "check": """
co_dq.append(4); assert list(co_dq) == [2, 3, 4] and co_ns.a is co_dq
co_dd['new'].append(1); assert co_mp['new'] == [1] and co_cm['new'] == [1] and list(co_od) == ['a', 'b'] and co_ct['a'] == 2
assert co_ar.tolist() == [1.5, 2.5] and co_fr * 3 == 1 and str(co_de) == '1.10' and co_re.search('x12')['n'] == '12'
assert co_dt.utcoffset() == co_off and co_dt.fold == 1 and co_dt.tzinfo is zoneinfo.ZoneInfo('Europe/Berlin') and co_ip.num_addresses == 2 ** 24 and co_path.parts == ('a', 'b')
assert [*range(10)][co_sl] == [1, 3] and list(co_rg) == [1, 4, 7] and (2, 3) in co_fs and co_el is ... and co_ni is NotImplemented and co_key[1, 'a'][2] == 3""",
    },
    "metaclasses_and_descriptors": {
        "setup": """
class MtMeta(type):
    seen = []
    def __new__(m, name, bases, ns, **kw): cls = super().__new__(m, name, bases, ns); m.seen.append(name); return cls
    def __call__(cls, *a):
        if not hasattr(cls, 'only'): cls.only = super().__call__(*a)
        return cls.only
class MtField:
    def __set_name__(self, owner, name): self.name = '_' + name
    def __get__(self, obj, owner=None): return self if obj is None else getattr(obj, self.name, 'unset')
    def __set__(self, obj, value): setattr(obj, self.name, value)
class MtOne(metaclass=MtMeta):
    f = MtField()
mt_one = MtOne(); mt_one.f = 3""",
        "check": """
assert MtOne() is mt_one is MtOne.only and mt_one.f == 3 and MtMeta.seen == ['MtOne'] and type(MtOne) is MtMeta
class MtTwo(metaclass=MtMeta): pass
assert MtMeta.seen == ['MtOne', 'MtTwo'] and MtTwo() is MtTwo()""",
    },
    "operators_of_the_user": {
        "setup": """
class OpBad:
    def __eq__(self, other): raise RuntimeError('no eq')
    def __bool__(self): raise RuntimeError('no bool')
    def __repr__(self): raise RuntimeError('no repr')
    __hash__ = None
class OpAttr:
    def __getattr__(self, name): return name.upper()
class OpDict(dict):
    def __init__(self, *a, **k): super().__init__(*a, **k); self.extra = 'e'
    def __missing__(self, key): return 'no ' + key
class OpInt(int): unit = 'kg'
op_bad = OpBad(); op_bad.x = 1; op_attr = OpAttr(); op_attr.real = 5; op_dict = OpDict(a=1); op_int = OpInt(3); op_int.note = 'n'""",
        "check": """
assert op_bad.__dict__ == {'x': 1} and type(op_bad) is OpBad and op_attr.real == 5 and op_attr.other == 'OTHER'
assert op_dict['a'] == 1 and op_dict['b'] == 'no b' and op_dict.extra == 'e' and op_int + 1 == 4 and op_int.note == 'n' and type(op_int) is OpInt""",
    },
    "deep_structures": {
        "setup": """
dp_nest = []
for _ in range(20000): dp_nest = [dp_nest]
class DpNode:
    def __init__(self, nxt, v): self.nxt, self.v = nxt, v
dp_head = None
for _i in range(50000): dp_head = DpNode(dp_head, _i)""",
        "check": """
n, depth = dp_nest, 0
while n: n, depth = n[0], depth + 1
assert depth == 20000
n, total = dp_head, 0
while n is not None: total += n.v; n = n.nxt
assert total == sum(range(50000))""",
    },
    "many_small_objects": {
        "setup": """
class SmRow:
    def __init__(self, i): self.i = i; self.name = f'row {i}'; self.pair = (i, float(i))
sm_rows = [SmRow(i) for i in range(60000)]; sm_by = {r.name: r for r in sm_rows}""",
        "check": "assert len(sm_rows) == 60000 and all(sm_by[r.name] is r and r.pair[1] == r.i for r in sm_rows)",
    },
    "decorated_functions": {
        "setup": """
import functools, contextlib
de_log = []
def de_logged(prefix):
    def wrap(f):
        @functools.wraps(f)
        def inner(*a, **k): de_log.append(prefix + f.__name__); return f(*a, **k)
        return inner
    return wrap
@de_logged('call ')
def de_work(x): "works"; return x + 1
@contextlib.contextmanager
def de_ctx(): de_log.append('in'); yield 5; de_log.append('out')
class DeCall:
    def __call__(self, x): return x * 2
de_call = DeCall()""",
        "check": """
assert de_work(1) == 2 and de_log == ['call de_work'] and de_work.__doc__ == 'works' and de_work.__wrapped__(5) == 6
with de_ctx() as v: assert v == 5
assert de_log == ['call de_work', 'in', 'out'] and de_call(4) == 8""",
    },
    "async_code": {
        "setup": """
import asyncio
async def ay_double(x): await asyncio.sleep(0); return x * 2
ay_result = await ay_double(4)
ay_lock = asyncio.Lock(); ay_q = asyncio.Queue(); ay_q.put_nowait('item'); ay_ev = asyncio.Event(); ay_ev.set()""",
        "check": """
assert ay_result == 8 and await ay_double(5) == 10 and ay_ev.is_set()
async with ay_lock: pass
assert await ay_q.get() == 'item'""",
    },
}

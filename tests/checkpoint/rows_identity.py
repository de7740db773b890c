"""What a checkpoint must bring back: which object it is. (setup, check); `lost` names what may be lost."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "members_of_an_enum_with_what_their_init_gave_them": {
        "setup": """
from enum import Enum, Flag, IntEnum, IntFlag, auto
made = []
class Planet(Enum):
    EARTH = (5.976e+24, 6.37814e6)
    MARS = (6.421e+23, 3.3972e6)
    TERRA = EARTH
    def __init__(self, mass, radius):
        made.append(mass)
        self.mass = mass
        self.radius = radius
    @property
    def gravity(self):
        return 6.67300E-11 * self.mass / (self.radius * self.radius)
class Color(Enum):
    RED = 1
    BLUE = 'b'
    GONE = [1]
Color.RED.extra = [Color.BLUE]
class Base(Enum):
    def __init__(self, *words):
        self.words = words
class Derived(Base):
    A = ('x', 'y')
    def shout(self):
        return self.words[0].upper()
class F(Flag):
    R = auto()
    W = auto()
    RW = R | W
F.R.note = 'read'
class P(IntFlag):
    X = 1
    Y = 2
both = P.X | P.Y
class Number(IntEnum):
    ONE = 1
    TWO = 2
class Op(Enum):
    ADD = (lambda a, b: a + b,)
by = {Planet.EARTH: 'home', Number.TWO: 2, F.R | F.W: 'rw'}
count = len(made)""",
        "check": """
assert len(made) == count and made[:2] == [5.976e+24, 6.421e+23]
assert Planet.EARTH.mass == 5.976e+24 and Planet.MARS.radius == 3.3972e6 and round(Planet.EARTH.gravity, 1) == 9.8
assert Planet.TERRA is Planet.EARTH and Planet((6.421e+23, 3.3972e6)) is Planet.MARS and len(Planet) == 2
assert Planet.EARTH.value == (5.976e+24, 6.37814e6) and Planet['MARS'].name == 'MARS'
assert Color.RED.extra == [Color.BLUE] and Color('b') is Color.BLUE and Color([1]) is Color.GONE and Color(1) is Color.RED
assert Derived.A.words == ('x', 'y') and Derived.A.shout() == 'X' and isinstance(Derived.A, Base)
assert F.R.note == 'read' and F.RW == F.R | F.W and F(1) is F.R and F.R in F.RW and list(F.__members__) == ['R', 'W', 'RW']
assert both == 3 and both == P.X | P.Y and isinstance(both, P) and P(2) is P.Y
assert Number.TWO == 2 and Number(1) is Number.ONE and list(Number) == [Number.ONE, Number.TWO]
assert Op.ADD.value[0](1, 2) == 3
assert by[Planet.EARTH] == 'home' and by[2] == 2 and by[F.RW] == 'rw'
import pickle
assert repr(Color.RED) == '<Color.RED: 1>' and str(Number.ONE) in ('1', 'Number.ONE')""",
    },
    "an_enum_whose_classes_have_code_for_their_attributes": {
        "setup": """
from enum import Enum, EnumMeta, Flag
seen = []
class Meta(EnumMeta):
    def __setattr__(cls, name, value): seen.append(name); super().__setattr__(name, value)
class Noting:
    def __setattr__(self, name, value): seen.append(name); object.__setattr__(self, name, value)
class Color(Noting, Enum, metaclass=Meta):
    RED = 1
    BLUE = 2
    AZURE = 2
class Sealed(Enum):
    ON = 1
    def __setattr__(self, name, value):
        if '_sort_order_' in vars(self): seen.append(name)
        object.__setattr__(self, name, value)
class Strict(EnumMeta):
    def __setattr__(cls, name, value):
        if name in ('__module__', '__qualname__'): raise TypeError('strict')
        super().__setattr__(name, value)
class Right(Flag, metaclass=Strict):
    READ = 1
    WRITE = 2
object.__setattr__(Color.RED, 'note', [Color.BLUE])
seen.clear()""",
        "check": """
assert seen == [], seen
assert Color(2) is Color.BLUE is Color.AZURE and list(Color) == [Color.RED, Color.BLUE]
assert Color.RED.note == [Color.BLUE] and Color.RED.value == 1 and Color.RED.name == 'RED'
assert Sealed(1) is Sealed.ON and (Right.READ | Right.WRITE).value == 3
Color.RED.more = 1; Meta.other = 1; Color.other = 2
assert seen == ['more', 'other'], seen""",
    },
    "members_of_an_enum_whose_mixin_makes_them": {
        "setup": """
import datetime
from dataclasses import dataclass
from enum import Enum, IntEnum
class Coord(bytes, Enum):
    def __new__(cls, value, label, unit):
        obj = bytes.__new__(cls, [value])
        obj._value_ = value
        obj.label = label
        obj.unit = unit
        return obj
    PX = (0, 'P.X', 'km')
    PY = (1, 'P.Y', 'km')
class Swapped(str, Enum):
    def __new__(cls, word):
        obj = str.__new__(cls, word.upper())
        obj._value_ = word
        return obj
    A = 'a'
class Auto(Enum):
    def __new__(cls):
        obj = object.__new__(cls)
        obj._value_ = len(cls.__members__) + 1
        return obj
    ONE = ()
    TWO = ()
class Day(datetime.date, Enum):
    NEW_YEAR = 2026, 1, 1
class Pair(tuple, Enum):
    A = (1, 2)
class Level(float, Enum):
    LOW = 0.5
class Twice(int):
    def __new__(cls, value):
        return int.__new__(cls, value * 2)
class Doubled(Twice, Enum):
    ONE = 1
@dataclass
class Data:
    size: str
    legs: int = 4
class Creature(Data, Enum):
    DOG = ('medium', 4)
    BEETLE = ('small', 6)
held = [Coord.PX, Swapped.A, Creature.DOG, Day.NEW_YEAR]""",
        "check": """
assert Coord.PX.label == 'P.X' and Coord.PY.unit == 'km' and bytes(Coord.PY) == b'\\x01' and Coord(1) is Coord.PY and Coord.PX.value == 0
assert Swapped.A == 'A' and Swapped('a') is Swapped.A and Swapped.A.value == 'a'
assert Auto.TWO.value == 2 and Auto(1) is Auto.ONE
assert Day.NEW_YEAR.year == 2026 and Day.NEW_YEAR < datetime.date(2026, 1, 2) and Day.NEW_YEAR.isoformat() == '2026-01-01'
assert Pair.A == (1, 2) and Pair.A[1] == 2 and Level.LOW * 2 == 1.0
assert Doubled.ONE == 2 and int(Doubled.ONE) == 2
assert Creature.DOG.size == 'medium' and Creature.BEETLE.legs == 6 and isinstance(Creature.DOG, Data)
assert held[0] is Coord.PX and held[1] is Swapped.A and held[2] is Creature.DOG and held[3] is Day.NEW_YEAR""",
    },
    "functions_of_the_generators_that_libraries_share": {
        "setup": """
import random
from random import random as rnd, choice, shuffle
import numpy as np
from numpy.random import rand, seed as np_seed
shared = random._inst
numpys = np.random.mtrand._rand
own = random.Random(5)
draw = own.random
random.seed(3)
np.random.seed(3)
expected = random.Random(3).random(), np.random.RandomState(3).rand()""",
        "check": """
assert rnd.__self__ is random._inst and choice.__self__ is random._inst and shared is random._inst
assert rnd() == expected[0] and rand() == expected[1]
random.seed(9); a = random.random(); random.seed(9); assert rnd() == a
np.random.seed(9); b = np.random.rand(); np_seed(9); assert rand() == b
assert numpys is np.random.mtrand._rand
assert own is not random._inst and draw.__self__ is own""",
    },
    "sentinels_of_libraries": {
        "setup": """
import dataclasses, inspect, unittest.mock, functools, optparse
@dataclasses.dataclass
class Point:
    x: int
    y: int = 2
missing = dataclasses.MISSING
fields = dataclasses.fields(Point)
default = unittest.mock.DEFAULT
anything = unittest.mock.ANY
root = __import__('logging').getLogger()
options = optparse.OptionParser()
options.add_option('-x', default=1, help=optparse.SUPPRESS_HELP)
options.add_option('-y', help='shown')""",
        "check": """
assert missing is dataclasses.MISSING and fields[0].default is dataclasses.MISSING and fields[1].default == 2
assert dataclasses.fields(Point)[0].default_factory is dataclasses.MISSING
assert default is unittest.mock.DEFAULT and anything is unittest.mock.ANY
import logging
assert root is logging.getLogger()
assert '-x' not in options.format_help() and 'shown' in options.format_help()""",
    },
    "a_parser_of_arguments": {
        "setup": """
import argparse
ap = argparse.ArgumentParser(prog='p')
ap.add_argument('--n', type=int, default=3)
ap.add_argument('--opt', default=argparse.SUPPRESS)
ap.add_argument('--dark', help=argparse.SUPPRESS)
ap.add_argument('rest', nargs=argparse.REMAINDER)
suppress = argparse.SUPPRESS""",
        "check": """
assert suppress is argparse.SUPPRESS
assert vars(ap.parse_args([])) == {'n': 3, 'dark': None, 'rest': []}
assert vars(ap.parse_args(['--opt', 'a', 'b'])) == {'n': 3, 'dark': None, 'rest': ['b'], 'opt': 'a'}
assert 'SUPPRESS' not in ap.format_help() and '--dark' not in ap.format_help()""",
    },
    "numbers_that_are_no_numbers": {
        "setup": """
import math
import numpy as np
d = {np.nan: 'missing', math.nan: 'm'}
l = [1, np.nan]
s = {np.nan}
x = np.nan
y = float('nan')
own = {y: 1, 'deep': [(y,)]}
objects = np.array([np.nan, y, 'a'], dtype=object)
minus = -y
class Box: pass
box = Box()
box.value = y
deep = [y]
for _ in range(3000):
    deep = [deep]
# %%
many = [[float('nan')] * 2 for _ in range(30)]
for i, pair in enumerate(many):
    globals()[f'n{i}'] = {'first': pair[0], 'second': pair[1], 'shared': np.nan}
del i, pair""",
        "check": """
assert x is np.nan and d.get(np.nan) == 'missing' and d[math.nan] == 'm' and np.nan in l and np.nan in s
assert y is not np.nan and own[y] == 1 and own['deep'][0][0] is y and objects[1] is y and objects[0] is np.nan and box.value is y
assert minus != minus and math.copysign(1, minus) == -math.copysign(1, y) and minus is not y
for _ in range(3000):
    deep = deep[0]
assert deep[0] is y
for i in range(30):
    n = globals()[f'n{i}']
    assert n['first'] is n['second'] is many[i][0] and n['shared'] is np.nan
assert many[0][0] is not many[1][0]""",
    },
    "loops_that_need_a_hash_before_there_is_one": {
        "setup": """
class N:
    def __init__(self, name):
        self.name = name
    def __hash__(self):
        return hash(self.name)
    def __eq__(self, other):
        return self.name == other.name
b = N('b')
d = {b: [b]}
b.d = d
a = N('a')
fs = frozenset([a])
a.fs = fs
kept = [1, 2]
globals()[1] = 'x'""",
        "check": """
assert kept == [1, 2] and d[b][0] is b and b.d is d and a.name == 'a' and 1 not in globals()
assert 'unhashable' not in repr(fs) and "has no attribute 'name'" in repr(fs) and repr(a.fs) == repr(fs)""",
        "lost": ["fs", "a.fs"],
    },
    "modules_and_their_namespaces": {
        "setup": """
import sys, json, builtins
import numpy as np
mods = sys.modules
space = vars(json)
inside = {'a': [vars(np)], 'spec': json.__spec__}
everything = __import__('gc').get_objects()
sys.modules[7] = json""",
        "check": """
import sys
assert mods is sys.modules and space is vars(json) and inside['a'][0] is vars(np) and inside['spec'] is json.__spec__""",
        "lost": ["everything"],
    },
    "memory_of_ctypes": {
        "setup": """
import ctypes
import numpy as np
ci = (ctypes.c_int * 3)(1, 2, 3)
n = np.ctypeslib.as_array(ci)
half = n[1:]
class S(ctypes.Structure):
    _fields_ = [('a', ctypes.c_double), ('b', ctypes.c_double)]
st = S(1.5, 2.5)
seen = np.frombuffer(st, dtype=np.float64)""",
        "check": """
ci[1] = 20
assert n.tolist() == [1, 20, 3] and half[0] == 20
half[1] = 30
assert list(ci) == [1, 20, 30]
st.b = 9.0
assert seen.tolist() == [1.5, 9.0]""",
    },
    "the_dictionary_of_an_instance": {
        "setup": """
class A: pass
a = A()
a.x = 1
m = vars(a)
b = A()
b.d = b.__dict__
b.y = 2
class Borg:
    _s = {}
    def __init__(self):
        self.__dict__ = Borg._s
b1, b2 = Borg(), Borg()
b1.y = 5
class AttrDict(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self
ad = AttrDict(k=1, l=AttrDict(m=2))
class Slotted:
    __slots__ = ('s', '__dict__')
sl = Slotted()
sl.s = 's'
sl.t = 't'
held = [sl.__dict__]""",
        "check": """
a.z = 3
assert m is vars(a) and m == {'x': 1, 'z': 3}
assert b.d is b.__dict__ and b.y == 2
b1.z = 6
assert b2.z == 6 and b2.y == 5 and vars(b1) is vars(b2) is Borg._s and Borg().y == 5
assert ad.k == 1 and ad.l.m == 2 and vars(ad) is ad
ad.n = 7
assert ad['n'] == 7 and ad == {'k': 1, 'l': {'m': 2}, 'n': 7}
sl.u = 'u'
assert held[0] is sl.__dict__ and held[0] == {'t': 't', 'u': 'u'} and sl.s == 's'""",
    },
    "two_handles_of_one_open_file": {
        "setup": """
import os, tempfile
path = os.path.abspath('two_handles.txt')
f = open(path, 'w')
f.write('abc'); f.flush()
g = os.fdopen(os.dup(f.fileno()), 'w')
g.write('def'); g.flush()
alone = open(path, 'r')
alone.seek(3)
other = open(path, 'r')
other.seek(3)""",
        "check": """
f.write('Z'); f.flush(); g.write('Y'); g.flush()
assert open(path).read() == 'abcdefZY', open(path).read()
assert alone.read(1) == 'd' and other.read(1) == 'd' and alone.fileno() != f.fileno() != g.fileno()""",
    },
    "tensors_made_for_inference": {
        "setup": """
import torch
with torch.inference_mode():
    t = torch.arange(3.)
    v = t[1:]
plain = torch.ones(2)""",
        "check": """
assert t.is_inference() and v.is_inference() and not plain.is_inference() and t.tolist() == [0., 1., 2.]
with torch.inference_mode():
    t[1] = 9
assert v[0] == 9""",
    },
    "weak_proxies_of_what_is_gone": {
        "setup": """
import weakref
class A: pass
a = A()
alive = weakref.proxy(a)
gone = weakref.proxy(A())""",
        "check": """
alive.x = 1
assert a.x == 1
try:
    gone.x
except ReferenceError:
    gone = 'gone'
assert gone == 'gone'""",
    },
    "a_class_that_is_another_one_in_a_test_load": {
        "setup": """
import os, sys
with open('where_made.py', 'w') as file:
    file.write('import sys\\nclass Base: pass\\nclass auto(Base): pass\\n'
               'if not sys.argv[0].endswith("carry.py"): auto = Base\\n')
sys.path.insert(0, os.getcwd())
from where_made import auto  # as tqdm.auto, which looks for a notebook
del file""",
        "check": """
import where_made
assert auto is where_made.auto and auto.__name__ == 'auto'""",
    },
    "what_the_process_and_libraries_share": {
        "setup": """
import os, sys
import matplotlib
from matplotlib import rcParams
env = os.environ
path = sys.path
os.environ['FIX_TWO'] = 'here'
rcParams['lines.linewidth'] = 7.0
held = {'rc': matplotlib.rcParams, 'maps': matplotlib.colormaps}""",
        "check": """
assert env is os.environ and env['FIX_TWO'] == 'here' and path is sys.path
assert rcParams is matplotlib.rcParams is held['rc'] and held['maps'] is matplotlib.colormaps
assert rcParams['lines.linewidth'] == 7.0
rcParams['lines.linewidth'] = 9.0
assert matplotlib.rcParams['lines.linewidth'] == 9.0""",
    },
}

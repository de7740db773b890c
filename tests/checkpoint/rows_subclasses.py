"""What a checkpoint must bring back: classes that build on the builtin ones. (setup, check)"""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "containers_whose_own_code_stands_in_the_way_of_pickle": {
        "setup": """
import collections
class Lower(dict):
    def __init__(self, *a, **k):
        for key, value in dict(*a, **k).items(): self[key] = value
    def __setitem__(self, key, value): super().__setitem__(key.lower(), value)
class Frozen(dict):
    def __setitem__(self, key, value): raise TypeError('frozen')
class Counting(dict):
    sets = 0
    def __setitem__(self, key, value): Counting.sets += 1; super().__setitem__(key, value)
class Doubling(list):
    def append(self, item): super().append(item * 2)
    def extend(self, items): raise RuntimeError
class Cache(collections.OrderedDict):
    def __init__(self, room): super().__init__(); self.room = room
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        if len(self) > self.room: self.popitem(last=False)
class Ring(collections.deque):
    def __init__(self, room, name): super().__init__(maxlen=room); self.name = name
class Groups(collections.defaultdict):
    def __init__(self, name): super().__init__(list); self.name = name
class Tally(collections.Counter):
    def __init__(self, name): super().__init__(); self.name = name
class Tags(set):
    def __init__(self, name): super().__init__(); self.name = name
class Needs(dict):
    def __new__(cls, needed): return super().__new__(cls)
    def __init__(self, needed): super().__init__(x=needed)
class Hidden(dict):
    def items(self): raise RuntimeError
    def __iter__(self): return iter(())
class Open(dict):
    def __init__(self, **k): super().__init__(**k); self.__dict__ = self
    def __setitem__(self, key, value): super().__setitem__(key, value)
lower = Lower(A=1); frozen = Frozen(a=1); counting = Counting(); counting['a'] = 1
doubling = Doubling([1]); doubling.append(2); doubling.me = doubling
cache = Cache(2); cache['a'] = 1; cache['b'] = 2; cache['c'] = 3; cache.move_to_end('b')
ring = Ring(2, 'r'); ring.extend([1, 2, 3]); groups = Groups('g'); groups['k'].append(groups)
tally = Tally('t'); tally.update('aab'); tags = Tags('s'); tags.add('x')
needs = Needs(5); hidden = Hidden(a=1); attributes = Open(a=1); both = [lower, lower]""",
        "check": """
assert lower == {'a': 1} and type(lower) is Lower and both[0] is both[1] is lower
lower['B'] = 2; assert lower['b'] == 2
assert frozen == {'a': 1} and counting == {'a': 1} and Counting.sets == 1
assert doubling == [1, 4] and doubling.me is doubling
assert list(cache) == ['c', 'b'] and cache.room == 2
cache['d'] = 4; assert list(cache) == ['b', 'd']
assert list(ring) == [2, 3] and ring.maxlen == 2 and ring.name == 'r'
assert groups['k'][0] is groups and groups['new'] == [] and groups.name == 'g'
assert tally.most_common(1) == [('a', 2)] and tally.name == 't' and tags == {'x'} and tags.name == 's'
assert needs == {'x': 5} and dict.__len__(hidden) == 1 and dict.get(hidden, 'a') == 1
assert attributes.a == 1; attributes.b = 2; assert attributes['b'] == 2""",
    },
    "values_made_by_a_new_of_their_own": {
        "setup": """
import collections
class Text(str):
    def __new__(cls, a, b): made = super().__new__(cls, a + b); made.b = b; return made
class Pair(tuple):
    def __new__(cls, a, b): return super().__new__(cls, (a, b))
class Whole(int):
    __slots__ = ()
    def __new__(cls, *, of): return super().__new__(cls, of)
class Real(float):
    def __new__(cls, a, unit): made = super().__new__(cls, a); made.unit = unit; return made
class Raw(bytes):
    def __new__(cls, *, size): return super().__new__(cls, b'x' * size)
class Group(frozenset):
    def __new__(cls, *members): return super().__new__(cls, members)
class Twice(complex):
    def __new__(cls, a): return super().__new__(cls, a, -0.0)
class Point(collections.namedtuple('Point', 'x y')):
    def __new__(cls, x): return super().__new__(cls, x, x)
text = Text('a', 'b'); pair = Pair(1, [text]); whole = Whole(of=2 ** 70); real = Real(1.5, 'm')
raw = Raw(size=3); group = Group(1, 2); twice = Twice(2); point = Point(3)
held = []; around = Pair(held, 0); held.append(around)""",
        "check": """
assert text == 'ab' and text.b == 'b' and type(text) is Text and pair == (1, ['ab']) and pair[1][0] is text
assert whole == 2 ** 70 and type(whole) is Whole and real == 1.5 and real.unit == 'm' and raw == b'xxx'
assert group == {1, 2} and type(group) is Group and twice == complex(2, -0.0) and str(twice.imag) == '-0.0'
assert point == (3, 3) and point.y == 3 and type(point) is Point and type(pair) is Pair
assert held[0] is around and around[0] is held and Text('c', 'd') == 'cd'""",
    },
    "containers_whose_attributes_have_code_of_their_own": {
        "setup": """
asked = []
class Strict(dict):
    __slots__ = ('label', 'unset')
    def __setitem__(self, key, value): raise TypeError('strict')
    def __getattr__(self, name): asked.append(name); return 'invented'
    def __setattr__(self, name, value): asked.append(name); raise TypeError('strict')
class Watching(list):
    def append(self, item): raise TypeError('strict')
    def __getattr__(self, name): asked.append(name); return {'invented': 1}
    def __setattr__(self, name, value): asked.append(name)
    def __getattribute__(self, name): asked.append(name); return object.__getattribute__(self, name)
class Word(str):
    __slots__ = ('__private', 'shown')
    def __new__(cls, a, b): return super().__new__(cls, a + b)
    def __getattr__(self, name): asked.append(name); return 'invented'
    def __setattr__(self, name, value): asked.append(name); raise TypeError('strict')
class Loud(Word):
    shown = property(lambda self: asked.append('shown'))
class Shown(Watching):
    __dict__ = property(lambda self: asked.append('__dict__') or {})
class Open(dict):
    def __setitem__(self, key, value): raise TypeError('strict')
    def __setattr__(self, name, value): asked.append(name)
strict = Strict(a=1); Strict.label.__set__(strict, [strict])
watching = Watching([1, 2]); object.__getattribute__(watching, '__dict__')['of'] = watching
word = Word('a', 'b'); Word._Word__private.__set__(word, 1); Word.shown.__set__(word, [word])
shown = Shown([3]); vars(Watching)['__dict__'].__get__(shown)['of'] = 3
loud = Loud('c', 'd'); Word.shown.__set__(loud, 5)
items = Open(a=1); object.__setattr__(items, '__dict__', items)
asked.clear()""",
        "check": """
assert asked == [], asked
assert dict(strict) == {'a': 1} and Strict.label.__get__(strict)[0] is strict
try: Strict.unset.__get__(strict)
except AttributeError: pass
else: raise AssertionError
assert list(watching) == [1, 2] and object.__getattribute__(watching, '__dict__') == {'of': watching}
assert word == 'ab' and Word._Word__private.__get__(word) == 1 and Word.shown.__get__(word)[0] is word
assert list(shown) == [3] and vars(Watching)['__dict__'].__get__(shown) == {'of': 3}
assert loud == 'cd' and Word.shown.__get__(loud) == 5
assert object.__getattribute__(items, '__dict__') is items and dict.get(items, 'a') == 1""",
    },
    "bytes_that_change_made_by_code_of_their_own": {
        "setup": """
class Frame(bytearray):
    def __init__(self, sender, data):
        super().__init__(data)
        self.sender = sender
class Quiet(bytearray):
    def __iter__(self): raise TypeError('quiet')
frame = Frame('me', b'hello'); held = [frame, memoryview(frame)[1:3]]
quiet = Quiet(b'abc'); quiet.of = quiet""",
        "check": """
assert frame == b'hello' and frame.sender == 'me' and type(frame) is Frame and held[0] is frame
assert bytes(held[1]) == b'el' and held[1].obj is frame
assert quiet == b'abc' and quiet.of is quiet and type(quiet) is Quiet""",
    },
    "what_a_class_does_with_its_own_state": {
        "setup": """
class Told(dict):
    def __setitem__(self, key, value): raise TypeError('strict')
    def __setstate__(self, state): self.__dict__.update(state, lock='made anew')
told = Told(a=1); told.name = 'n'; told.lock = 'old'""",
        "check": "assert told == {'a': 1} and told.name == 'n' and told.lock == 'made anew'",
    },
}

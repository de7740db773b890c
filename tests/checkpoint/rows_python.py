"""What a checkpoint must bring back: plain Python. (setup, check); `lost` names what may be lost."""

ROWS = {
    "plain_values": {
        "setup": "n = 2 ** 500\ns = 'ü' * 100000\nz = 1 + 2j\nb = b'x' * 70000\nf = float('inf')\nnone = None",
        "check": "assert n == 2 ** 500 and s == 'ü' * 100000 and z == 1 + 2j\n"
        "assert b == b'x' * 70000 and f == float('inf') and none is None",
    },
    "two_names_for_one_list": {
        "setup": "a = [1]\n# %%\nb = a\nclass Box: pass\nbox = Box()\nbox.a = a\nd = {'k': (a, [a])}",
        "check": "assert a is b and box.a is a and d['k'][0] is a and d['k'][1][0] is a\n"
        "b.append(2)\nassert box.a == [1, 2]",
    },
    "containers_that_contain_themselves": {
        "setup": "l = [1]\nl.append(l)\nd = {}\nd['me'] = d\nt = ([],)\nt[0].append(t)",
        "check": "assert l[1] is l and d['me'] is d and t[0][0] is t",
    },
    "function_from_a_cell": {
        "setup": "def f(a, b=2, *, c=3) -> int:\n    'doc'\n    return a + b + c\nf.note = [1]\nnote = f.note",
        "check": "assert f(1) == 6 and f(1, c=0) == 3 and f.__doc__ == 'doc' and f.note is note\n"
        "assert f.__module__ == '__main__' and f.__annotations__ == {'return': int}\n"
        "import inspect\nassert 'return a + b + c' in inspect.getsource(f)",
    },
    "function_sees_the_live_namespace": {
        "setup": "def f():\n    global n\n    n = later + 1\n    return n\n# %%\nlater = 1\nf()",
        "check": "assert f.__globals__ is globals()\nlater = 41\nassert f() == 42 and n == 42",
    },
    "recursive_and_mutual_functions": {
        "setup": "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n != 0 and even(n - 1)",
        "check": "assert even(10) and odd(7)",
    },
    "closures_sharing_a_cell": {
        "setup": "def make():\n    n = 0\n    def inc():\n        nonlocal n\n        n += 1\n        return n\n"
        "    def get(): return n\n    return inc, get\ninc, get = make()\ninc()",
        "check": "assert get() == 1 and inc() == 2 and get() == 2\n"
        "assert inc.__closure__[0] is get.__closure__[0]",
    },
    "recursive_closure": {
        "setup": "def make():\n    def fact(n): return 1 if n < 2 else n * fact(n - 1)\n    return fact\nfact = make()\n"
        "cell = fact.__closure__[0]",
        "check": "assert fact(5) == 120 and cell is fact.__closure__[0] and cell.cell_contents is fact",
    },
    "classes_and_registries": {
        "setup": "class A:\n    registry = []\n    def __init__(self): A.registry.append(self)\n"
        "    def __init_subclass__(cls): kinds.append(cls.__name__)\n"
        "kinds = []\nclass B(A):\n    def __init__(self):\n        super().__init__()\n        self.v = 1\n"
        "x = B()\nm = x.__init__",
        "check": "assert type(x) is B and isinstance(x, A) and A.registry == [x] and A.registry[0] is x\n"
        "y = B()\nassert A.registry == [x, y] and m.__self__ is x\n"
        "assert kinds == ['B'], kinds",
    },
    "dataclass": {
        "setup": "from dataclasses import dataclass, field, fields, replace\n@dataclass(order=True)\nclass P:\n"
        "    x: int\n    tags: list = field(default_factory=list)\np = P(1)\nq = P(2, ['a'])",
        "check": "assert p < q and replace(p, x=5).x == 5 and P(9).tags == []\n"
        "assert [f.name for f in fields(p)] == ['x', 'tags'] and repr(p) == 'P(x=1, tags=[])'",
    },
    "frozen_dataclass_with_slots": {
        "setup": "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    x: int\n    y: int = 2\n"
        "p = P(1)\ns = {p}",
        "check": "assert P(1) in s and hash(p) == hash(P(1))",
    },
    "enum": {
        "setup": "import enum\nclass Color(enum.Enum):\n    RED = 1\n    BLUE = 2\n    def up(self): return self.name\n"
        "class Flag(enum.IntFlag):\n    A = 1\n    B = 2\nc = Color.RED\nd = {Color.BLUE: 1}\nab = Flag.A | Flag.B",
        "check": "assert c is Color.RED and d[Color.BLUE] == 1 and Color(2) is Color.BLUE and c.up() == 'RED'\n"
        "assert ab == Flag.A | Flag.B and Flag.A in ab",
    },
    "namedtuple": {
        "setup": "import collections, typing\nP = collections.namedtuple('P', 'x y')\np = P(1, 2)\n"
        "class Q(typing.NamedTuple):\n    a: int\n    b: str = 'z'\nq = Q(1)",
        "check": "assert type(p) is P and p.y == 2 and type(q) is Q and q.b == 'z' and P(3, 4)._replace(x=1).x == 1",
    },
    "abc": {
        "setup": "import abc\nclass Base(abc.ABC):\n    @abc.abstractmethod\n    def run(self): ...\n"
        "class Impl(Base):\n    def run(self): return 1\nBase.register(int)\ni = Impl()",
        "check": "assert isinstance(i, Base) and isinstance(3, Base) and i.run() == 1\n"
        "try:\n    Base()\n    raise SystemExit('abstract class was made')\nexcept TypeError: pass",
    },
    "slots_properties_static": {
        "setup": "class S:\n    __slots__ = ('a', 'b')\n    @property\n    def both(self): return self.a + self.b\n"
        "    @staticmethod\n    def st(): return 1\n    @classmethod\n    def cl(cls): return cls\n"
        "s = S()\ns.a, s.b = 1, 2",
        "check": "assert s.both == 3 and S.st() == 1 and S.cl() is S and not hasattr(s, '__dict__')",
    },
    "generic": {
        "setup": "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Stack(Generic[T]):\n"
        "    def __init__(self): self.items = []\ns = Stack[int]()\nU = Stack[int]",
        "check": "assert type(s) is Stack and U is not None and Stack[str]().items == []",
    },
    "metaclass": {
        "setup": "class Meta(type):\n    made = []\n    def __call__(cls, *a):\n        o = super().__call__(*a)\n"
        "        Meta.made.append(o)\n        return o\nclass K(metaclass=Meta): pass\nk = K()",
        "check": "assert type(K) is Meta and Meta.made == [k]\nK()\nassert len(Meta.made) == 2",
    },
    "lambda_and_partial": {
        "setup": "import functools\ndouble = lambda x: 2 * x\np = functools.partial(pow, 2)\n"
        "q = functools.partial(double, 4)",
        "check": "assert double(4) == 8 and p(5) == 32 and q() == 8 and q.func is double",
    },
    "lru_cache": {
        "setup": "import functools\ncalls = []\n@functools.lru_cache(None)\ndef f(x):\n    calls.append(x)\n    return x * 2\nf(3)",
        "check": "assert f(4) == 8 and f.__wrapped__.__globals__ is globals()",
    },
    "decorator": {
        "setup": "import functools\ndef deco(g):\n    @functools.wraps(g)\n    def w(*a):\n        w.calls += 1\n        return g(*a)\n"
        "    w.calls = 0\n    return w\n@deco\ndef add(a, b): return a + b\nadd(1, 2)",
        "check": "assert add(2, 3) == 5 and add.calls == 2 and add.__wrapped__(1, 1) == 2",
    },
    "half_consumed_iterators": {
        "setup": "it = iter([1, 2, 3]); next(it)\nz = zip([1, 2], 'ab'); next(z)\ne = enumerate('xyz'); next(e)\n"
        "m = map(str, iter([1, 2, 3])); next(m)\nr = iter(range(5)); next(r)\nd = iter({'a': 1, 'b': 2}); next(d)",
        "check": "assert list(it) == [2, 3] and list(z) == [(2, 'b')] and list(e) == [(1, 'y'), (2, 'z')]\n"
        "assert list(m) == ['2', '3'] and list(r) == [1, 2, 3, 4] and list(d) == ['b']",
    },
    "generator_is_lost_alone": {
        "setup": "g = (i for i in range(3))\nruns = [1, g, 3]\nok = 5\nasync def co(): pass\nc = co()",
        "check": "assert ok == 5 and runs[0] == 1 and runs[2] == 3 and runs[1] is g\n"
        "assert {l['name'] for l in report.lost} == {'g', 'runs[1]', 'c'}, report.lost\n"
        "try:\n    next(g)\n    raise SystemExit('no error')\nexcept RuntimeError as error:\n"
        "    assert \"'g' was a generator; it could not be kept\" in str(error)",
        "lost": ["g", "runs[1]", "c"],
    },
    "values_drawn_before": {
        "setup": "import uuid, time, random\nu = uuid.uuid4()\nt = time.time()\nr = random.random()\nkeep = [str(u), repr(t), repr(r)]",
        "check": "assert keep == [str(u), repr(t), repr(r)]",
    },
    "weak_references": {
        "setup": "import weakref\nclass N: pass\nn = N()\nw = weakref.ref(n)\nwv = weakref.WeakValueDictionary(k=n)\n"
        "wk = weakref.WeakKeyDictionary()\nwk[n] = 1\nws = weakref.WeakSet([n])\ndead = weakref.ref(N())",
        "check": "import gc\nassert w() is n and wv['k'] is n and wk[n] == 1 and n in ws and dead() is None\n"
        "import sys\ndel n\nreport.values = None\ngc.collect()\n"
        "assert w() is None and not len(wv) and not len(wk) and not len(ws)",
    },
    "globals_and_builtins": {
        "setup": "g = globals()\nimport builtins\nb = vars(builtins)\nlen2 = len\nprinter = print",
        "check": "import builtins\nassert g is globals() and b is vars(builtins) and len2 is len and printer is print",
    },
    "exceptions": {
        "setup": "class MyError(ValueError):\n    def __init__(self, a, b):\n        super().__init__(a)\n        self.b = b\n"
        "try:\n    raise MyError(1, 2)\nexcept MyError as e:\n    err = e\nplain = KeyError('k')",
        "check": "assert plain.args == ('k',)",
        "lost": ["err"],
    },
    "containers_of_the_library": {
        "setup": "import collections, decimal, fractions, datetime, re, pathlib, array\n"
        "c = collections.Counter('aab')\ndd = collections.defaultdict(list, a=[1])\nod = collections.OrderedDict(x=1)\n"
        "dq = collections.deque([1, 2], maxlen=3)\ndec = decimal.Decimal('1.1')\nfr = fractions.Fraction(1, 3)\n"
        "now = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)\nrx = re.compile('a+', re.I)\n"
        "p = pathlib.Path('x') / 'y'\nar = array.array('d', [1.0, 2.0])\ncm = collections.ChainMap({'a': 1}, {'b': 2})",
        "check": "assert c['a'] == 2 and dd['z'] == [] and dd['a'] == [1] and od['x'] == 1 and dq.maxlen == 3\n"
        "assert dec + 1 == dec.__class__('2.1') and fr * 3 == 1 and now.year == 2026 and rx.match('AAA')\n"
        "assert str(p) == 'x/y' and ar[1] == 2.0 and cm['b'] == 2",
    },
    "subclasses_of_builtins": {
        "setup": "class L(list):\n    def total(self): return sum(self)\nclass D(dict):\n    tag = 'd'\nclass I(int): pass\n"
        "class S(str): pass\nl = L([1, 2]); l.note = 'n'\nd = D(a=1)\ni = I(5)\ns = S('x')\ns.k = 1",
        "check": "assert l.total() == 3 and l.note == 'n' and d['a'] == 1 and d.tag == 'd' and i == 5\n"
        "assert type(i) is I and type(s) is S and s.k == 1",
    },
    "long_linked_list": {
        "setup": "class Node:\n    def __init__(self, v): self.v, self.next, self.prev = v, None, None\n"
        "head = tail = Node(0)\nfor i in range(1, 200000):\n    n = Node(i)\n    tail.next, n.prev = n, tail\n    tail = n\ndel n",
        "check": "k = 0\nn = head\nwhile n.next is not None:\n    assert n.next.prev is n\n    n = n.next\n    k += 1\n"
        "assert k == 199999 and n is tail and tail.v == 199999\nnode = head\nhead = tail = n = None\n"
        "while node is not None:\n    following = node.next\n    node.next = node.prev = None\n    node = following",
    },
    "deeply_nested_lists": {
        "setup": "deep = []\nfor _ in range(100000):\n    deep = [deep]\nok = [1, 2]",
        "check": "assert ok == [1, 2]",
        "lost": ["deep"],
    },
    "many_small_objects": {
        "setup": "class P:\n    def __init__(self, i): self.i = i\nps = [P(i) for i in range(50000)]\nby = {p.i: p for p in ps}",
        "check": "assert len(ps) == 50000 and all(by[i] is ps[i] for i in range(50000))",
    },
    "many_variables": {
        "setup": "for i in range(5000):\n    globals()[f'v{i}'] = [i]",
        "check": "assert all(globals()[f'v{i}'] == [i] for i in range(5000))",
    },
    "nothing_of_the_users_runs_twice": {
        "setup": "log = []\nclass Meta(type):\n    def __init__(cls, *a):\n        super().__init__(*a)\n        log.append(cls)\n"
        "class A(metaclass=Meta):\n    def __init_subclass__(cls, **k): log.append(cls.__name__)\n"
        "class B(A): pass\nclass C(B): pass\nc = C()",
        "check": "assert log == [A, 'B', B, 'C', C], log\nclass D(C): pass\nassert log[5:] == ['D', D]\n"
        "assert type(c) is C and type(C) is Meta",
    },
    "private_slots": {
        "setup": "class S:\n    __slots__ = ('__x', '__dict__', '__weakref__')\n    def __init__(self): self.__x = 1\n"
        "    def get(self): return self.__x\ns = S()\ns.other = 2",
        "check": "import weakref\nassert s.get() == 1 and s.other == 2 and weakref.ref(s)() is s",
    },
    "a_class_redefined": {
        "setup": "class A:\n    v = 1\nold = A()\nclass A:\n    v = 2\nnew = A()",
        "check": "assert old.v == 1 and new.v == 2 and type(new) is A and type(old) is not A",
    },
    "module_objects": {
        "setup": "import json as j\nimport xml.dom.minidom\nfrom os import path as p\nimport collections.abc",
        "check": "import json, os\nassert j is json and p is os.path\nassert xml.dom.minidom.parseString('<a/>')",
    },
    "module_made_in_memory": {
        "setup": "import types, sys\nm = types.ModuleType('made')\nm.x = [1]\nexec('def f(): return x', vars(m))\nshared = m.x",
        "check": "assert m.x is shared and m.f() == [1]",
    },
    "functions_of_exec": {
        "setup": "d = {}\nexec('k = 3\\ndef f(): return k', d)\nf = d['f']",
        "check": "d['k'] = 4\nassert f() == 4 and f.__globals__ is d",
    },
}

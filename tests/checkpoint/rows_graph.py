"""What a checkpoint must bring back: deep structures, sharing, identity. (setup, check)"""

from __future__ import annotations

from typing import Any

ROWS: dict[str, dict[str, Any]] = {
    "deep_chains_of_every_kind": {
        "setup": """
import collections, dataclasses, functools, types, typing
N = 20000
class Slots:
    __slots__ = ('v', 'next', '__weakref__')
    def __init__(self, v, next): self.v, self.next = v, next
@dataclasses.dataclass
class Data:
    v: int
    next: typing.Any
    payload: list = dataclasses.field(default_factory=list)
@dataclasses.dataclass(frozen=True)
class Frozen:
    v: int
    next: typing.Any
class Reduced:
    def __init__(self, v, next): self.v, self.next = v, next
    def __reduce__(self): return Reduced, (self.v, self.next)
class Stated:
    def __init__(self, v, next): self.v, self.next = v, next
    def __getstate__(self): return (self.v, self.next)
    def __setstate__(self, state): self.v, self.next = state
class Listed(list):
    @property
    def v(self): return self[0]
    @property
    def next(self): return self[1]
Named = collections.namedtuple('Named', 'v next')
def chain(make):
    node = None
    for v in range(N):
        node = make(v, node)
    return node
chains = [chain(make) for make in (Slots, Data, Frozen, Reduced, Stated, Named)]
chains.append(chain(lambda v, next: Listed((v, next))))
chains.append(chain(lambda v, next: types.SimpleNamespace(v=v, next=next)))
cons = chain(lambda v, next: (v, next))
dicts = chain(lambda v, next: {'v': v, 'next': next})
ordered = chain(lambda v, next: collections.OrderedDict(v=v, next=next))
deques = chain(lambda v, next: collections.deque((v, next)))
mixed = chain(lambda v, next: [{'next': (Slots(v, next),)}])
def wrap(inner):
    @functools.wraps(inner)
    def outer(): return inner
    return outer
wrapped = print
for _ in range(2000): wrapped = wrap(wrapped)
partials = functools.partial(max, 1)
for _ in range(2000): partials = functools.partial(max, partials)""",
        "check": """
def depth(node, next, v=lambda node: None):
    count = 0
    while node is not None:
        node, count = next(node), count + 1
    return count
for head in chains:
    assert depth(head, lambda node: node.next) == N and head.v == N - 1, type(head)
assert depth(cons, lambda node: node[1]) == N and cons[0] == N - 1
assert depth(dicts, lambda node: node['next']) == N
assert depth(ordered, lambda node: node['next']) == N and type(ordered).__name__ == 'OrderedDict'
assert depth(deques, lambda node: node[1]) == N
assert depth(mixed, lambda node: node[0]['next'][0].next) == N
count = 0
while wrapped is not print:
    assert wrapped.__wrapped__ is wrapped()
    wrapped, count = wrapped(), count + 1
assert count == 2000
count = 0
while partials.args != (1,):
    partials, count = partials.args[0], count + 1
assert count == 2000""",
    },
    "deep_loops": {
        "setup": """
class Node:
    def __init__(self, v): self.v, self.next, self.prev = v, None, None
first = last = Node(0)
for v in range(1, 20000):
    last.next = Node(v)
    last.next.prev = last
    last = last.next
last.next, first.prev = first, last
ring = []
inner = ring
for _ in range(20000):
    inner = [inner]
ring.append((inner,))
by_node = {}
node = first
while True:
    by_node[node] = node.v
    node = node.next
    if node is first: break
another = [first, last]
for _ in range(3000):
    another = [another]
thing = (i for i in 'ab')
around = thing
for _ in range(3000):
    around = {'in': around, 'first': first}""",
        "check": """
node, count = first, 0
while True:
    assert node.next.prev is node and by_node[node] == node.v
    node, count = node.next, count + 1
    if node is first: break
assert count == 20000 and first.prev is last
inner, count = ring[0][0], 0
while inner is not ring:
    inner, count = inner[0], count + 1
assert count == 20000
while len(another) == 1: another = another[0]
assert another[0] is first and another[1] is last
while type(around) is dict:
    assert around['first'] is first
    around = around['in']
assert around is thing""",
        "lost": [
            "thing",
            "around['in']['in']['in']['in']['in'] ... ['in']['in']['in']['in']['in']",
        ],
    },
    "many_deep_names": {
        "setup": """
shared = ['shared']
for i in range(30):
    value = [shared, i]
    for _ in range(1500): value = [value]
    globals()[f'deep{i}'] = value
after = shared""",
        "check": """
for i in range(30):
    value = globals()[f'deep{i}']
    while len(value) == 1: value = value[0]
    assert value[0] is shared and value[1] == i
assert after is shared""",
    },
    "objects_that_recurse_in_their_own_code": {
        "setup": """
class Tree:
    def __init__(self, child): self.child = child
    def __getstate__(self):
        def down(n): return n if n == 0 else down(n - 1)
        down(400)
        return {'child': self.child}
tree = None
for _ in range(1000): tree = Tree(tree)
class Endless:
    def __getstate__(self): return self.__getstate__()
endless = [Endless(), 1]""",
        "check": """
count = 0
while tree is not None: tree, count = tree.child, count + 1
assert count == 1000 and endless[1] == 1""",
        "lost": ["endless[0]"],
    },
}

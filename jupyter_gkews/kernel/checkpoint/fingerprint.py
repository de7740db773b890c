"""What a value looks like, in a few bytes: compared between the kernel and a test load.

Says "different" only where something that must be equal is not: it leaves out what may differ
for good reasons (identities, the order of sets, caches of objects with a state of their own) and
runs none of the user's code. Where memory lies it tells by places.py, whose bytes the hashes of
the chunks cover.
"""

from __future__ import annotations

import builtins
import hashlib
import marshal
import types
from collections import OrderedDict
from collections.abc import Container, Iterable
from types import CodeType
from typing import Any, Callable

from . import identities, nans
from .library_looks import of_library
from .looks import ATOMS, LOOKS, Look, look_of
from .placeholders import Lost
from .places import Places
from .rebuilders import not_compared, types_of_ours
from .singletons import StandIn, found_again

#: Objects of one name that are looked at before the time is looked at again.
_LOOK_AT_CLOCK = 512
#: Objects that are looked at in each name although the time is up.
LEAST = 500
#: Elements of a container of plain values that are written at once.
_SLICE = 1 << 15
#: Levels of sets in sets.
_NESTED = 8
#: A NaN, as marshal writes it.
_NAN = (b"\0\0\0\0\0\0\xf8\x7f", b"\0\0\0\0\0\0\xf8\xff")


class Fingerprints:
    """Fingerprints of the names of one namespace, taken in graph order.

    `lost` holds the ids of objects that the checkpoint replaced by placeholders; `places` knows
    the memory of the checkpoint; `process` the ids of what is found again instead of copied, looked
    for where it is not given. Objects met again are named by the order of their first meeting,
    so that shared objects stay shared. Once `late()`, which is asked often and may raise, no more
    than LEAST objects a name are looked at.
    """

    def __init__(
        self,
        user_ns: dict[str, Any],
        lost: frozenset[int] = frozenset(),
        *,
        places: Places | None = None,
        process: Container[int] | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        self.places = places or Places()
        self._lost = lost
        self._process = found_again() if process is None else process
        self._nans = nans.known()
        self._rebuilt = types_of_ours()
        self._namespaces = {
            **identities.namespaces(),
            id(user_ns): "of the cells",
            id(vars(builtins)): "builtins",
        }
        self._looks: dict[type, Look | None] = dict(LOOKS)
        self._late = late
        self._met: dict[Any, tuple[int, int]] = {}
        self._kept: list[Any] = []
        self._nested = 0
        self._name = -1
        self._position = 0
        self._stack: list[Any] = []
        self._words: list[str] = []
        self._positions: list[int] = []
        self._refers: set[int] = set()

    def of(self, value: Any, limit: int | None = None) -> list[Any]:
        """The fingerprint of the next name's value, as JSON can carry it.

        [all that was seen, the same without positions in other names, other names in which
        something was met, number of objects looked at before it was cut off or None]. It is cut
        off after `limit` objects, or when the time is up.
        """
        self._name += 1
        self._position = 0
        self._words, self._positions, self._refers = [], [], set()
        self._all, self._loose = _hash(), _hash()
        if id(value) in self._lost:
            self.say("lost")
        else:
            self._stack = [value]
        cut = self._walk(limit)
        self._flush()
        return [self._all.hexdigest(), self._loose.hexdigest(), sorted(self._refers), cut]

    def _walk(self, limit: int | None) -> int | None:
        stack, looks, count = self._stack, self._looks, 0
        while stack:
            if limit is not None:
                if count >= limit:
                    return count
            elif not count % _LOOK_AT_CLOCK and self._late() and count >= LEAST:
                return count
            count += 1
            obj = stack.pop()
            cls = type(obj)
            try:
                look = looks[cls]
            except KeyError:
                look = looks[cls] = of_library(cls) or look_of(cls, self._rebuilt)
            if look is not None and look.atom:
                self._words.append(look.write(obj))
                if obj != obj:
                    self._nan(obj)
            else:
                self._look(obj, cls, look)
            if len(self._words) > 4096:
                self._flush()
        return None

    def _look(self, obj: Any, cls: type, look: Look | None) -> None:
        number = id(obj)
        if cls is Lost or number in self._lost:
            self._words.append("lost")
        elif not_compared(obj):
            self._words.append("made by a rebuilder")
        elif cls is StandIn or number in self._process or self._is_bound_to_process(obj, cls):
            self._words.append("of the process")
        elif number in self._namespaces:
            self.say("namespace", self._namespaces[number])
        elif _is_value(obj, cls) or not self._again(obj):
            try:
                if look is None:
                    self.say(cls.__qualname__)
                else:
                    look.open(self, obj, cls)
            except Exception:  # an object that cannot even be looked at, here or there
                self.say("unreadable")

    def _is_bound_to_process(self, obj: Any, cls: type) -> bool:
        """A method of the kernel's own objects, or of what stands in for them in a test load."""
        if cls is not types.MethodType:
            return False
        return type(obj.__self__) is StandIn or id(obj.__self__) in self._process

    def _again(self, obj: Any) -> bool:
        """Whether the object was met before (then that is all that is said about it)."""
        self._kept.append(obj)
        return self._met_again(id(obj))

    def _nan(self, number: Any) -> None:
        """Say which NaN it is: it is found by that (as a key, in a list)."""
        if type(number) is not float:
            return
        known = self._nans.get(id(number))
        if known is not None:
            self.say("of a module", known)
        else:
            self._again(number)

    def attributes(self, found: Any) -> bool:
        """Note the dictionary of an instance; whether it was met before (others hold it)."""
        return self._met_again(id(found))

    def memory(self, address: int) -> None:
        """Say whether this memory was met before, in an object that still holds it."""
        if not self._met_again(("memory", address)):
            self.say("its own memory")

    def _met_again(self, key: Any) -> bool:
        met = self._met.get(key)
        if met is None:
            self._met[key] = (self._name, self._position)
            self._position += 1
            return False
        name, position = met
        if name == self._name:
            self.say("again", position)
        else:
            # One name that differs must not make all that follow differ: see `differing`.
            self.say("again in", name)
            self._refers.add(name)
            self._positions.append(position)
        return True

    def _flush(self) -> None:
        data = "\0".join(self._words).encode("utf-8", "backslashreplace") + b"\1"
        self._loose.update(data)
        self._all.update(data)
        self._all.update(repr(self._positions).encode())
        self._words.clear()
        self._positions.clear()

    # ---- what looks say ----

    def say(self, *words: Any) -> None:
        """Add words."""
        self._words.extend(map(str, words))

    def then(self, *parts: Any) -> None:
        """Look at these objects next, in this order. They must live as long as what holds them."""
        self._stack.extend(reversed(parts))

    def then_all(self, parts: Iterable[Any], length: int) -> None:
        """Look at the elements of a container; those that are all plain values at once."""
        found = list(parts)  # a thread of the user's may change it meanwhile
        self.say(length)
        if set(map(type, found)) <= ATOMS:
            for start in range(0, len(found), _SLICE):
                # version 2: by value alone, neither identities nor what is interned
                data = marshal.dumps(found[start : start + _SLICE], 2)
                self._words.append(hashlib.blake2b(data, digest_size=8).hexdigest())
                if any(nan in data for nan in _NAN):
                    for part in found[start : start + _SLICE]:
                        if part != part:
                            self._nan(part)
        else:
            found.reverse()
            self._stack.extend(found)

    def then_mapping(self, mapping: Any) -> None:
        """Look at the keys and values of a dictionary, in its order."""
        ordered = isinstance(mapping, OrderedDict)  # has an order of its own beside dict's
        items = list(OrderedDict.items(mapping) if ordered else dict.items(mapping))
        self.then_all([key for key, _ in items], len(items))
        self.then_all([value for _, value in items], len(items))

    def without_order(self, elements: Any) -> None:
        """Say the elements of a set, whatever their order: each by itself."""
        found = list(elements)
        self.say(len(found))
        if set(map(type, found)) <= ATOMS:
            total = 0
            for element in found:
                if element != element:
                    self._nan(element)
                digest = hashlib.blake2b(marshal.dumps(element, 2), digest_size=8).digest()
                total += int.from_bytes(digest, "little")
            self.say(total & (1 << 64) - 1)
            return
        told: list[str] = []
        fresh: dict[str, list[Any]] = {}
        for element in found:
            met = self._met.get(id(element))
            if met is None:
                fresh.setdefault(self._alone(element), []).append(element)
            else:
                told.append(f"again {met if met[0] == self._name else met[0]}")
        self._words.extend(sorted(told))
        for text in sorted(fresh):
            self.say(text, len(fresh[text]))
            for element in fresh[text]:  # those that look the same have one position
                if type(element) not in ATOMS:
                    self._met[id(element)] = (self._name, self._position)
                    self._kept.append(element)
            self._position += 1

    def _alone(self, element: Any) -> str:
        """An element of a set as if there were nothing else."""
        if self._nested >= _NESTED:
            return type(element).__qualname__
        alone = Fingerprints.__new__(Fingerprints)
        alone.__dict__.update(self.__dict__)
        alone._met, alone._kept, alone._name = {}, [], -1
        alone._nested = self._nested + 1
        return str(alone.of(element, LEAST)[0])


def _is_value(obj: Any, cls: type, depth: int = 0) -> bool:
    """Whether an object may come back in two copies, as equal: nobody can change it, and Python
    itself makes one or two of it (a constant of a function that is also its default)."""
    if cls is CodeType or cls in ATOMS:
        return True
    if cls not in (tuple, frozenset) or depth > _NESTED:
        return False
    return all(_is_value(part, type(part), depth + 1) for part in obj)


def _hash() -> Any:
    return hashlib.blake2b(digest_size=12)


def differing(expected: list[list[Any]], found: list[list[Any]]) -> list[int]:
    """The positions of names that do not look the same on both sides."""
    bad = [i for i, pair in enumerate(zip(expected, found)) if pair[0][1:] != pair[1][1:]]
    wrong = set(bad)
    for i, (here, there) in enumerate(zip(expected, found)):
        # Where only positions differ: those in a name that differs itself mean nothing.
        if i not in wrong and here[0] != there[0] and not wrong.intersection(here[2]):
            bad.append(i)
    return sorted(bad)

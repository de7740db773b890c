"""What a value looks like, in a few bytes: compared between the kernel and a test load.

Says "different" only where something that must be equal is not: it leaves out what may differ
for good reasons (identities, hash order, caches of objects with a state of their own). It looks
at samples of big memory, whose bytes the hashes of the chunks cover.
"""

from __future__ import annotations

import builtins
import hashlib
import sys
import types
from collections import OrderedDict, deque
from typing import Any

from .placeholders import Lost
from .rebuilders import by_others, types_of_ours
from .singletons import StandIn, process_objects

#: Objects looked at a name, elements of one container, levels of nesting.
BUDGET = 4000
WIDTH = 200
DEPTH = 12
_SAMPLE = 64


class Fingerprints:
    """Fingerprints of the names of one namespace, taken in graph order.

    `lost` holds the ids of objects that the checkpoint replaced by placeholders. Objects met
    again are named by the order of their first meeting, so that shared objects stay shared.
    """

    def __init__(self, user_ns: dict[str, Any], lost: frozenset[int] = frozenset()) -> None:
        self._lost = lost
        self._process = process_objects()
        self._rebuilt = types_of_ours()
        self._namespaces = (id(user_ns), id(vars(builtins)))
        self._met: dict[int, tuple[int, int]] = {}
        self._name = 0
        self._position = 0
        self._kept: list[Any] = []
        self._budget = 0
        self._hash = hashlib.blake2b(digest_size=8)

    def of(self, value: Any) -> str:
        """The fingerprint of the next name's value."""
        self._name += 1
        self._position = 0
        self._budget = BUDGET
        self._hash = hashlib.blake2b(digest_size=8)
        self._walk(value, 0)
        return self._hash.hexdigest()

    def _say(self, *words: Any) -> None:
        for word in words:
            self._hash.update(str(word).encode("utf-8", "backslashreplace"))
            self._hash.update(b"\0")

    def _walk(self, obj: Any, depth: int) -> None:
        self._budget -= 1
        if self._budget < 0 or depth > DEPTH:
            self._say("...")
            return
        cls = type(obj)
        if cls is Lost or id(obj) in self._lost:
            self._say("lost")
        elif by_others(obj):
            self._say("made by a rebuilder")
        elif cls is StandIn or id(obj) in self._process:
            self._say("of the process")
        elif cls in (int, float, complex, bool, type(None)):
            self._say(cls.__name__, repr(obj) if cls is not int or abs(obj) < 1 << 64 else hex(obj))
        elif cls in (str, bytes, bytearray):
            data = obj.encode("utf-8", "surrogatepass") if cls is str else obj
            self._say(cls.__name__, len(obj), hashlib.blake2b(data, digest_size=8).hexdigest())
        elif cls is tuple:
            self._say("tuple", len(obj))
            for item in obj[:WIDTH]:
                self._walk(item, depth + 1)
        elif cls in (set, frozenset):
            self._say(cls.__name__, len(obj))
        elif issubclass(cls, type):
            self._say("class", obj.__name__, [base.__name__ for base in obj.__mro__])
        elif issubclass(cls, types.ModuleType):
            self._say("module", obj.__name__)
        elif cls is types.FunctionType:
            self._say("function", obj.__name__, len(obj.__code__.co_code), obj.__code__.co_names)
        elif id(obj) in self._namespaces:
            self._say("namespace", self._namespaces.index(id(obj)))
        elif not self._again(obj):
            try:
                self._open(obj, cls, depth)
            except Exception:  # an object that cannot even be looked at, here or there
                self._say("unreadable")

    def _again(self, obj: Any) -> bool:
        """Whether the object was met before (then that is all that is said about it)."""
        met = self._met.get(id(obj))
        if met is not None:
            # Within a name by position; across names only the name: one that differs must not
            # make all that follow differ.
            name, position = met
            self._say("again", position if name == self._name else f"in {name}")
            return True
        self._met[id(obj)] = (self._name, self._position)
        self._position += 1
        self._kept.append(obj)
        return False

    def _open(self, obj: Any, cls: type, depth: int) -> None:
        # An iterator may come back as another kind of iterator over the same rest.
        self._say("iterator" if hasattr(cls, "__next__") else cls.__qualname__)
        if cls in (list, deque):
            self._say(len(obj))
            for _, item in zip(range(WIDTH), obj):
                self._walk(item, depth + 1)
        elif cls in (dict, OrderedDict):
            self._mapping(obj, depth)
        elif self._array(obj, cls) or self._tensor(obj, cls) or self._module(obj, cls, depth):
            return
        elif _default_state(cls) and not issubclass(cls, self._rebuilt):
            attributes = getattr(obj, "__dict__", None)
            if type(attributes) is dict:
                self._mapping(attributes, depth)

    def _mapping(self, mapping: dict[Any, Any], depth: int) -> None:
        self._say(len(mapping))
        for _, (key, value) in zip(range(WIDTH), list(mapping.items())):
            self._walk(key, depth + 1)
            self._walk(value, depth + 1)

    def _array(self, obj: Any, cls: type) -> bool:
        numpy: Any = sys.modules.get("numpy")
        if numpy is None or not issubclass(cls, getattr(numpy, "ndarray", ())):
            return False
        flags = obj.flags
        self._say(str(obj.dtype), obj.shape, flags.writeable)
        if not obj.dtype.hasobject and obj.size and cls is numpy.ndarray:
            step = max(1, obj.size // _SAMPLE)
            picks = [obj.flat[i].tobytes().hex() for i in range(0, obj.size, step)]
            self._say(*picks)
        return True

    def _tensor(self, obj: Any, cls: type) -> bool:
        torch: Any = sys.modules.get("torch")
        if torch is None or not issubclass(cls, getattr(torch, "Tensor", ())):
            return False
        # Sizes of a jagged tensor are symbols, numbered by the process.
        self._say(str(obj.dtype), obj.dim() if obj.is_nested else tuple(obj.shape))
        plain = obj.layout is torch.strided and not obj.is_quantized and not obj.is_nested
        if plain and obj.device.type == "cpu" and not obj.is_conj() and obj.numel():
            self._say(obj.stride(), obj.requires_grad if obj.is_leaf else False)
            raw = torch.empty(0, dtype=torch.uint8).set_(obj.untyped_storage())
            width, strides = obj.element_size(), obj.stride()
            step = max(1, obj.numel() // _SAMPLE)
            for number in range(0, obj.numel(), step):
                at, rest = obj.storage_offset(), number
                for size, stride in zip(reversed(obj.shape), reversed(strides)):
                    at += (rest % size) * stride
                    rest //= size
                self._say(bytes(raw[at * width : (at + 1) * width].tolist()).hex())
        return True

    def _module(self, obj: Any, cls: type, depth: int) -> bool:
        torch = sys.modules.get("torch")
        nn = getattr(torch, "nn", None)
        if nn is None or not isinstance(obj, nn.Module):
            return False
        # A model has many parameters: none of them may fall to the budget.
        for part in ("_parameters", "_buffers", "_modules"):
            found = obj.__dict__.get(part) or {}
            self._say(part, len(found))
            for name, value in found.items():
                self._budget = max(self._budget, 100)
                self._say(name)
                self._walk(value, 1)
        return True


def _default_state(cls: type) -> bool:
    """Whether the instance dictionary is all the state: nothing overrides how it is pickled."""
    for name in ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"):
        if getattr(cls, name, None) is not getattr(object, name, None):
            return False
    return not hasattr(cls, "__getnewargs__") and not hasattr(cls, "__getnewargs_ex__")

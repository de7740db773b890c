"""How a class is made again without the user's own code: what their metaclass and their
`__init_subclass__` did is in the namespace already.

Nothing here is named in graph.pkl; what is, stands in rebuild.py and enums.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def library_owner(cls: type, name: str) -> Any:
    """The first class in the order of inheritance that has `name` itself and is no cell's: its
    method does what the user's adds to, and runs none of the user's code."""
    return next(c for c in cls.__mro__ if c.__module__ != "__main__" and name in vars(c))


@contextlib.contextmanager
def quiet_subclassing(
    bases: tuple[Any, ...], metaclass: Any = type, quiet_too: tuple[str, ...] = ()
) -> Iterator[None]:
    """No `__init_subclass__` of the user's runs for a class made within, no `__setattr__` of the
    user's metaclass (that of abc sets an attribute), and none of the methods `quiet_too`."""
    above = [base for each in bases for base in getattr(each, "__mro__", ())]
    hooks = [(base, name) for base in above for name in ("__init_subclass__", *quiet_too)]
    hooks += [(base, "__setattr__") for base in metaclass.__mro__]
    quiet = []
    for base, hook in dict.fromkeys(hooks):
        if base.__module__ == "__main__" and hook in vars(base):
            quiet.append((base, hook, vars(base)[hook]))
            type.__delattr__(base, hook)
    try:
        yield
    finally:
        for base, hook, function in quiet:
            type.__setattr__(base, hook, function)

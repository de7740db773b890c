"""functools.lru_cache and functools.cache of functions from cells, with the results they hold.

A new cache is filled by calling it while something that hands out the stored results stands where
its function will be: the user's function is never run. The constructors are named in graph.pkl:
add, never change.
"""

from __future__ import annotations

import collections
import functools
import gc
import operator
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable

from .. import rebuild
from ..functions import by_name_in_module
from ..placeholders import Lost
from .interface import Handler
from .loading import loading

if TYPE_CHECKING:
    from ..graph import GraphWriter

    #: (arguments, keyword arguments, result)
    Entry = tuple[tuple[Any, ...], dict[str, Any], Any]

#: So many calls (0.1 s) are made to bring the counts of cache_info() to what they were.
COUNTED = 200_000


#: What stands between a cache that is to be filled and its function.
_between: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def handlers() -> dict[type, Handler]:
    """The kinds of this family."""
    return {functools._lru_cache_wrapper: reduce_cache}


def reduce_cache(writer: GraphWriter, cached: Any) -> Any:
    """A function behind a cache: cached again, with its results in the order of their use."""
    if by_name_in_module(cached):
        return NotImplemented
    parameters = cached.cache_parameters()
    attributes = dict(vars(cached))
    if _parameters(cached) is not None:  # lru_cache notes them again
        del attributes["cache_parameters"]
    info = functools._lru_cache_wrapper.cache_info(cached)
    entries = cached_entries(cached)
    if entries is None:
        writer.note_rebuilt("a cache of results (lru_cache) starts empty again", cached)
        entries, counts = [], (0, 0)
    else:
        counts = (info.hits, info.misses)
        if info.hits + info.misses - len(entries) > COUNTED:
            counts = (0, len(entries))
            writer.note_rebuilt(
                "the counts of cache_info() begin again; the cached results are there", cached
            )
    args = (cached.__wrapped__, parameters["maxsize"], parameters["typed"])
    if not entries and counts == (0, 0):
        return rebuild.lru_cached, args, attributes, None, None, rebuild.update_attributes
    return cache_to_fill, args, (attributes, entries, counts), None, None, fill_cache


# ---- what a cache holds ----


def cached_entries(cached: Any) -> list[Entry] | None:
    """What is cached, the least recently used first; None if it cannot be told.

    The C object tells the collector what it refers to: for a bounded cache key and result of each
    entry in the order of use, then (for all) the dictionary that finds them by their keys.
    """
    parameters = _parameters(cached)
    size = functools._lru_cache_wrapper.cache_info(cached).currsize
    if not size or parameters is None:
        return None if size else []
    kinds = (functools._lru_cache_wrapper, _link_type())
    found = [each for each in gc.get_referents(cached) if not any(each is k for k in kinds)]
    if parameters["maxsize"] is None:
        table = next((each for each in found if type(each) is dict), None)
        if table is None or table is vars(cached) or len(table) != size:
            return None
        pairs = list(table.items())
    else:
        pairs = list(zip(found[0 : 2 * size : 2], found[1 : 2 * size : 2]))
        if len(pairs) != size:
            return None
    entries = []
    for key, result in pairs:
        called = _called(key, bool(parameters["typed"]))
        if called is None:
            return None
        entries.append((*called, result))
    return entries


def _parameters(cached: Any) -> Any:
    """{"maxsize", "typed"}, as lru_cache notes them beside the cache; None where something else
    stands there, of which no code is run."""
    told = vars(cached).get("cache_parameters")
    return told() if getattr(told, "__module__", None) == "functools" else None


def _called(key: Any, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments from which the C function `lru_cache_make_key` made a key: (args, kwargs).

    A lone int or str is its own key; else a tuple of the arguments, then a mark, keywords and
    their values where there are any, then for a typed cache the types of all values.
    """
    if type(key) in (int, str) and not typed:
        return (key,), {}
    if type(key) is not tuple:
        return None
    mark = _keyword_mark()
    count = next((at for at, part in enumerate(key) if part is mark), None)
    if count is None:
        return (key[: len(key) // 2] if typed else key), {}
    rest = len(key) - count - 1  # n keywords: n names, n values, if typed n + count types
    named = (rest - count) // 3 if typed else rest // 2
    pairs = key[count + 1 : count + 1 + 2 * named]
    return key[:count], dict(zip(pairs[::2], pairs[1::2]))


@functools.cache
def _keyword_mark() -> Any:
    """The object that C puts before keywords in a key; one for all caches."""
    probe = functools.lru_cache(maxsize=None)(lambda **_: None)
    probe(name=1)
    table = next(each for each in gc.get_referents(probe) if type(each) is dict)
    return next(iter(table))[0]


@functools.cache
def _link_type() -> Any:
    """The type of an entry of a bounded cache, where it is told to the collector (3.10)."""
    probe = functools.lru_cache(maxsize=2)(lambda *_: None)
    probe(1)
    found = (each for each in gc.get_referents(probe) if isinstance(each, type))
    return next((each for each in found if each.__name__ == "_lru_list_elem"), None)


# ---- called by the graph ----


def cache_to_fill(func: Any, maxsize: int | None, typed: bool) -> Any:
    """A function behind a new cache, until `fill_cache` also behind what can hand out results."""
    between = functools.partial(func)
    made = functools.lru_cache(maxsize, typed)(between)
    made.__wrapped__ = func
    _between[made] = between
    return made


def fill_cache(made: Any, state: tuple[dict[str, Any], list[Entry], tuple[int, int]]) -> None:
    """Its attributes now, its results once all that they are found by is whole."""
    if isinstance(made, Lost):
        return
    attributes, entries, counts = state
    made.__dict__.update(attributes)
    loading().afterwards(functools.partial(_fill, made, entries, counts))


def _fill(made: Any, entries: list[Entry], counts: tuple[int, int]) -> None:
    between = _between.pop(made, None)
    if between is None:
        return
    func = between.func
    result: Any = _NONE
    expected: list[Any] = []

    def hand_out(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        same = len(given) == len(expected) and all(map(operator.is_, given, expected))
        if result is _NONE or not same:  # it may be called by the arguments' own code
            raise _NotCachedError
        return result

    refused = 0
    between.__setstate__((hand_out, (), {}, None))
    try:
        for args, kwargs, each in entries:
            result, expected = each, [*args, *kwargs.values()]
            if any(map(_is_lost, (result, *expected))):
                continue  # that part is named as lost already: it is computed anew when asked for
            try:
                made(*args, **kwargs)
            except Exception:  # what was a key cannot be hashed here
                refused += 1
        result = _NONE
        _count(made, entries, counts)
    finally:
        between.__setstate__((func, (), {}, None))
    if refused:
        loading().note(
            f"{refused} of {len(entries)} cached results are gone: their arguments cannot be "
            "hashed here"
        )


def _count(made: Any, entries: list[Entry], counts: tuple[int, int]) -> None:
    """Bring hits and misses to what they were, the order of the entries being kept."""
    hits, misses = counts
    for _ in range(misses - made.cache_info().misses):
        try:
            made(_NONE, object())
        except Exception:
            continue
    hits -= made.cache_info().hits
    if hits > 0 and made.cache_info().currsize:
        last = next((each for each in reversed(entries) if not _is_lost(each[2])), None)
        if last is not None and not any(map(_is_lost, last[0])):
            call: Callable[..., Any] = functools.partial(made, *last[0], **last[1])
            calls: Iterator[Any] = (call() for _ in range(hits))
            try:
                collections.deque(calls, maxlen=0)
            except _NotCachedError:
                return


def _is_lost(value: Any) -> bool:
    return type(value) is Lost


class _NotCachedError(Exception):
    """The result of a call that a cache shall count but not keep."""


_NONE = object()

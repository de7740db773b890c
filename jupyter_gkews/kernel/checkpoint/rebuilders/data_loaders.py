"""Iterators of torch's DataLoader in mid-epoch: they go on where they stood.

What the samplers have drawn and not yet given is found in their suspended frames, for torch's own
samplers, whose code is known; nothing is consumed. A sampler of another kind is lost, with the
reason, and its iterator with it. Worker processes are gone: the rest is loaded without them.
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .interface import CannotKeepError, Handler, Reduced

if TYPE_CHECKING:
    from ..graph import GraphWriter

_WHAT = "an iterator of a DataLoader in mid-epoch"
_OFFER = "iter() on the DataLoader begins a new epoch"
#: Iterators that pickle keeps at their position.
_ITERABLES: tuple[Any, ...] = ([], (), range(0), range(1 << 80), "", {})
_PLAIN = tuple(type(iter(each)) for each in _ITERABLES)


def handlers() -> dict[type, Handler]:
    """None for a class alone."""
    return {}


def base_handlers() -> dict[type, Handler]:
    """Iterators with and without workers."""
    loader: Any = sys.modules.get("torch.utils.data.dataloader")
    base = getattr(loader, "_BaseDataLoaderIter", None)
    return {} if base is None else {base: reduce_iterator}


def reduce_iterator(writer: GraphWriter, iterator: Any) -> Reduced:
    """All its attributes, with what is left of its sampler."""
    loader: Any = sys.modules["torch.utils.data.dataloader"]
    state = dict(vars(iterator))
    if state.get("_pg") is not None:
        raise CannotKeepError(_WHAT, "it belongs to a process group, which ends with its process")
    single = loader._SingleProcessDataLoaderIter
    if isinstance(iterator, single):
        state["_sampler_iter"] = rest = rest_of(state["_sampler_iter"])
        writer.keep(rest)
        fetcher = vars(state["_dataset_fetcher"]).get("dataset_iter")
        if inspect.isgenerator(fetcher):
            raise CannotKeepError(_WHAT, f"its dataset is a running generator; {_OFFER}")
        return bare_iterator, (type(iterator),), state, None, None, set_iterator
    writer.note_rebuilt(
        "a DataLoader's workers are gone: the rest of the epoch is loaded without them", iterator
    )
    names = (
        *("_dataset", "_dataset_kind", "_IterableDataset_len_called", "_auto_collation"),
        *("_drop_last", "_index_sampler", "_pin_memory", "_pin_memory_device", "_timeout"),
        *("_collate_fn", "_base_seed", "_num_yielded", "_shared_seed", "_world_size", "_rank"),
    )
    kept = {name: state[name] for name in names if name in state}
    kept["_sampler_iter"] = writer.keep(_rest_behind_workers(state))
    kept.update(_timeout=0, _num_workers=0, _pg=None, _persistent_workers=False)
    kept["_profile_name"] = f"enumerate(DataLoader)#{single.__name__}.__next__"
    return bare_iterator, (single, True), kept, None, None, set_iterator


def _rest_behind_workers(state: dict[str, Any]) -> Any:
    """What the workers had been given is gone from the sampler: told again from the whole of what
    it had drawn, less what was yielded."""
    loader: Any = sys.modules["torch.utils.data.dataloader"]
    if state["_dataset_kind"] != loader._DatasetKind.Map:
        raise CannotKeepError(_WHAT, f"its workers hold the place in its dataset; {_OFFER}")
    rest = rest_of(state["_sampler_iter"], from_start=True)
    for _ in range(state["_num_yielded"]):
        next(rest, None)
    return rest


def rest_of(iterator: Any, *, from_start: bool = False) -> Any:
    """What is left of a sampler's iterator, as an iterator that can be kept. `from_start`: as if
    nothing had been taken yet. Raises CannotKeepError where that is not known exactly."""
    if iterator is None:
        return None
    if isinstance(iterator, (Rest, Batches)):
        if from_start:
            raise CannotKeepError(_WHAT, f"its workers hold its place; {_OFFER}")
        return iterator
    if isinstance(iterator, _PLAIN):
        return _copy(iterator, from_start)
    samplers: Any = sys.modules["torch.utils.data.sampler"]
    if not inspect.isgenerator(iterator):
        if from_start or hasattr(type(iterator), "__reduce_cython__"):
            raise CannotKeepError(_WHAT, f"its workers hold its place; {_OFFER}")
        return iterator  # an object of a class of its own: kept as any other
    frame = iterator.gi_frame
    if frame is None:
        if from_start:
            raise CannotKeepError(_WHAT, f"its workers hold its place; {_OFFER}")
        return iter(())
    values = dict(frame.f_locals)
    sampler, code = values.get("self"), iterator.gi_code
    fresh = inspect.getgeneratorstate(iterator) == inspect.GEN_CREATED
    for name, tell in (
        ("BatchSampler", _batches),
        ("RandomSampler", _random),
        ("SubsetRandomSampler", _subset),
        ("WeightedRandomSampler", _weighted),
        ("_InfiniteConstantSampler", _constant),
    ):
        cls = getattr(samplers, name, None) or getattr(
            sys.modules["torch.utils.data.dataloader"], name, None
        )
        if cls is not None and cls.__iter__.__code__ is code:
            if fresh:  # nothing was drawn: its first step is still to come
                return Rest(iter(()), sampler=sampler)
            told = tell(iterator, values, from_start)
            if told is not None:
                return told
    name = type(sampler).__name__ if sampler is not None else code.co_name
    raise CannotKeepError(_WHAT, f"the place of its {name} cannot be told; {_OFFER}")


def _copy(iterator: Any, from_start: bool) -> Any:
    make, args, *position = tuple(iterator.__reduce__())
    copy = make(*args)
    if position and not from_start:
        copy.__setstate__(position[0])
    return copy


def _batches(generator: Any, values: dict[str, Any], from_start: bool) -> Any:
    sampler = values["self"]
    inner = values.get("sampler_iter")
    if inner is None:  # `for index in self.sampler` of an older torch
        inner = _held(generator, (*_PLAIN, type(generator)))
    if inner is None:
        return None
    return Batches(rest_of(inner, from_start=from_start), sampler.batch_size, sampler.drop_last)


def _random(generator: Any, values: dict[str, Any], from_start: bool) -> Any:
    sampler, current = values["self"], generator.gi_yieldfrom
    total, wide = len(sampler.data_source), sampler.num_samples
    if not isinstance(current, _PLAIN):
        return None
    args = tuple(current.__reduce__())[1]
    drawn = len(args[0]) if args else 0
    size = 32 if sampler.replacement else total
    rounds, tail = divmod(wide, size)
    at = values.get("_", -1)
    if drawn != size:  # in the last, shorter draw
        if not drawn:  # exhausted: what it stood on is gone
            return None
        left, last = 0, False
    else:
        left, last = rounds - 1 - at, True
    if from_start and (at > 0 or not last):
        return None
    source = values["generator"]
    draw = (total, size, tail, source, sampler.replacement) if last else None
    return Rest(_copy(current, from_start), left, draw)


def _subset(generator: Any, values: dict[str, Any], from_start: bool) -> Any:
    drawn = _held(generator, _PLAIN)
    if drawn is None:
        return None
    indices = values["self"].indices
    return Rest(iter([indices[int(number)] for number in _copy(drawn, from_start)]))


def _weighted(generator: Any, values: dict[str, Any], from_start: bool) -> Any:
    current = generator.gi_yieldfrom
    return Rest(_copy(current, from_start)) if isinstance(current, _PLAIN) else None


def _constant(generator: Any, values: dict[str, Any], from_start: bool) -> Any:
    return Rest(iter(()), sampler=values["self"])


def _held(generator: Any, kinds: tuple[type, ...]) -> Any:
    """The one iterator that a suspended generator loops over; None if there is not exactly one."""
    found = [each for each in gc.get_referents(generator) if type(each) in kinds]
    if not found:
        found = [each for each in gc.get_referents(generator.gi_frame) if type(each) in kinds]
    return found[0] if len(found) == 1 else None


# ---- what takes the place of the samplers' iterators ----


class Rest:
    """The rest of what a sampler gives: `current`, then `left` more draws of `draw` = (how many
    there are, size of a draw, size of the last draw, generator, with replacement). With `sampler`,
    one that has not begun: all of it."""

    def __init__(
        self,
        current: Iterator[Any],
        left: int = 0,
        draw: tuple[int, int, int, Any, bool] | None = None,
        sampler: Any = None,
    ) -> None:
        self.current = current
        self.left = left
        self.draw = draw
        self.sampler = sampler

    def __iter__(self) -> Rest:
        return self

    def __next__(self) -> Any:
        if self.sampler is not None:
            self.current, self.sampler = iter(self.sampler), None
        while True:
            for index in self.current:
                return index
            if self.draw is None:
                raise StopIteration
            total, size, tail, generator, replacement = self.draw
            if self.left > 0:
                self.left -= 1
            else:
                self.draw = None  # the last draw, which may be of none: it moves the generator
                size = tail
            self.current = iter(_drawn(total, size, generator, replacement))

    def __reduce__(self) -> Reduced:
        current = self.current
        if inspect.isgenerator(current):  # of a sampler that has begun since
            current = rest_of(current)
        return Rest, (current, self.left, self.draw, self.sampler)


def _drawn(total: int, size: int, generator: Any, replacement: bool) -> list[int]:
    torch = sys.modules["torch"]
    if replacement:
        found = torch.randint(total, (size,), dtype=torch.int64, generator=generator)
    else:
        found = torch.randperm(total, generator=generator)[:size]
    numbers: list[int] = found.tolist()
    return numbers


class Batches:
    """The rest of the batches of a BatchSampler over what is left of its sampler."""

    def __init__(self, indices: Iterator[Any], size: int, drop_last: bool) -> None:
        self.indices = indices
        self.size = size
        self.drop_last = drop_last

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> list[Any]:
        batch = [index for _, index in zip(range(self.size), self.indices)]
        if not batch or (self.drop_last and len(batch) < self.size):
            raise StopIteration
        return batch

    def __reduce__(self) -> Reduced:
        return Batches, (self.indices, self.size, self.drop_last)


# ---- called by the graph ----


def bare_iterator(cls: Any, fetcher: bool = False) -> Any:
    """An iterator without a state; `fetcher`: it had none of its own, and needs one."""
    made = cls.__new__(cls)
    made._needs_fetcher = fetcher
    return made


def set_iterator(target: Any, state: dict[str, Any]) -> None:
    """What it had."""
    needs = target.__dict__.pop("_needs_fetcher")
    target.__dict__.update(state)
    if needs:
        loader: Any = sys.modules["torch.utils.data.dataloader"]
        target._dataset_fetcher = loader._DatasetKind.create_fetcher(
            target._dataset_kind,
            target._dataset,
            target._auto_collation,
            target._collate_fn,
            target._drop_last,
        )

"""How the inside of pandas objects goes into a graph: blocks of memory, and who shares them.

pandas copies a block before it writes to it if another block or index looks at the same memory
(copy on write). Memory that is shared comes back shared, so this knowledge has to come back too:
without it, writing to a frame would change the column that was taken from it. Only looked at if
the process has imported pandas. The names that graph.pkl calls are part of the format.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import GraphWriter

Reduced = tuple[Any, ...]


def register(writer: GraphWriter) -> None:
    """Teach `writer` the inside of pandas, as far as this version of it has one that we know."""
    inside: Any = sys.modules.get("pandas._libs.internals")
    managers: Any = sys.modules.get("pandas.core.internals.managers")
    if not hasattr(inside, "BlockValuesRefs") or not hasattr(managers, "SingleBlockManager"):
        return
    blocks: Any = sys.modules["pandas.core.internals.blocks"]
    writer.handlers[inside.BlockValuesRefs] = reduce_references
    writer.base_handlers.append((blocks.Block, reduce_block))
    writer.handlers[managers.SingleBlockManager] = reduce_single_manager
    writer.base_handlers.append((sys.modules["pandas"].Index, reduce_index))


def reduce_references(writer: GraphWriter, references: Any) -> Reduced:
    """Who looks at one memory: empty, for those who do enter themselves again."""
    return type(references), ()


def reduce_block(writer: GraphWriter, block: Any) -> Any:
    """A block: its values, its place, and with whom it shares them."""
    return make_block, (block.values, block.mgr_locs.indexer, block.ndim, block.refs)


def make_block(values: Any, places: Any, dimensions: int, references: Any) -> Any:
    """A block of a frame or a series, entered among those who look at its memory."""
    inside: Any = sys.modules["pandas._libs.internals"]
    block = inside._unpickle_block(values, places, dimensions)
    block.refs = references
    references.add_reference(block)
    return block


def reduce_single_manager(writer: GraphWriter, manager: Any) -> Any:
    """What a series stands on; pandas' own description leaves out who shares its block."""
    return type(manager), (manager.blocks[0], manager.axes[0])


def reduce_index(writer: GraphWriter, index: Any) -> Any:
    """An index as pandas describes it, and with whom it shares its values."""
    reduced = writer.guarded(index)
    references = vars(index).get("_references")  # an attribute only where somebody shares
    if references is None or any(part is not None for part in reduced[2:]):
        return reduced
    return (*reduced[:2], references, None, None, set_index_references)


def set_index_references(index: Any, references: Any) -> None:
    """Enter an index among those who look at its memory."""
    index._references = references
    references.add_index_reference(index)

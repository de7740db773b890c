"""TensorBoard writers of torch: they go on in their folder, in a new file beside the old."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .interface import Handler, Reduced, stands_in
from .loading import loading, stand_in

if TYPE_CHECKING:
    from ..graph import GraphWriter


def handlers() -> dict[type, Handler]:
    """The writer; derived ones are their own affair."""
    writers: Any = sys.modules.get("torch.utils.tensorboard.writer")
    return {} if writers is None else {writers.SummaryWriter: reduce_writer}


def reduce_writer(writer: GraphWriter, summaries: Any) -> Reduced:
    """What it was opened with; what it holds in memory is flushed to its file first."""
    if writer.flush_files and summaries.file_writer is not None:
        summaries.flush()
    writer.note_rebuilt(f"it writes on in {summaries.log_dir}, in a new file", summaries)
    stands_in(writer, summaries)
    names = ("comment", "purge_step", "max_queue", "flush_secs", "filename_suffix")
    own = vars(summaries)
    options = {name: own[name] for name in names if name in own and name != "purge_step"}
    return open_writer, (str(summaries.log_dir), options)


# ---- called by the graph ----


def open_writer(folder: str, options: dict[str, Any]) -> Any:
    """A writer into that folder; a stand-in in a test load."""
    if loading().dry:
        return stand_in()
    writers: Any = sys.modules["torch.utils.tensorboard.writer"]
    try:
        return writers.SummaryWriter(folder, **options)
    except OSError as error:
        return loading().fail("a TensorBoard writer", f"{folder} cannot be written to: {error}")

"""What the magics show: one table with sentences around it, as text and as HTML.

Draws only; knows nothing of checkpoints but the words.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


def human_bytes(size: float) -> str:
    """`size` (bytes) in the decimal units of the file manager: 6.17 GB, 12.0 MB, 512 B."""
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.5:
            return f"{size:.3g} {unit}"
    return f"{size / 1000:.3g} TB"


def human_seconds(seconds: float) -> str:
    """`seconds` with one decimal: 12.3 s; never a zero that was not one."""
    return f"{seconds:.1f} s" if seconds >= 0.1 else "less than 0.1 s"


def local_time(moment: str) -> str:
    """An ISO 8601 time with offset or Z, as the user's clock shows it: 2026-11-30 18:02."""
    parsed = datetime.fromisoformat(moment.replace("Z", "+00:00"))  # Python 3.9 knows no Z
    return parsed.astimezone().strftime("%Y-%m-%d %H:%M")


@dataclass
class Table:
    """Rows of text under `columns`, with lines before (`head`) and after (`foot`)."""

    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    foot: list[str] = field(default_factory=list)
    right: frozenset[str] = frozenset()  # columns that are aligned right

    def __str__(self) -> str:
        lines = list(self.head)
        if self.rows:
            cells = [tuple(self.columns), *(tuple(row) for row in self.rows)]
            widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
            for number, row in enumerate(cells):
                line = "  ".join(
                    cell.rjust(width) if column in self.right else cell.ljust(width)
                    for cell, width, column in zip(row, widths, self.columns)
                )
                lines.append(line.rstrip())
                if number == 0:
                    lines.append("  ".join("-" * width for width in widths))
        return "\n".join([*lines, *self.foot])

    def _html(self) -> str:
        parts = [f"<p>{html.escape(line)}</p>" for line in self.head]
        if self.rows:
            parts.append("<table><thead><tr>")
            parts += [self._cell("th", column, column) for column in self.columns]
            parts.append("</tr></thead><tbody>")
            for row in self.rows:
                cells = (self._cell("td", c, column) for c, column in zip(row, self.columns))
                parts.append(f"<tr>{''.join(cells)}</tr>")
            parts.append("</tbody></table>")
        parts += [f"<p>{html.escape(line)}</p>" for line in self.foot]
        return "".join(parts)

    def _cell(self, tag: str, text: str, column: str) -> str:
        align = "right" if column in self.right else "left"
        scope = ' scope="col"' if tag == "th" else ""
        return f'<{tag}{scope} style="text-align:{align}">{html.escape(text)}</{tag}>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._html()}


def _cell_label(cell: Any) -> str:
    return f"[{cell}]" if cell else ""


def fates_table(survives: Mapping[str, Any]) -> Table:
    """The table of `survives`: every variable, largest first, then what is not a variable."""
    table = Table(
        ("name", "type", "size", "where", "fate", "reason", "cell"), right=frozenset(("size",))
    )
    variables = sorted(survives["variables"], key=lambda v: v.get("bytes") or 0, reverse=True)
    for each in variables:
        table.rows.append(
            (
                str(each["name"]),
                str(each["type"]),
                human_bytes(each["bytes"]) if each.get("bytes") is not None else "",
                str(each.get("device") or ""),
                str(each["fate"]),
                str(each.get("reason") or ""),
                _cell_label(each.get("cell")),
            )
        )
    counts = {fate: sum(1 for v in variables if v["fate"] == fate) for fate in _FATES}
    table.head.append(
        "If this kernel is paused now: "
        + ", ".join(f"{counts[fate]} {fate}" for fate in _FATES)
        + "."
    )
    sizes = survives.get("bytes") or {}
    if sizes:
        table.foot.append(
            f"{human_bytes(sizes.get('to_write', 0))} to write, "
            f"{human_bytes(sizes.get('already_stored', 0))} already stored"
            + (
                f", {human_bytes(sizes['referenced'])} in files of weights that the checkpoint "
                "refers to."
                if sizes.get("referenced")
                else "."
            )
        )
    for each in survives.get("process", ()):
        if each["fate"] != "kept":
            reason = f" ({each['reason']})" if each.get("reason") else ""
            table.foot.append(f"{each['what']}: {each['fate']}{reason}")
    return table


_FATES = ("kept", "rebuilt", "lost")


def losses_table(counts: str, lost: Sequence[Mapping[str, Any]]) -> Table:
    """What is not there (any more), under the sentence `counts`."""
    table = Table(("name", "reason", "cell"), head=[counts])
    for each in lost:
        table.rows.append(
            (str(each["name"]), str(each.get("reason") or ""), _cell_label(each.get("cell")))
        )
    return table


def how_proved(proved: Mapping[str, Any] | None) -> str:
    """One sentence about how a checkpoint was proved; empty where that is not known."""
    if not proved:
        return ""
    how, why = proved["how"], proved.get("why")
    if how == "scratch" and why:
        text = (
            f"Proved by the test load of {proved['by']} at {local_time(proved['when'])}: "
            "nothing has changed since"
        )
    elif how == "scratch":
        text = "Proved by loading it in another process"
    elif how == "read-back":
        text = f"Its bytes were read back; whether it loads was not tried ({why})"
    else:
        text = f"It was not proved ({why})"
    partly = proved.get("partly") or ()
    rest = f" Not all objects of {', '.join(partly[:5])} were compared." if partly else ""
    return f"{text}.{rest}"


def how_compressed(compressed: Mapping[str, Any] | None) -> str:
    """One sentence about a graph that is compressed; empty where it is not."""
    if not compressed:
        return ""
    why = compressed.get("why")
    return (
        f"What is no array or tensor is compressed with {compressed['codec']}"
        f"{f' ({why})' if why else ''}: {human_bytes(compressed['bytes'])} for "
        f"{human_bytes(compressed['plain'])}."
    )


def summary_table(summary: Mapping[str, Any]) -> Table:
    """What a checkpoint holds, and what it does not."""
    counts, sizes = summary["counts"], summary["bytes"]
    seconds = sum((summary.get("seconds") or {}).values())
    elsewhere = ""
    if sizes.get("referenced"):
        elsewhere = f" and {human_bytes(sizes['referenced'])} referred to in files of weights,"
    name = f" {summary['name']!r}" if summary.get("name") else ""
    table = losses_table(
        f"Checkpoint{name} ({summary['id']}): {counts['kept']} kept, {counts['rebuilt']} rebuilt, "
        f"{counts['lost']} lost; {human_bytes(sizes['total'])}, of which "
        f"{human_bytes(sizes['written'])} written{elsewhere} in {human_seconds(seconds)}. "
        f"{how_proved(summary.get('proved'))} {how_compressed(summary.get('compressed'))}".strip(),
        summary.get("lost") or (),
    )
    if summary.get("note"):
        blocked = human_seconds(summary.get("blocked_s") or 0.0)
        table.head.append(f"{summary['note']} It was blocked for {blocked}.")
    return table


def captured_table(checkpoint: str, name: str | None, blocked_s: float) -> Table:
    """What is shown while a checkpoint is written and the user goes on."""
    named = f" {name!r}" if name else ""
    return Table(
        (),
        head=[
            f"Checkpoint{named} ({checkpoint}): the variables are captured as they are now; the "
            f"kernel was blocked for {human_seconds(blocked_s)}.",
            "They are being written; go on working. The status bar shows how far it is, and this "
            "text says when it is done.",
        ],
    )

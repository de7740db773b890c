"""What cells told IPython itself comes back, or is named as lost before the pause."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path
from typing import Any

SETUP = """
import sys, logging, builtins, decimal
import numpy as np
sys.path.insert(0, {folder!r})
import os; os.chdir({folder!r})
import mine_module; mine_module.x = 5
builtins.everywhere = 1
logging.getLogger().addHandler(logging.NullHandler())
get_ipython().run_line_magic('load_ext', 'autoreload')
get_ipython().run_line_magic('autoreload', '2')
get_ipython().run_line_magic('precision', '3')
get_ipython().run_line_magic('alias', 'hi echo hello')
np.seterr(divide='raise'); decimal.getcontext().prec = 4
from IPython.core.magic import register_line_magic, register_cell_magic, Magics, magics_class, line_magic
@register_line_magic
def shout(line): return line.upper() + suffix
suffix = '!'
@register_cell_magic
def count(line, cell): return len(cell)
@magics_class
class Own(Magics):
    @line_magic
    def owned(self, line): return 1
get_ipython().register_magics(Own)
class Thing: pass
thing = Thing()
get_ipython().display_formatter.formatters['text/html'].for_type(Thing, lambda t: '<b>' + suffix + '</b>')
get_ipython().events.register('post_run_cell', lambda result: None)
"""

CHECK = """
shell = get_ipython()
reloader = shell.magics_manager.registry['AutoreloadMagics']._reloader
print(reloader.enabled and reloader.check_all, shell.display_formatter.formatters['text/plain'].float_precision,
      dict(shell.alias_manager.aliases)['hi'], shell.run_line_magic('shout', 'a'),
      shell.run_cell_magic('count', '', 'abc'),
      shell.display_formatter.format(thing)[0]['text/html'],
      np.geterr()['divide'], np.get_printoptions()['precision'], decimal.getcontext().prec)
"""


async def test_what_cells_told_ipython_is_there_after_a_pause(
    open_notebook: Any, tmp_path: Path
) -> None:
    (tmp_path / "mine_module.py").write_text("x = 1\n")
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result(SETUP.format(folder=str(tmp_path)))
    want = (await page.result(CHECK)).text
    assert want.split() == [
        "True",
        "3",
        "echo",
        "hello",
        "A!",
        "3",
        "<b>!</b>",
        "raise",
        "3",
        "4",
    ]
    told = await page.result(
        "from jupyter_gkews.kernel.checkpoint import process_state\n"
        "for row in process_state.capture().rows: print(row['fate'], '|', row['what'], '|', row['reason'])"
    )
    lines = told.text.splitlines()

    def row(what: str) -> str:
        (found,) = [line for line in lines if f"| {what}" in line]
        return found

    assert row("IPython extensions").endswith("loaded again: IPython.extensions.autoreload")
    assert row("%autoreload").startswith("kept") and row("%precision").startswith("kept")
    assert row("IPython aliases") == "kept | IPython aliases | hi"
    assert row("magics |").endswith("%shout, %%count")
    assert row("magics of a class").startswith("lost") and "%owned" in row("magics of a class")
    assert row("display formatters |") == "kept | display formatters | Thing (text/html)"
    assert "post_run_cell" in row("IPython event callbacks")
    assert row("state of modules").startswith("lost | state of modules mine_module |")
    assert row("builtins").startswith("lost | builtins | everywhere:")
    assert "NullHandler" in row("root logger: handlers")
    await notebook.pause()
    restored = await notebook.resume()
    assert restored.lost == []
    assert (await page.result(CHECK)).text == want


async def test_an_untouched_kernel_tells_nothing_lost(open_notebook: Any) -> None:
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result("import matplotlib.pyplot as plt; plt.plot([1]); plt.show()")
    told = await page.result(
        "from jupyter_gkews.kernel.checkpoint import process_state\n"
        "got = process_state.capture(); got.tell_open_files(set())\n"
        "print([row for row in got.rows if row['fate'] != 'kept'])\n"
        "print([row['what'] for row in got.rows])"
    )
    first, second = told.text.splitlines()
    assert first == "[]"
    assert "magics" not in second and "display" not in second and "recursion" not in second

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
    def __init__(self, shell, first): super().__init__(shell); self.seen = [first]
    @line_magic
    def owned(self, line): self.seen.append(line); return len(self.seen)
own = Own(get_ipython(), 'x')
get_ipython().register_magics(own)
class Thing: pass
thing = Thing()
get_ipython().display_formatter.formatters['text/html'].for_type(Thing, lambda t: '<b>' + suffix + '</b>')
ran = []
def after(result): ran.append(result.info.raw_cell[:5])
shell = get_ipython()
shell.events.register('post_run_cell', after)
import ast
class Negate(ast.NodeTransformer):
    def visit_Constant(self, node): return ast.copy_location(ast.Constant(-77), node) if node.value == 777 else node
shell.ast_transformers.append(Negate())
def swap(lines): return [line.replace('§', '1000') for line in lines]
shell.input_transformers_cleanup.append(swap)
class Odd(Exception): pass
def on_odd(self, kind, value, tb, tb_offset=None): print('odd:', value, suffix)
shell.set_custom_exc((Odd,), on_odd)
def complete(completer, event): return ['from_' + suffix]
shell.set_hook('complete_command', complete, str_key='%shout')
shell.display_formatter.formatters['text/html'].for_type_by_name('fractions', 'Fraction', lambda f: '<i>' + suffix)
shell.run_line_magic('xmode', 'Minimal')
shell.run_line_magic('config', 'InteractiveShell.ast_node_interactivity = "last_expr_or_assign"')
shell.run_line_magic('macro', '-q again 1')
handle = display(1, display_id='kept-id')
kept = [1]
kept
"""

CHECK = """
shell = get_ipython()
reloader = shell.magics_manager.registry['AutoreloadMagics']._reloader
print(reloader.enabled and reloader.check_all, shell.display_formatter.formatters['text/plain'].float_precision,
      dict(shell.alias_manager.aliases)['hi'], shell.run_line_magic('shout', 'a'),
      shell.run_cell_magic('count', '', 'abc'),
      shell.display_formatter.format(thing)[0]['text/html'],
      np.geterr()['divide'], np.get_printoptions()['precision'], decimal.getcontext().prec)
import fractions
from io import StringIO
print(own is shell.magics_manager.registry['Own'], own.shell is shell, shell.run_line_magic('owned', 'y') > 1, own.seen[0],
      777, §, shell.display_formatter.format(fractions.Fraction(1, 2))[0]['text/html'],
      shell.InteractiveTB.mode, shell.ast_node_interactivity, handle.display_id, type(again).__name__,
      mine_module.x, everywhere, len(ran) > 0, shell.strdispatchers['complete_command'].strs['%shout'].chain[0][1](None),
      shell.custom_exceptions[0] is Odd, [type(h).__name__ for h in logging.getLogger().handlers].count('NullHandler'), _ is kept or Out[1] is kept)
raise Odd('told')
"""


async def test_what_cells_told_ipython_is_there_after_a_pause(
    open_notebook: Any, tmp_path: Path
) -> None:
    (tmp_path / "mine_module.py").write_text("x = 1\n")
    notebook = await open_notebook()
    page = await notebook.browser()
    await page.result(SETUP.format(folder=str(tmp_path)))
    want = (await page.result(CHECK)).stdout

    assert want.splitlines()[0].split() == [
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
    assert row("magics of a class") == "kept | magics of a class | Own"
    assert row("display formatters |").startswith("kept | display formatters | Thing (text/html)")
    assert row("IPython event callbacks").endswith("post_run_cell: after")
    assert row("module mine_module").startswith("kept | module mine_module | imported again")
    assert "builtins.everywhere" in row("what cells changed in libraries")
    await notebook.pause()
    restored = await notebook.resume()
    assert restored.lost == []
    assert (await page.result(CHECK)).stdout == want


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

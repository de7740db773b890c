"""A real Chromium at the access proxy: JupyterLab in a workspace's pod as its user sees it.

What is looked for is what stands on the screen; JupyterLab's own objects are asked only whether
the kernel is connected, which no user could wait for in any other way.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from expected import skip_without
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from .node_agent import PORT
from .stand_in import USER, StandIn

#: Milliseconds; a server in gVisor on a busy machine takes its time.
PATIENCE = 120_000
CONNECTED = """() => {
  const kernel = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
}"""


@contextmanager
def chromium(home: Path) -> Iterator[Browser]:
    """Debian's, as in ui-tests. Skips where there is none."""
    found = shutil.which("chromium")
    if found is None:
        skip_without("chromium", "Chromium is not installed")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found,
            args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                  "--disable-background-networking", "--disable-component-update"],
            env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        try:
            yield browser
        finally:
            browser.close()


class Tab:
    """One page of one user, on one notebook of a workspace."""

    def __init__(self, context: BrowserContext, stand_in: StandIn, workspace: str = "ws") -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        place = f"{stand_in.namespace}/{workspace}"
        self._lab = f"/workspace/connect/{place}/{PORT}/lab/tree"
        self._url = stand_in.proxy.url

    def sign_in(self, path: str) -> None:
        """And be sent to the notebook."""
        to = f"{self._lab}/{path}"
        self.page.goto(f"{self._url}/oauth2/sign_in?user={USER}&rd={to}")
        self.wait_until_connected()

    def open(self, path: str) -> None:
        """With the session that the browser has."""
        self.page.goto(f"{self._url}{self._lab}/{path}")
        self.wait_until_connected()

    def wait_until_connected(self) -> None:
        self.page.locator(".jp-NotebookPanel .jp-Cell").first.wait_for()
        self.page.wait_for_function(CONNECTED)

    def cell(self, index: int) -> Locator:
        return self.page.locator(f'.jp-Notebook-cell[data-windowed-list-index="{index}"]')

    def run(self, index: int) -> str:
        """Run a cell, as a user does; what it has printed in the end."""
        cell = self.cell(index)
        said = cell.locator(".jp-OutputArea-output")
        before = cell.locator(".jp-InputPrompt").inner_text()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(
            """([index, before]) => {
              const cell = `.jp-Notebook-cell[data-windowed-list-index="${index}"]`;
              const prompt = document.querySelector(`${cell} .jp-InputPrompt`)?.innerText ?? '';
              return /\\[\\d+\\]/.test(prompt) && prompt !== before;
            }""",
            arg=[index, before],
        )
        said.first.wait_for()
        return str(said.first.inner_text())

    # -- the workspace -----------------------------------------------------------------------

    def pause_workspace(self) -> None:
        """From the menu, and yes in the dialog."""
        self.page.locator(".lm-MenuBar-itemLabel", has_text="Kernel").first.click()
        item = self.page.locator(".lm-Menu-item", has_text="Pause Workspace…")
        expect(item).not_to_have_class(re.compile("lm-mod-disabled"))
        item.click()
        dialog = self.page.locator(".jp-Dialog")
        expect(dialog).to_contain_text("Pause the workspace")
        dialog.get_by_role("button", name="Pause Workspace").click()

    def card(self, phase: str) -> Locator:
        """The card at the top of the page, while it says this."""
        return self.page.locator(f'.jp-gkews-Banner-card[data-phase="{phase}"]')

    def resume(self) -> None:
        self.card("paused").get_by_role("button", name="Resume").click()

    def watch_for_the_kernel(self) -> None:
        """Note when it answers, from a moment on at which it does not."""
        self.page.wait_for_function(f"() => !({CONNECTED})()")
        self.page.evaluate(
            """connected => {
              window.answered = new Promise(resolve => {
                const look = () =>
                  eval(connected)() ? resolve(Date.now()) : setTimeout(look, 20);
                look();
              });
            }""",
            CONNECTED,
        )

    def answered(self) -> float:
        """When it did, in seconds since the epoch."""
        return float(self.page.evaluate("window.answered")) / 1000

    def close(self) -> None:
        self.page.close()


def write_notebook(file: Path, *cells: str) -> None:
    """On the home volume, as an earlier day has left it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
    notebook.metadata["kernelspec"] = {
        "name": "python3", "display_name": "Python 3", "language": "python"
    }  # fmt: skip
    nbformat.write(notebook, file)

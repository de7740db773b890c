/**
 * What the browser tests share: a notebook on disk that is opened, its kernel's state as the
 * server tells it, and the places where our surfaces stand.
 */

import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { Locator, Page } from '@playwright/test';
import { expect, test as galataTest } from '@jupyterlab/galata';
import * as fs from 'fs';
import * as path from 'path';

export const HOME = path.join(__dirname, '..', '.jupyter');
export const STORE = path.join(HOME, 'data', 'gkews');

/**
 * Galata's test, but opened on a notebook, where no launcher is to be waited for. Afterwards every
 * kernel is ended, so that the next test begins with none.
 */
export const test = galataTest.extend<{ endedKernels: void }>({
  autoGoto: false,
  // Galata would hide from the page every kernel and session that the page has not started.
  kernels: null,
  sessions: null,
  waitForApplication: async ({ baseURL: _ }, use) => {
    await use(async page => {
      await page.locator('#jupyterlab-splash').waitFor({ state: 'detached' });
      await page.locator('.jp-NotebookPanel .jp-Cell').first().waitFor();
    });
  },
  endedKernels: [
    async ({ page }, use) => {
      await use();
      for (const { id } of await kernels(page)) {
        await page.request.delete(`/api/kernels/${id}`);
      }
    },
    { auto: true }
  ]
});

export { expect };

type Kernel = {
  id: string;
  path: string | null;
  state: string;
  reason: string | null;
  provenance: string | null;
  checkpoint: string | null;
  snapshot: string | null;
};

/** Write a notebook with these code cells into a folder. */
export function writeNotebook(
  folder: string,
  name: string,
  cells: string[],
  kernel = 'python3'
): void {
  const language = kernel.startsWith('python3') ? 'python' : 'bash';
  const content = {
    cells: cells.map((source, index) => ({
      cell_type: 'code',
      execution_count: null,
      id: `cell-${index}`,
      metadata: {},
      outputs: [],
      source
    })),
    metadata: {
      kernelspec: { display_name: kernel, language, name: kernel },
      language_info: { name: language }
    },
    nbformat: 4,
    nbformat_minor: 5
  };
  fs.writeFileSync(path.join(folder, name), JSON.stringify(content, null, 1));
}

/** Write a notebook with these code cells, and open it in `page`. */
export async function openNotebook(
  page: IJupyterLabPageFixture,
  name: string,
  cells: string[],
  kernel = 'python3'
): Promise<void> {
  writeNotebook(path.join(HOME, 'work'), name, cells, kernel);
  await goToNotebook(page, name);
}

/** Open a notebook that is on the disk, as a link to it does. */
export async function goToNotebook(
  page: IJupyterLabPageFixture,
  name: string
): Promise<void> {
  await page.goto(`tree/${name}`);
  await waitUntilConnected(page);
}

/** A cell that is run before its kernel is connected is dropped by JupyterLab without a word. */
export async function waitUntilConnected(
  page: Pick<Page, 'waitForFunction'>
): Promise<void> {
  await page.waitForFunction(() => {
    // It is not there yet while the page loads.
    const app = window.jupyterapp as typeof window.jupyterapp | undefined;
    const widget = app?.shell.currentWidget as NotebookPanel | null | undefined;
    const kernel = widget?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
  });
}

export function panelOf(page: IJupyterLabPageFixture): Locator {
  return page.locator('#jupyter-gkews-panel');
}

/** The button in the toolbar of the visible notebook. */
export function button(page: IJupyterLabPageFixture, label: string): Locator {
  return page
    .locator('.jp-NotebookPanel:not(.lm-mod-hidden)')
    .locator('.jp-gkews-ToolbarButton')
    .getByText(label, { exact: false });
}

export function toolbarButton(page: IJupyterLabPageFixture): Locator {
  return page.locator(
    '.jp-NotebookPanel:not(.lm-mod-hidden) .jp-gkews-ToolbarButton .jp-ToolbarButtonComponent'
  );
}

export function statusItem(page: IJupyterLabPageFixture): Locator {
  return page.locator('.jp-gkews-StatusItem-button');
}

export function overlay(page: IJupyterLabPageFixture): Locator {
  return page.locator(
    '.jp-NotebookPanel:not(.lm-mod-hidden) .jp-gkews-Overlay-card'
  );
}

/** Run the cells one after the other, and wait for the end of each. */
export async function runCells(
  page: Page,
  ...indexes: number[]
): Promise<void> {
  for (const index of indexes) {
    await startCell(page, index);
    await expect(prompt(page, index)).toHaveText(/\[\d+\]:/);
  }
}

/** Run a cell and do not wait. */
export async function startCell(page: Page, index: number): Promise<void> {
  await cell(page, index).locator('.cm-content').click();
  await page.keyboard.press('Control+Enter');
}

export function cell(page: Page, index: number): Locator {
  return page.locator(
    `.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-cell[data-windowed-list-index="${index}"]`
  );
}

export function prompt(page: Page, index: number): Locator {
  return cell(page, index).locator('.jp-InputPrompt');
}

export function output(page: Page, index: number): Locator {
  return cell(page, index).locator('.jp-OutputArea-output');
}

/** Wait until the server says that the notebook's kernel can be paused. */
export async function waitUntilPausable(
  page: IJupyterLabPageFixture
): Promise<void> {
  await expect(button(page, 'Pause')).toBeVisible();
  await expect(toolbarButton(page)).toHaveAttribute('aria-disabled', 'false');
}

export function toast(page: IJupyterLabPageFixture, text: string): Locator {
  return page.locator('.Toastify__toast').filter({ hasText: text });
}

/** Click Pause, answer the dialog, and wait for the card over the notebook. */
export async function pause(page: IJupyterLabPageFixture): Promise<void> {
  await waitUntilPausable(page);
  await button(page, 'Pause').click();
  await page.getByRole('button', { name: 'Pause now' }).click();
  await expect(overlay(page)).toContainText('Paused since');
}

/** Why no process can be frozen on this machine; null if one can. */
export async function whyNotFrozen(
  page: IJupyterLabPageFixture
): Promise<string | null> {
  const response = await page.request.get('/gkews/status');
  const { engines } = (await response.json()) as {
    engines: { id: string; why_not: { message: string } | null }[];
  };
  const engine = engines.find(({ id }) => id === 'gvisor');
  return engine ? (engine.why_not?.message ?? null) : 'there is no engine';
}

/** Give the notebook that is open the kernel of this name, as a user does. */
export async function chooseKernel(
  page: IJupyterLabPageFixture,
  label: string
): Promise<void> {
  await page
    .locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Toolbar-kernelName')
    .click();
  await page.locator('.jp-Dialog select').selectOption({ label });
  await page.locator('.jp-Dialog button.jp-mod-accept').click();
  await expect(page.locator('.jp-Dialog')).toHaveCount(0);
  await expect(
    page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Toolbar-kernelName')
  ).toContainText(label);
  await waitUntilConnected(page);
}

/** The kernels as `GET /gkews/status` lists them. */
export async function kernels(page: IJupyterLabPageFixture): Promise<Kernel[]> {
  const response = await page.request.get('/gkews/status');
  expect(response.ok()).toBe(true);
  return ((await response.json()) as { kernels: Kernel[] }).kernels;
}

export async function kernelOf(
  page: IJupyterLabPageFixture,
  name: string
): Promise<Kernel | undefined> {
  return (await kernels(page)).find(kernel => kernel.path === name);
}

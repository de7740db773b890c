/**
 * A workspace from pause to resume in one tab, without a reload: what the page says, one start from
 * two tabs that are clicked at once, and the next cell in the same process.
 */

import AxeBuilder from '@axe-core/playwright';
import type { Page } from '@playwright/test';
import { expect, test } from '@playwright/test';
import * as path from 'path';

import { Cluster } from './cluster';
import {
  cell,
  output,
  runCells,
  waitUntilConnected,
  writeNotebook
} from './gkews';

const NO_NODE =
  'Workspace Pod is unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption victims found.';
/** A folder for pictures of each state. */
const SHOTS = process.env.GKEWS_SHOTS;

let cluster: Cluster;

test.beforeAll(async () => {
  cluster = new Cluster();
  await cluster.start();
});

test.afterAll(async () => {
  await cluster.stop();
});

async function open(page: Page, name: string): Promise<void> {
  // Without the notebooks that were open before.
  await page.goto(`${cluster.lab}/tree/${name}?reset`);
  await waitUntilConnected(page);
}

async function setTheme(page: Page, theme: 'light' | 'dark'): Promise<void> {
  if (theme === 'dark') {
    await page.evaluate(() =>
      window.jupyterapp.commands.execute('apputils:change-theme', {
        theme: 'JupyterLab Dark'
      })
    );
    await expect(page.locator('body')).toHaveAttribute(
      'data-jp-theme-light',
      'false'
    );
  }
}

/** The workspace's item in the status bar. */
const item = (page: Page, text: string) =>
  page.locator('.jp-gkews-StatusItem-button').filter({ hasText: text });

const card = (page: Page) => page.locator('.jp-gkews-Banner-card');

async function violations(page: Page, selector: string): Promise<string[]> {
  const { violations } = await new AxeBuilder({ page })
    .include(selector)
    .analyze();
  return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`);
}

async function shot(page: Page, name: string): Promise<void> {
  if (SHOTS) {
    await page.screenshot({ path: path.join(SHOTS, `${name}.png`) });
  }
}

// the dark one is for its pictures: what it does beside them, the light one has done
for (const theme of ['light', 'dark'] as const) {
  const tag = theme === 'dark' ? ' @screenshots' : '';
  test(`a workspace is paused and resumed in the same tab, ${theme}${tag}`, async ({
    page,
    context
  }) => {
    test.slow(); // two pages, a server of its own, and every state that there is
    writeNotebook(cluster.work, 'ws.ipynb', [
      'import os\nbefore = os.getpid(), 41',
      'print(before == (os.getpid(), 41))'
    ]);
    cluster.status = {
      ...cluster.status,
      provenance: null,
      checks: [
        {
          id: 'machine',
          passed: false,
          message: 'The node is an E2 machine.',
          costs: 'risk',
          hint: 'Snapshots of E2 machines are said not to be supported.'
        }
      ],
      snapshot: null
    };
    const accepted = cluster.accepted;
    await open(page, 'ws.ipynb');
    await setTheme(page, theme);
    await runCells(page, 0);
    const second = await context.newPage();
    await second.goto(`${cluster.lab}/tree/ws.ipynb`);
    await waitUntilConnected(second);
    await page.bringToFront();

    await item(page, 'Workspace: Running').click();
    const section = page.locator('.jp-gkews-Workspace');
    await expect(section).toContainText('What a pause would meet (1)');
    expect(await violations(page, '.jp-gkews-Workspace')).toEqual([]);
    await shot(page, `${theme}-panel`);

    const menu = page.getByRole('menuitem', { name: 'Kernel', exact: true });
    // eslint-disable-next-line jupyter/galata-prefer-menu-helper -- this page is none of galata's
    await menu.click();
    await page.getByText('Pause Workspace…').last().click();
    const dialog = page.locator('.jp-gkews-Dialog');
    await expect(dialog).toContainText('Its memory is kept in a snapshot');
    await expect(dialog).toContainText('The node is an E2 machine.');
    expect(await violations(page, '.jp-gkews-WorkspaceDialog')).toEqual([]);
    await shot(page, `${theme}-dialog`);
    await dialog.getByRole('button', { name: 'Pause Workspace' }).click();
    await expect(card(page)).toContainText('The connection will be cut');
    await shot(page, `${theme}-checkpointing`);

    cluster.freeze();
    await expect(card(page)).toContainText('This tab may be closed');
    // What JupyterLab would say modally now.
    await page.evaluate(async () => {
      await window.jupyterapp.serviceManager.sessions
        .refreshRunning()
        .catch(() => undefined);
      await new Promise(drawn => requestAnimationFrame(drawn));
      await new Promise(drawn => requestAnimationFrame(drawn));
    });
    await expect(page.locator('.jp-Dialog')).toHaveCount(0);
    await shot(page, `${theme}-pausing`);

    cluster.is('Paused');
    for (const tab of [page, second]) {
      await expect(card(tab)).toContainText('is paused since');
    }
    await expect(item(page, 'Workspace: Paused')).toBeVisible();
    expect(await violations(page, '.jp-gkews-Banner')).toEqual([]);
    await shot(page, `${theme}-paused`);
    // The notebook below can be edited.
    await cell(page, 1).locator('.cm-content').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type('  # edited meanwhile');

    // Who comes too late finds no button any more.
    const click = { force: true, timeout: 5000 };
    const resume = (tab: Page) =>
      card(tab).getByRole('button', { name: 'Resume' });
    await Promise.all([
      resume(page)
        .dblclick(click)
        .catch(() => undefined),
      resume(second)
        .click(click)
        .catch(() => undefined)
    ]);
    await expect.poll(() => cluster.workspace.paused).toBe(false);
    cluster.is('Error', NO_NODE);
    for (const tab of [page, second]) {
      await expect(card(tab)).toContainText('waits for capacity since');
    }
    await expect(card(page)).toContainText('3 Insufficient nvidia.com/gpu.');
    expect(await violations(page, '.jp-gkews-Banner')).toEqual([]);
    await shot(page, `${theme}-waiting`);

    cluster.is('Pending');
    await expect(card(page)).toContainText('its memory comes back');
    await shot(page, `${theme}-restoring`);
    cluster.thaw('restored');
    for (const tab of [page, second]) {
      await expect(card(tab)).toContainText('the same processes go on');
    }
    await shot(page, `${theme}-ready`);
    await card(page).getByRole('button', { name: 'Close' }).click();
    await expect(card(page)).toHaveCount(0);
    expect(cluster.accepted).toBe(accepted + 1);
    await waitUntilConnected(page);
    await runCells(page, 1);
    await expect(output(page, 1)).toHaveText('True\n');
    await second.close();
  });
}

// in the long form only: it starts a server and four kernels anew
for (const theme of ['light', 'dark'] as const) {
  test(`a workspace that has lost its memory asks what to do, ${theme} @screenshots`, async ({
    page
  }) => {
    test.slow(); // the server is started anew, and so are the kernels
    cluster.status.provenance = null;
    const cells = [
      'rows = (i for i in range(9))\ntotal = sum(range(42))',
      'print(total)'
    ];
    for (const name of ['other.ipynb', 'cold.ipynb']) {
      writeNotebook(cluster.work, name, cells);
      await open(page, name);
      await runCells(page, 0);
      await cluster.checkpoint(name);
    }
    await setTheme(page, theme);
    cluster.freeze();
    cluster.is('Paused');
    await expect(card(page)).toContainText('is paused since');
    await cluster.startCold('gone.ipynb');

    await expect(card(page)).toContainText('2 notebooks wait');
    const rows = card(page).getByRole('listitem');
    await expect(rows).toHaveCount(3);
    await expect(rows.filter({ hasText: 'cold.ipynb' })).toContainText(
      '1 lost (rows)'
    );
    await expect(rows.filter({ hasText: 'gone.ipynb' })).toContainText(
      'Did not come back'
    );
    expect(await violations(page, '.jp-gkews-Banner')).toEqual([]);
    await item(page, 'Workspace: Fresh').click();
    const section = page.locator('.jp-gkews-LastReturn');
    await expect(section).toContainText('The memory of the pause at');
    expect(await violations(page, '.jp-gkews-LastReturn')).toEqual([]);
    await shot(page, `${theme}-cold`);

    await card(page).getByRole('button', { name: 'Start fresh…' }).click();
    const dialog = page.locator('.jp-gkews-Dialog');
    await expect(dialog).toContainText('Nothing is deleted');
    expect(await violations(page, '.jp-gkews-WorkspaceDialog')).toEqual([]);
    await shot(page, `${theme}-cold-dialog`);
    await dialog.getByRole('button', { name: 'Cancel' }).click();

    await card(page).getByRole('button', { name: 'Resume all' }).click();
    await expect(card(page)).toContainText(
      '2 kernels have loaded their checkpoints.'
    );
    expect(await violations(page, '.jp-gkews-Banner')).toEqual([]);
    await shot(page, `${theme}-cold-resumed`);
    await card(page).getByRole('button', { name: 'Close' }).click();
    await waitUntilConnected(page);
    await runCells(page, 1);
    await expect(output(page, 1)).toHaveText('861\n');
  });
}

/**
 * Takes the pictures of docs/images, in both themes: `jlpm screenshots`. A test like the others,
 * on a real server, so that the pictures show what there is.
 */

import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import * as fs from 'fs';
import * as path from 'path';

import {
  button,
  expect,
  HOME,
  openNotebook,
  overlay,
  panelOf,
  runCells,
  statusItem,
  test,
  waitUntilPausable,
  whyNotFrozen
} from './gkews';

const IMAGES = path.join(__dirname, '..', '..', 'docs', 'images');

const CELLS = [
  'import torch\nimport numpy as np\n\nmodel = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024))\noptimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)\nprompts = ["Why is the sky blue?", "Tell me about bees."]',
  'losses = []\nfor step in range(3):\n    x = torch.randn(32, 1024)\n    loss = (model(x) - x).pow(2).mean()\n    loss.backward(); optimizer.step(); optimizer.zero_grad()\n    losses.append(round(loss.item(), 3))\nlosses',
  'embeddings = np.random.default_rng(7).normal(size=(20_000, 256)).astype("float32")\nbest = int(np.abs(embeddings).sum(axis=1).argmax())\nbatches = (embeddings[i : i + 64] for i in range(0, len(embeddings), 64))\nbest',
  'float(embeddings[best].std()), len(losses)'
];

async function setTheme(
  page: IJupyterLabPageFixture,
  theme: 'light' | 'dark'
): Promise<void> {
  if (theme === 'dark') {
    await page.theme.setDarkTheme();
  } else {
    await page.theme.setLightTheme();
  }
  await page.mouse.move(640, 400);
}

test.use({ viewport: { width: 1280, height: 780 } });

for (const theme of ['light', 'dark'] as const) {
  test(`the pictures of the ${theme} theme @screenshots`, async ({ page }) => {
    test.setTimeout(180_000);
    const save = async (name: string) => {
      await page.screenshot({
        path: path.join(IMAGES, `${name}-${theme}.png`),
        animations: 'disabled'
      });
    };
    const toast = (text: string) =>
      page.locator('.Toastify__toast').filter({ hasText: text });
    await openNotebook(page, 'experiment.ipynb', CELLS);
    await setTheme(page, theme);
    await page.sidebar.close('left');
    await runCells(page, 0, 1, 2);
    await waitUntilPausable(page);
    await save('toolbar');

    await statusItem(page).click();
    await expect(panelOf(page)).toContainText('embeddings');
    await save('panel');

    await button(page, 'Pause').click();
    await expect(page.locator('.jp-Dialog')).toContainText('batches');
    await save('dialog');

    await page.getByRole('button', { name: 'Pause now' }).click();
    await expect(overlay(page)).toContainText('Paused since');
    await expect(toast('Paused experiment.ipynb')).toBeVisible();
    await save('overlay');

    await runCells(page, 3);
    await expect(statusItem(page)).toContainText('Recovered');
    await expect(toast('Recovered experiment.ipynb')).toBeVisible();
    await panelOf(page).evaluate(node => node.scrollTo(0, node.scrollHeight));
    await save('recovered');
  });
}

const LIVE = [
  'import threading, time\nimport numpy as np\n\nticks = []\ndef tick():\n    while True:\n        ticks.append(time.time()); time.sleep(1)\nthreading.Thread(target=tick, name="ticker", daemon=True).start()',
  'weights = np.random.default_rng(7).normal(size=(2000, 1000))\nbatches = (weights[i : i + 64] for i in range(0, len(weights), 64))\nfirst = next(batches).shape\nlog = open("train.log", "a")\nfirst',
  'seen = len(ticks); time.sleep(1.2)\nnext(batches).shape, len(ticks) > seen'
];

for (const theme of ['light', 'dark'] as const) {
  test(`the pictures of a frozen process, ${theme} @screenshots`, async ({
    page
  }) => {
    test.setTimeout(240_000);
    const why = await whyNotFrozen(page);
    test.skip(why !== null, why ?? '');
    const save = async (name: string, folder = IMAGES) => {
      await page.screenshot({
        path: path.join(folder, `${name}-${theme}.png`),
        animations: 'disabled'
      });
    };
    // These name folders of this machine: to be looked at, not for the pages.
    const look = (name: string) =>
      save(name, path.join(__dirname, '..', 'test-results'));
    const away = path.join(HOME, 'work', 'train.log');
    await openNotebook(page, 'training.ipynb', LIVE, 'python3-pausable');
    await setTheme(page, theme);
    await page.sidebar.close('left');
    await runCells(page, 0, 1);
    await waitUntilPausable(page);
    await statusItem(page).click();
    await expect(panelOf(page)).toContainText('weights');

    await button(page, 'Pause').click();
    await expect(page.locator('.jp-Dialog')).toContainText('ticker');
    await look('frozen-dialog');

    await page.getByRole('button', { name: 'Pause now' }).click();
    await expect(overlay(page)).toContainText('Paused since');
    await panelOf(page).locator('.jp-gkews-Snapshot').first().waitFor();
    await panelOf(page).evaluate(node => node.scrollTo(0, 0));
    await save('frozen-state');

    fs.renameSync(away, `${away}.away`);
    await overlay(page).getByRole('button', { name: 'Resume' }).click();
    await expect(page.locator('.jp-Dialog')).toContainText('train.log');
    await look('frozen-failed');
    fs.renameSync(`${away}.away`, away);
    await page
      .locator('.jp-Dialog')
      .getByRole('button', { name: 'Try again' })
      .click();
    await expect(statusItem(page)).toContainText('Restored');
    await runCells(page, 2);
    await panelOf(page).evaluate(node => node.scrollTo(0, 0));
    await save('frozen-restored');
  });
}

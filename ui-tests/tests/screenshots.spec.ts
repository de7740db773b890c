/**
 * Takes the pictures of docs/images, in both themes: `jlpm screenshots`. A test like the others,
 * on a real server, so that the pictures show what there is.
 */

import type { IJupyterLabPageFixture } from '@jupyterlab/galata';
import * as path from 'path';

import {
  button,
  endAllKernels,
  expect,
  openNotebook,
  overlay,
  panelOf,
  runCells,
  statusItem,
  test,
  waitUntilPausable
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

test.afterEach(async ({ page }) => {
  await endAllKernels(page);
});

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

/**
 * A kernel that lives in a sandbox, in a real browser: its process is frozen by a pause and goes on
 * after a resume. Skipped where runsc cannot run.
 */

import * as fs from 'fs';
import * as path from 'path';

import {
  button,
  chooseKernel,
  expect,
  HOME,
  kernelOf,
  openNotebook,
  output,
  overlay,
  panelOf,
  pause,
  runCells,
  startCell,
  statusItem,
  test,
  toast,
  waitUntilPausable,
  whyNotFrozen
} from './gkews';

const LIVE = [
  'import os, threading, time',
  'ticks = []',
  'def tick():',
  '    while True:',
  '        ticks.append(time.time()); time.sleep(0.05)',
  'threading.Thread(target=tick, name="ticker", daemon=True).start()',
  'rows = (n * n for n in range(1000)); next(rows), next(rows)',
  'notes = open("notes.txt", "a")',
  'print("pid", os.getpid())'
].join('\n');

const AFTER =
  'n = len(ticks); time.sleep(0.3)\nprint("pid", os.getpid(), next(rows), len(ticks) > n)';

test.beforeEach(async ({ page }) => {
  const why = await whyNotFrozen(page);
  test.skip(why !== null, why ?? '');
});

test('a thread goes on after a pause of Python 3 (pausable)', async ({
  page
}) => {
  await openNotebook(page, 'frozen.ipynb', [LIVE, AFTER]);
  await chooseKernel(page, 'Python 3 (pausable)');
  await runCells(page, 0);
  const pid = await output(page, 0).first().textContent();

  // Before the pause: what the snapshot has besides, and what it costs.
  await waitUntilPausable(page);
  await button(page, 'Pause').click();
  const dialog = page.locator('.jp-Dialog');
  await expect(dialog).toContainText('The process itself is frozen, too.');
  await expect(dialog).toContainText('1 thread (ticker), 1 generator (rows)');
  await expect(dialog).toContainText(/About [\d.]+ MB on disk/);
  await expect(dialog.locator('tr[data-fate="lost"]').first()).toContainText(
    'Snapshot only'
  );
  await page.getByRole('button', { name: 'Pause now' }).click();

  // Paused, with the size of the snapshot.
  await expect(overlay(page)).toContainText('Paused since');
  await expect(toast(page, 'the process is frozen')).toBeVisible();
  await statusItem(page).click();
  await expect(panelOf(page).locator('.jp-gkews-State')).toContainText(
    /frozen on disk \([\d.]+ MB\)/
  );
  const line = panelOf(page).locator('.jp-gkews-Snapshot').first();
  await expect(line).toContainText('1 thread (ticker)');
  await expect(line).toContainText('Resumes from it');
  expect((await kernelOf(page, 'frozen.ipynb'))?.snapshot).toBeTruthy();

  await overlay(page).getByRole('button', { name: 'Resume' }).click();
  await expect(statusItem(page)).toContainText('Restored: the same process');
  await expect(overlay(page)).toHaveCount(0);
  await runCells(page, 1);
  await expect(output(page, 1)).toContainText(`${pid?.trim()} 4 True`);
  expect((await kernelOf(page, 'frozen.ipynb'))?.provenance).toBe('restored');
});

test('a running cell is frozen, and goes on after the resume', async ({
  page
}) => {
  const gate = path.join(HOME, 'work', 'gate');
  await openNotebook(
    page,
    'running.ipynb',
    [
      'import os, time\nprint("begun")\nwhile not os.path.exists("gate"): time.sleep(0.05)\nprint("ended")'
    ],
    'python3-pausable'
  );
  await waitUntilPausable(page);
  await startCell(page, 0);
  await expect(output(page, 0)).toContainText('begun');
  await button(page, 'Pause').click();
  await expect(page.locator('.jp-Dialog')).toContainText('no checkpoint');
  await page.getByRole('button', { name: 'Freeze now' }).click();
  await expect(overlay(page)).toContainText('Paused since');
  fs.writeFileSync(gate, '');
  await overlay(page).getByRole('button', { name: 'Resume' }).click();
  await expect(output(page, 0)).toContainText('ended');
  await expect(statusItem(page)).toContainText('Restored: the same process');
});

test('a process that cannot be brought back says why, and the checkpoint is offered', async ({
  page
}) => {
  await openNotebook(
    page,
    'vanished.ipynb',
    ['x = [1, 2]\nf = open("vanishes.txt", "w")', 'x'],
    'python3-pausable'
  );
  await runCells(page, 0);
  await pause(page);
  const before = await kernelOf(page, 'vanished.ipynb');
  fs.rmSync(path.join(HOME, 'work', 'vanishes.txt'));
  await overlay(page).getByRole('button', { name: 'Resume' }).click();
  const dialog = page.locator('.jp-Dialog');
  await expect(dialog).toContainText('vanishes.txt');
  await expect(dialog).toContainText('could not be brought back');
  await page.getByRole('button', { name: 'Not now' }).click();
  // Image and checkpoint are kept, and both ways stay open.
  expect(await kernelOf(page, 'vanished.ipynb')).toMatchObject({
    state: 'paused',
    snapshot: before?.snapshot,
    reason: 'snapshot_incompatible'
  });
  await expect(overlay(page)).toContainText('vanishes.txt');

  // Deleted from the panel, it leaves the checkpoint.
  await statusItem(page).click();
  await panelOf(page)
    .getByRole('button', { name: 'Delete the process snapshot' })
    .click();
  await expect(dialog).toContainText('The checkpoint of the same pause stays');
  await dialog.getByRole('button', { name: /^Delete/ }).click();
  await expect(panelOf(page).locator('.jp-gkews-Snapshot')).toHaveCount(0);
  await expect
    .poll(async () => (await kernelOf(page, 'vanished.ipynb'))?.snapshot)
    .toBeNull();
  await overlay(page)
    .getByRole('button', { name: /Resume|Try again/ })
    .click();
  await expect(statusItem(page)).toContainText('Recovered');
  await runCells(page, 1);
  await expect(output(page, 1)).toContainText('[1, 2]');
});

/**
 * The life of a paused notebook in a real browser, on a real server, with real kernels.
 */

import { galata } from '@jupyterlab/galata';
import * as fs from 'fs';
import * as path from 'path';

import {
  button,
  cell,
  expect,
  goToNotebook,
  kernelOf,
  kernels,
  openNotebook,
  output,
  overlay,
  panelOf,
  pause,
  runCells,
  startCell,
  statusItem,
  STORE,
  test,
  toast,
  toolbarButton,
  waitUntilConnected,
  waitUntilPausable
} from './gkews';

test('a paused notebook resumes when the next cell is run', async ({
  page
}) => {
  await openNotebook(page, 'first.ipynb', [
    'import os\nanswer = {"value": 41}\nalias = answer\npid = os.getpid()',
    'answer["value"] += 1\n(alias["value"], os.getpid() != pid)'
  ]);
  await runCells(page, 0);
  await pause(page);
  await expect(button(page, 'Resume')).toBeVisible();
  await expect(statusItem(page)).toContainText('Paused');
  expect((await kernelOf(page, 'first.ipynb'))?.state).toBe('paused');

  await startCell(page, 1);
  await expect(output(page, 1)).toContainText('(42, True)');
  await expect(cell(page, 1).locator('.jp-InputPrompt')).toHaveText('[2]:');
  await expect(overlay(page)).toHaveCount(0);
  await expect(statusItem(page)).toContainText('Recovered');
  await expect(button(page, 'Pause')).toBeVisible();
});

test('the Resume button of the card brings the kernel back', async ({
  page
}) => {
  await openNotebook(page, 'button.ipynb', ['x = [1, 2]\ny = x', 'y is x, x']);
  await runCells(page, 0);
  await pause(page);
  // Editing goes on under the card.
  await cell(page, 1).locator('.cm-content').click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type(' + [3]');
  await expect(overlay(page)).toContainText('Paused since');
  await overlay(page).getByRole('button', { name: 'Resume' }).click();
  await expect(overlay(page)).toHaveCount(0);
  await runCells(page, 1);
  await expect(output(page, 1)).toContainText('(True, [1, 2, 3])');
});

test('two tabs show the same state', async ({ page, context, baseURL }) => {
  await openNotebook(page, 'tabs.ipynb', ['x = 1', 'x']);
  await runCells(page, 0);
  const second = await context.newPage();
  await second.goto(`${baseURL}/lab/tree/tabs.ipynb`);
  const card = second.locator('.jp-gkews-Overlay-card');
  await expect(
    second.locator('.jp-gkews-ToolbarButton').getByText('Pause')
  ).toBeVisible();
  // Until it has connected it asks the kernel, which is busy then.
  await waitUntilConnected(second);
  await pause(page);
  await expect(card).toContainText('Paused since');
  await expect(second.locator('.jp-gkews-StatusItem-button')).toContainText(
    'Paused'
  );
  await card.getByRole('button', { name: 'Resume' }).click();
  await expect(overlay(page)).toHaveCount(0);
  await expect(statusItem(page)).toContainText('Recovered');
  await expect(second.locator('.jp-gkews-StatusItem-button')).toContainText(
    'Recovered'
  );
  await second.close();
});

test('a reload of a paused notebook starts no kernel', async ({ page }) => {
  await openNotebook(page, 'reload.ipynb', ['x = 7', 'x * 6']);
  await runCells(page, 0);
  await pause(page);
  const before = await kernelOf(page, 'reload.ipynb');
  await page.reload();
  await expect(overlay(page)).toContainText('Paused since');
  await expect(button(page, 'Resume')).toBeVisible();
  expect((await kernels(page)).map(({ id, state }) => [id, state])).toEqual([
    [before?.id, 'paused']
  ]);
  await goToNotebook(page, 'reload.ipynb');
  await runCells(page, 1);
  await expect(output(page, 1)).toContainText('42');
});

test('a lost variable is announced before, reported after, and named when used', async ({
  page
}) => {
  await openNotebook(page, 'lost.ipynb', [
    'gen = (i for i in range(3))\nkept = 5',
    'print(kept)',
    'next(gen)'
  ]);
  await runCells(page, 0);
  await waitUntilPausable(page);
  await button(page, 'Pause').click();
  const dialog = page.locator('.jp-Dialog');
  await expect(dialog.locator('tr[data-fate="lost"]')).toContainText('gen');
  await expect(dialog).toContainText('Made by cell [1].');
  await page.getByRole('button', { name: 'Pause now' }).click();
  await expect(overlay(page)).toContainText('Paused since');
  await runCells(page, 1);
  await expect(output(page, 1)).toContainText('5');
  await expect(statusItem(page)).toContainText('1 lost');
  await expect(toast(page, 'Recovered lost.ipynb')).toContainText('1 lost');
  await startCell(page, 2);
  await expect(output(page, 2)).toContainText('LostVariableError');
  await statusItem(page).click();
  await expect(panelOf(page).locator('.jp-gkews-Named')).toContainText('gen');
});

test('a pause that fails says why, and the kernel goes on', async ({
  page
}) => {
  await openNotebook(page, 'fails.ipynb', ['x = 1', 'x + 1']);
  await runCells(page, 0);
  await waitUntilPausable(page);
  // A file where the store's folder of checkpoints should be: nothing can be written there.
  const folder = path.join(STORE, 'checkpoints');
  const away = `${folder}.away`;
  fs.mkdirSync(folder, { recursive: true });
  fs.renameSync(folder, away);
  fs.writeFileSync(folder, '');
  try {
    await button(page, 'Pause').click();
    await page.getByRole('button', { name: 'Pause now' }).click();
    await expect(statusItem(page)).toContainText('Pause failed');
    await expect(toast(page, 'fails.ipynb:')).toBeVisible();
    await statusItem(page).click();
    await expect(
      panelOf(page).locator('.jp-gkews-State .jp-gkews-Problem')
    ).toContainText(/checkpoint|store/i);
    await expect(overlay(page)).toHaveCount(0);
  } finally {
    fs.rmSync(folder);
    fs.renameSync(away, folder);
  }
  await runCells(page, 1);
  await expect(output(page, 1)).toContainText('2');
  await pause(page);
});

test('a resume that fails says why and can be tried again', async ({
  page
}) => {
  await openNotebook(page, 'damaged.ipynb', ['x = 20', 'x + 1']);
  await runCells(page, 0);
  await pause(page);
  const id = (await kernelOf(page, 'damaged.ipynb'))?.checkpoint ?? '';
  const manifest = path.join(STORE, 'checkpoints', id, 'manifest.json');
  const whole = fs.readFileSync(manifest);
  fs.writeFileSync(manifest, whole.subarray(0, 40));
  await overlay(page).getByRole('button', { name: 'Resume' }).click();
  const again = overlay(page).getByRole('button', { name: 'Try again' });
  await expect(again).toBeVisible();
  await expect(overlay(page)).toContainText(/checkpoint/i);
  expect((await kernelOf(page, 'damaged.ipynb'))?.state).toBe('paused');
  fs.writeFileSync(manifest, whole);
  await again.click();
  await expect(overlay(page)).toHaveCount(0);
  await runCells(page, 1);
  await expect(output(page, 1)).toContainText('21');
});

test('a busy kernel is paused after its cell, which runs to its end', async ({
  page
}) => {
  const gate = path.join(STORE, '..', 'gate');
  await openNotebook(page, 'busy.ipynb', [
    `import pathlib, time\nwhile not pathlib.Path(${JSON.stringify(gate)}).exists():\n    time.sleep(0.05)\ndone = True`,
    'done'
  ]);
  await waitUntilPausable(page);
  await startCell(page, 0);
  await expect(cell(page, 0).locator('.jp-InputPrompt')).toHaveText('[*]:');
  await button(page, 'Pause').click();
  await expect(page.locator('.jp-Dialog')).toContainText('A cell is running');
  await page.getByRole('button', { name: 'After this cell' }).click();
  await expect(toolbarButton(page)).toContainText('Pausing');
  await expect(statusItem(page)).toContainText('Waiting for the running cell');
  fs.writeFileSync(gate, '');
  await expect(overlay(page)).toContainText('Paused since');
  fs.rmSync(gate);
  await runCells(page, 1);
  await expect(output(page, 1)).toContainText('True');
});

test('a pause that waits can be cancelled from the panel', async ({ page }) => {
  const gate = path.join(STORE, '..', 'gate');
  await openNotebook(page, 'cancel.ipynb', [
    `import pathlib, time\nwhile not pathlib.Path(${JSON.stringify(gate)}).exists():\n    time.sleep(0.05)`
  ]);
  await waitUntilPausable(page);
  await startCell(page, 0);
  await expect(cell(page, 0).locator('.jp-InputPrompt')).toHaveText('[*]:');
  await button(page, 'Pause').click();
  await page.getByRole('button', { name: 'After this cell' }).click();
  await toolbarButton(page).click();
  await panelOf(page).getByRole('button', { name: 'Cancel' }).click();
  await expect(toast(page, 'Cancelled.')).toBeVisible();
  await expect(button(page, 'Pause')).toBeVisible();
  expect((await kernelOf(page, 'cancel.ipynb'))?.state).toBe('running');
  fs.writeFileSync(gate, '');
  await expect(cell(page, 0).locator('.jp-InputPrompt')).toHaveText('[1]:');
  fs.rmSync(gate);
});

test('a kernel of another language says why it cannot be paused', async ({
  page
}) => {
  await openNotebook(page, 'other.ipynb', ['echo 1'], 'othershell');
  await expect(toolbarButton(page)).toHaveAttribute('aria-disabled', 'true');
  await expect(toolbarButton(page)).toHaveAttribute('title', /Python/);
  await expect(statusItem(page)).toContainText('Cannot pause');
  await statusItem(page).click();
  await expect(
    panelOf(page).locator('.jp-gkews-State .jp-gkews-Problem')
  ).toContainText('Python');
});

test('a notebook is resumed from the list of paused notebooks', async ({
  page
}) => {
  await openNotebook(page, 'listed.ipynb', ['x = 3']);
  await runCells(page, 0);
  await pause(page);
  await page.sidebar.openTab('jp-running-sessions');
  const resume = page.getByRole('button', { name: 'Resume listed.ipynb' });
  await expect(resume).toBeVisible();
  await resume.click();
  await expect(overlay(page)).toHaveCount(0);
  await expect(resume).toHaveCount(0);
  await expect(statusItem(page)).toContainText('Recovered');
});

test('a checkpoint is restored into the kernel from the panel', async ({
  page
}) => {
  await openNotebook(page, 'restore.ipynb', ['x = "then"', 'x = "now"', 'x']);
  await runCells(page, 0);
  await waitUntilPausable(page);
  await statusItem(page).click();
  await panelOf(page).getByRole('button', { name: 'Checkpoint now' }).click();
  await expect(toast(page, 'Checkpoint of restore.ipynb')).toBeVisible();
  await runCells(page, 1);
  const here = panelOf(page).getByRole('button', { name: /^Restore .* here$/ });
  await here.first().click();
  await expect(toast(page, 'Recovered restore.ipynb')).toBeVisible();
  await runCells(page, 2);
  await expect(output(page, 2)).toContainText('then');
});

test('a checkpoint is restored into a new kernel, and the notebook moves to it', async ({
  page
}) => {
  await openNotebook(page, 'anew.ipynb', ['x = "then"', 'x']);
  await runCells(page, 0);
  await waitUntilPausable(page);
  const before = await kernelOf(page, 'anew.ipynb');
  await statusItem(page).click();
  await panelOf(page).getByRole('button', { name: 'Checkpoint now' }).click();
  await expect(toast(page, 'Checkpoint of anew.ipynb')).toBeVisible();
  await panelOf(page)
    .getByRole('button', { name: /^Restore .* in a new kernel$/ })
    .first()
    .click();
  await expect(statusItem(page)).toContainText('Recovered');
  await waitUntilPausable(page);
  expect((await kernelOf(page, 'anew.ipynb'))?.id).not.toBe(before?.id);
  await runCells(page, 1);
  await expect(output(page, 1)).toContainText('then');
});

test('a discarded notebook keeps neither its kernel nor its checkpoint', async ({
  page
}) => {
  await openNotebook(page, 'discard.ipynb', ['x = 3']);
  await runCells(page, 0);
  await pause(page);
  const kernel = await kernelOf(page, 'discard.ipynb');
  await page.sidebar.openTab('jp-running-sessions');
  const item = page.locator('.jp-gkews-Running-item');
  await item.hover();
  await item.locator('.jp-RunningSessions-itemShutdown').click();
  await page
    .locator('.jp-Dialog')
    .getByRole('button', { name: 'Discard' })
    .click();
  await expect(item).toHaveCount(0);
  await expect
    .poll(() =>
      fs.existsSync(path.join(STORE, 'checkpoints', kernel?.checkpoint ?? ''))
    )
    .toBe(false);
  expect(await kernelOf(page, 'discard.ipynb')).toBeUndefined();
});

test.describe('with the setting that a run does not resume', () => {
  test.use({
    mockSettings: {
      ...galata.DEFAULT_SETTINGS,
      'jupyter_gkews:plugin': { resumeOnRun: false }
    }
  });

  test('a cell that is run in a paused notebook stays paused', async ({
    page
  }) => {
    await openNotebook(page, 'setting.ipynb', ['x = 3', 'x']);
    await runCells(page, 0);
    await pause(page);
    await expect(overlay(page)).toContainText('resume before you run a cell');
    await startCell(page, 1);
    await expect(output(page, 1)).toContainText(/paused/i);
    expect((await kernelOf(page, 'setting.ipynb'))?.state).toBe('paused');
    await overlay(page).getByRole('button', { name: 'Resume' }).click();
    await expect(overlay(page)).toHaveCount(0);
    await runCells(page, 1);
    await expect(output(page, 1)).toContainText('3');
  });
});

test.describe('with the setting that asks only when something is lost', () => {
  test.use({
    mockSettings: {
      ...galata.DEFAULT_SETTINGS,
      'jupyter_gkews:plugin': { skipDialogWhenNothingLost: true }
    }
  });

  test('a pause begins at once, or asks when something would be lost', async ({
    page
  }) => {
    await openNotebook(page, 'unasked.ipynb', [
      'x = 3',
      'gen = (i for i in range(3))'
    ]);
    await runCells(page, 0);
    await waitUntilPausable(page);
    await button(page, 'Pause').click();
    await expect(overlay(page)).toContainText('Paused since');
    await runCells(page, 1);
    await waitUntilPausable(page);
    await button(page, 'Pause').click();
    await expect(page.locator('.jp-Dialog')).toContainText('cannot be kept');
    // the keys go to the dialog once it has taken the focus
    await expect(page.locator('.jp-Dialog button.jp-mod-accept')).toBeFocused();
    await page.keyboard.press('Escape');
    await expect(page.locator('.jp-Dialog')).toHaveCount(0);
    expect((await kernelOf(page, 'unasked.ipynb'))?.state).toBe('running');
  });
});

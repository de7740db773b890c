import {
  button,
  endAllKernels,
  expect,
  kernelOf,
  kernels,
  openNotebook,
  output,
  overlay,
  pause,
  runCells,
  startCell,
  statusItem,
  test,
  waitUntilPausable
} from './gkews';

test.afterEach(async ({ page }) => {
  await endAllKernels(page);
});

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
  await expect(overlay(page)).toHaveCount(0);
  await expect(statusItem(page)).toContainText('Recovered');
  await expect(button(page, 'Pause')).toBeVisible();
});

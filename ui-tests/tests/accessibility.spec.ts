/**
 * axe on our surfaces in both themes, and the way through them with the keyboard alone.
 */

import AxeBuilder from '@axe-core/playwright';
import type { IJupyterLabPageFixture } from '@jupyterlab/galata';

import {
  button,
  expect,
  openNotebook,
  overlay,
  panelOf,
  pause,
  runCells,
  statusItem,
  test,
  waitUntilPausable
} from './gkews';

/** What axe finds in the parts of the page that are ours. */
async function violations(
  page: IJupyterLabPageFixture,
  ...selectors: string[]
): Promise<string[]> {
  const found: string[] = [];
  for (const selector of selectors) {
    await expect(page.locator(selector).first()).toBeVisible();
    const { violations } = await new AxeBuilder({ page })
      .include(selector)
      .analyze();
    for (const { id, nodes } of violations) {
      found.push(`${selector} ${id}: ${nodes[0].html.slice(0, 200)}`);
    }
  }
  return found;
}

for (const theme of ['light', 'dark'] as const) {
  test(`axe finds nothing in our surfaces in the ${theme} theme`, async ({
    page
  }) => {
    await openNotebook(page, 'axe.ipynb', [
      'gen = (i for i in range(3))\nnumbers = list(range(1000))'
    ]);
    if (theme === 'dark') {
      await page.theme.setDarkTheme();
    }
    await runCells(page, 0);
    await waitUntilPausable(page);
    await statusItem(page).click();
    await expect(panelOf(page)).toContainText('numbers');
    await panelOf(page).getByText('The process around them').click();
    expect(
      await violations(
        page,
        '.jp-gkews-ToolbarButton',
        '.jp-gkews-StatusItem:not(.lm-mod-hidden)',
        '.jp-gkews-Panel'
      )
    ).toEqual([]);
    await button(page, 'Pause').click();
    await expect(page.locator('.jp-gkews-PauseDialog')).toContainText('gen');
    expect(await violations(page, '.jp-gkews-PauseDialog')).toEqual([]);
    await page.getByRole('button', { name: 'Pause now' }).click();
    await expect(overlay(page)).toContainText('Paused since');
    await expect(panelOf(page)).toContainText('Last operation: Pause');
    expect(
      await violations(
        page,
        '.jp-gkews-Overlay-card',
        '.jp-gkews-Panel',
        '.jp-gkews-StatusItem:not(.lm-mod-hidden)'
      )
    ).toEqual([]);
  });
}

test('pause and resume by the keyboard alone', async ({ page }) => {
  await openNotebook(page, 'keyboard.ipynb', ['x = 1']);
  await runCells(page, 0);
  await waitUntilPausable(page);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+Alt+p');
  await expect(page.locator('.jp-gkews-PauseDialog')).toContainText('Kept');
  await expect(page.locator('.jp-Dialog button.jp-mod-accept')).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(overlay(page)).toContainText('Paused since');
  await page.keyboard.press('Control+Alt+r');
  await expect(overlay(page)).toHaveCount(0);
  await expect(statusItem(page)).toContainText('Recovered');
});

test('the commands are in the Kernel menu, enabled as the state allows', async ({
  page
}) => {
  await openNotebook(page, 'menu.ipynb', ['x = 1']);
  await runCells(page, 0);
  await pause(page);
  await page.menu.open('Kernel');
  const item = (command: string) =>
    page.locator(`.lm-Menu-item[data-command="${command}"]`);
  await expect(item('gkews:pause')).toHaveClass(/lm-mod-disabled/);
  await expect(item('gkews:resume')).not.toHaveClass(/lm-mod-disabled/);
  await item('gkews:resume').click();
  await expect(overlay(page)).toHaveCount(0);
});

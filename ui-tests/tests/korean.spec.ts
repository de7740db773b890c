/**
 * JupyterLab in Korean: the catalogue of the package reaches every surface, and the settings. The
 * display language is set as a user sets it, in the settings file, where the server looks too.
 */

import * as fs from 'fs';
import * as path from 'path';

import {
  HOME,
  button,
  expect,
  openNotebook,
  overlay,
  panelOf,
  runCells,
  statusItem,
  test,
  toolbarButton
} from './gkews';

const LANGUAGE = path.join(
  HOME,
  'config',
  'lab',
  'user-settings',
  '@jupyterlab',
  'translation-extension',
  'plugin.jupyterlab-settings'
);

test.use({
  // The page reads the settings of the server, not those that galata would put before them.
  mockSettings: false,
  autoGoto: false
});

test.beforeAll(() => {
  fs.mkdirSync(path.dirname(LANGUAGE), { recursive: true });
  fs.writeFileSync(LANGUAGE, JSON.stringify({ locale: 'ko_KR' }));
});

test.afterAll(() => {
  fs.rmSync(LANGUAGE);
});

test('a pause and a resume, in Korean', async ({ page }, testInfo) => {
  await openNotebook(page, '실험.ipynb', [
    'import numpy as np\nx = np.zeros((1000, 1000))\ny = [x, x]\ng = (i for i in range(3))'
  ]);
  await runCells(page, 0);
  await expect(button(page, '일시 중지')).toBeVisible();
  await expect(toolbarButton(page)).toHaveAttribute('aria-disabled', 'false');

  await page.evaluate(() =>
    window.jupyterapp.commands.execute('gkews:survives')
  );
  const panel = panelOf(page);
  await expect(panel).toContainText('유지되는 항목');
  await expect(panel).toContainText('보존 여부');
  await expect(panel.locator('tr[data-fate="lost"]')).toContainText('손실');

  await button(page, '일시 중지').click();
  const dialog = page.locator('.jp-gkews-Dialog');
  // A text with a plural.
  await expect(dialog).toContainText('변수 1개를 유지할 수 없습니다.');
  await page.screenshot({ path: testInfo.outputPath('dialog.png') });
  await dialog.getByRole('button', { name: '지금 일시 중지' }).click();

  await expect(overlay(page)).toContainText('부터 일시 중지되어 있습니다.');
  await expect(statusItem(page)).toContainText('일시 중지됨 · 방금');
  await page.screenshot({ path: testInfo.outputPath('paused.png') });

  await overlay(page).getByRole('button', { name: '재개' }).click();
  await expect(statusItem(page)).toContainText('복구됨: 유지');
  await page.getByRole('menuitem', { name: '커널', exact: true }).click();
  const menu = page.locator('.lm-Menu').last();
  await expect(menu).toContainText('커널 일시 중지…');
  await expect(menu).toContainText('커널 재개');
  await page.screenshot({ path: testInfo.outputPath('menu.png') });
});

test('the settings, in Korean', async ({ page }, testInfo) => {
  await openNotebook(page, 'settings.ipynb', ['1']);
  await page.evaluate(() =>
    window.jupyterapp.commands.execute('settingeditor:open')
  );
  const editor = page.locator('#setting-editor');
  await editor.locator('[data-id="jupyter_gkews:plugin"]').click();
  await expect(editor).toContainText('일시 중지 및 재개');
  await expect(editor).toContainText(
    '손실되는 항목이 없으면 묻지 않고 일시 중지'
  );
  await expect(editor).toContainText('알림 표시');
  await page.screenshot({ path: testInfo.outputPath('settings.png') });
});

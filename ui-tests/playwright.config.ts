/**
 * Runs the tests in Debian's Chromium against a Jupyter server of their own: loopback, a free port
 * (or GKEWS_UI_PORT), and every folder of Jupyter under `.jupyter/`, which each run empties first.
 */

import { defineConfig } from '@playwright/test';
import { execFileSync } from 'child_process';
import * as fs from 'fs';
import * as path from 'path';

/** A port that is free now. Kept in the environment, where the workers find it again. */
function freePort(): string {
  const ask =
    "const s = require('net').createServer().listen(0, '127.0.0.1', () => { process.stdout.write(String(s.address().port)); s.close(); })";
  return execFileSync(process.execPath, ['-e', ask], { encoding: 'utf8' });
}

const port = (process.env.GKEWS_UI_PORT ??= freePort());
const home = path.join(__dirname, '.jupyter');
const venv = path.join(__dirname, '..', '.venv', 'bin');

// The runner reads this file again in its worker, where the server is up already.
if (process.env.TEST_WORKER_INDEX === undefined) {
  fs.rmSync(home, { recursive: true, force: true });
}

export default defineConfig({
  testDir: 'tests',
  workers: 1,
  retries: 0,
  timeout: 90_000,
  reporter: [['list']],
  expect: { timeout: 20_000 },
  use: {
    baseURL: `http://127.0.0.1:${port}`,
    // Galata's own config would record: Playwright's ffmpeg is not there.
    video: 'off',
    trace: 'off',
    screenshot: 'only-on-failure',
    viewport: { width: 1280, height: 760 },
    launchOptions: {
      // what the browser and the server leave behind (settings, the trash) is not for the user's home
      env: { ...(process.env as Record<string, string>), HOME: home },
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync'
      ]
    }
  },
  webServer: {
    command: 'jupyter lab --config jupyter_server_test_config.py',
    cwd: __dirname,
    url: `http://127.0.0.1:${port}/lab`,
    timeout: 120_000,
    reuseExistingServer: false,
    gracefulShutdown: { signal: 'SIGTERM', timeout: 20_000 },
    env: {
      PATH: fs.existsSync(venv)
        ? `${venv}${path.delimiter}${process.env.PATH}`
        : (process.env.PATH ?? ''),
      GKEWS_UI_PORT: port,
      GKEWS_UI_HOME: home,
      HOME: home,
      XDG_DATA_HOME: path.join(home, 'xdg'),
      IPYTHONDIR: path.join(home, 'ipython'),
      JUPYTER_CONFIG_DIR: path.join(home, 'config'),
      JUPYTER_DATA_DIR: path.join(home, 'data'),
      JUPYTER_RUNTIME_DIR: path.join(home, 'runtime'),
      JUPYTER_PREFER_ENV_PATH: '1'
    }
  }
});

/** What the user asks of the workspace: pause and resume, each of them once. */

import { onlyAsUser } from '../src/workspaces/asUser';
import type { Cluster } from './cluster';
import { answer, refuse } from './cluster';
import { Pages } from './pages';
import { until, workspaceOperation } from './shapes';

describe('what is asked of the workspace', () => {
  let cluster: Cluster;
  let pages: Pages;

  beforeEach(async () => {
    pages = await Pages.start();
    cluster = pages.cluster;
  });

  afterEach(() => pages.stop());

  it('asks once, however often it is clicked', async () => {
    const page = await pages.openPaused();
    await Promise.all([page.tab.resume(), page.tab.resume()]);
    await page.tab.resume();
    await page.phase('restoring');
    expect(cluster.orders).toHaveLength(1);
  });

  it('asks once from two tabs that are clicked at once', async () => {
    const [one, two] = [await pages.open(), await pages.open()];
    cluster.is('Paused');
    await Promise.all([one.notices('paused'), two.notices('paused')]);
    await Promise.all([one.tab.resume(), two.tab.resume()]);
    await Promise.all([one.phase('restoring'), two.phase('restoring')]);
    // Who was second has met the refusal of a second start, or has seen that none is needed.
    expect(cluster.accepted).toBe(1);
    expect(one.tab.face.problem).toBeNull();
    expect(two.tab.face.problem).toBeNull();
  });

  it('does not ask where the dashboard was first', async () => {
    const page = await pages.openPaused();
    cluster.workspace.paused = false;
    cluster.is('Pending');
    await page.tab.resume();
    expect(cluster.orders).toHaveLength(0);
    await page.phase('restoring');
  });

  it('takes it for no error if the dashboard was first by a moment', async () => {
    const page = await pages.openPaused();
    cluster.before = () => {
      cluster.workspace.paused = false;
      cluster.is('Pending');
    };
    await page.tab.resume();
    expect(cluster.orders).toHaveLength(1);
    await page.phase('restoring');
    expect(page.tab.face.problem).toBeNull();
  });

  it('does not ask again while the list is behind', async () => {
    const page = await pages.openPaused();
    const old = { ...cluster.workspace };
    cluster.instead = (response, { method }) => {
      if (method === 'GET') {
        answer(response, 200, { data: [old] });
      }
      return method === 'GET';
    };
    await page.tab.resume();
    const { looks } = cluster;
    await until(page.tab, () => cluster.looks > looks + 3);
    expect(page.tab.face).toMatchObject({
      phase: 'restoring',
      canResume: false
    });
    await page.tab.resume();
    expect(cluster.orders).toHaveLength(1);
    expect(cluster.accepted).toBe(1);
  });

  it('can be asked again if the request was refused', async () => {
    const page = await pages.openPaused();
    cluster.instead = (response, { method }) => {
      if (method === 'POST') {
        refuse(response, 403, 'you are not authorized');
      }
      return method === 'POST';
    };
    await expect(page.tab.resume()).rejects.toMatchObject({
      reason: 'forbidden',
      message:
        'You may not do this with the workspace, says the Workspaces backend.'
    });
    cluster.instead = null;
    await until(page.tab, () => page.tab.face.canResume);
    await page.tab.resume();
    await page.phase('restoring');
    expect(cluster.workspace.paused).toBe(false);
  });

  it('is paused as the user, once, where only the user may', async () => {
    pages.serves({
      pausable: false,
      why_not: { reason: 'forbidden', message: 'No.', hint: '' }
    });
    const page = await pages.open();
    expect(onlyAsUser(page.tab)).toBe(true);
    expect(await page.tab.pauseAsUser()).toBe(true);
    expect(page.tab.face.phase).toBe('pausing');
    expect(await page.tab.pauseAsUser()).toBe(false);
    expect(cluster.orders).toHaveLength(1);
    expect(cluster.workspace.paused).toBe(true);
  });

  it('is followed to the end of a pause that fails, which is told once', async () => {
    const operation = workspaceOperation();
    cluster.pause = () => {
      pages.serves({ state: 'pausing', operation });
      return operation;
    };
    const page = await pages.open();
    const failed: string[] = [];
    page.tab.failed.connect((_, { error }) => failed.push(error?.reason ?? ''));
    await page.tab.pause({ when: 'interrupt', stateless: true });
    const [asked] = cluster.asked.filter(({ method }) => method === 'POST');
    expect(asked.body).toEqual({
      when: 'interrupt',
      stateless: true,
      without_checkpoint: false
    });
    expect(page.tab.face).toMatchObject({ phase: 'pausing', served: true });
    pages.serves({
      last_operation: {
        ...operation,
        finished: '2026-11-30T18:10:00.000Z',
        error: { reason: 'snapshot_failed', message: 'No.', hint: '' }
      }
    });
    await page.phase('here');
    await page.model.refresh();
    expect(failed).toEqual(['snapshot_failed']);
  });

  it('is not taken to be pausing for a pause before the last return', async () => {
    const operation = workspaceOperation();
    cluster.pause = () => {
      pages.serves({ state: 'pausing', operation });
      return operation;
    };
    const page = await pages.open();
    await page.tab.pause();
    cluster.is('Paused');
    await page.notices('paused');
    pages.serves({});
    cluster.is('Running');
    await page.phase('ready');
    page.tab.dismiss();
    cluster.workspace.paused = false;
    cluster.is('Unknown');
    await page.notices('away');
  });
});

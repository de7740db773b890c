/** What a page says of its workspace, from what the server and the backend say. */

import { workspaceHint, workspaceSentence } from '../src/workspaces/wording';
import type { Cluster } from './cluster';
import { refuse } from './cluster';
import { Pages } from './pages';
import { trans, until, workspaceKernel, workspaceOperation } from './shapes';

const NO_NODE =
  'Workspace Pod is unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.';

describe('the workspace in a page', () => {
  let cluster: Cluster;
  let pages: Pages;

  beforeEach(async () => {
    pages = await Pages.start();
    cluster = pages.cluster;
  });

  afterEach(() => pages.stop());

  it('says nothing where there is none', async () => {
    cluster.status.workspace = { state: 'none' };
    const page = await pages.open('http://localhost:8888/');
    expect(page.tab.face.phase).toBe('none');
    cluster.podReady = false;
    await page.model.refresh();
    expect(page.tab.face.phase).toBe('none');
    expect(cluster.looks).toBe(0);
  });

  it('asks the backend nothing while the server answers', async () => {
    const page = await pages.open();
    await new Promise(resolve => setTimeout(resolve, 60));
    expect(page.tab.face.phase).toBe('here');
    expect(cluster.asked).toHaveLength(1);
  });

  it('is followed from pause to resume, and says when it is back', async () => {
    pages.serves({ state: 'pausing' });
    const page = await pages.open();
    expect(page.tab.face).toMatchObject({ phase: 'pausing', served: true });
    cluster.is('Unknown');
    await until(page.tab, () => !page.tab.face.served);
    await page.phase('pausing');
    cluster.workspace.paused = true;
    cluster.is('Terminating');
    await page.phase('pausing');
    cluster.is('Paused');
    await page.phase('paused');
    expect(page.tab.face.since).toBe(cluster.workspace.pausedTime);
    expect(page.tab.face.canResume).toBe(true);

    await page.tab.resume();
    expect(cluster.orders.map(({ body }) => body)).toEqual([
      { data: { paused: false } }
    ]);
    await page.phase('restoring');
    cluster.is('Error', NO_NODE);
    await page.phase('waiting');
    await until(page.tab, () => page.tab.face.why !== '');
    expect(page.tab.face.why).toContain('Insufficient nvidia.com/gpu');
    cluster.is('Pending');
    await page.phase('restoring');

    const back = jest.fn();
    page.tab.cameBack.connect(back);
    pages.serves({ provenance: 'restored' });
    cluster.is('Running');
    await page.phase('ready');
    expect(page.tab.face).toMatchObject({
      served: true,
      provenance: 'restored'
    });
    expect(back).toHaveBeenCalledTimes(1);
    page.tab.dismiss();
    expect(page.tab.face.phase).toBe('here');
    expect(cluster.orders).toHaveLength(1);
  });

  it('says that the session has ended, and goes on once there is one', async () => {
    const page = await pages.open();
    cluster.is('Paused');
    cluster.instead = response => {
      response.writeHead(302, { Location: '/oauth2/sign_in' }).end();
      return true;
    };
    await page.model.refresh();
    await until(page.tab, () => page.tab.face.problem?.reason === 'forbidden');
    expect(page.tab.face).toMatchObject({ canResume: false, signedOut: true });
    cluster.instead = null;
    await page.phase('paused');
    expect(page.tab.face.problem).toBeNull();
  });

  it('keeps what it knew while the backend does not answer', async () => {
    const page = await pages.openPaused();
    cluster.instead = response => {
      refuse(response, 503, 'no');
      return true;
    };
    await until(
      page.tab,
      () => page.tab.face.problem?.reason === 'cluster_unreachable'
    );
    expect(page.tab.face.phase).toBe('paused');
    await expect(page.tab.resume()).rejects.toMatchObject({
      reason: 'cluster_unreachable'
    });
    expect(cluster.orders).toHaveLength(0);
  });

  it('does not take a refusal for the end of the session', async () => {
    const page = await pages.openPaused();
    cluster.instead = response => {
      refuse(response, 403, 'you are not authorized');
      return true;
    };
    await until(page.tab, () => page.tab.face.problem?.reason === 'forbidden');
    expect(page.tab.face).toMatchObject({ canResume: true, signedOut: false });
  });

  it('tells of a pause that the dashboard has begun', async () => {
    const page = await pages.open();
    cluster.workspace.paused = true;
    cluster.is('Terminating');
    await page.notices('pausing');
  });

  it('does not tell what was foreseen of a pause as what was done by another', async () => {
    pages.serves({ stateless: false });
    const page = await pages.openPaused();
    expect(page.tab.face.stateless).toBeNull();
    expect(workspaceHint(page.tab.face, true, trans)).not.toContain('snapshot');
  });

  it.each([
    [false, true, 'in a snapshot, its checkpoints are on the home volume'],
    [false, false, 'Its memory is in a snapshot. '],
    [true, true, 'kernels come back from their checkpoints'],
    [true, false, 'kernels that have a checkpoint come back from it']
  ])(
    'tells what a pause that it followed has kept: stateless %s, all checkpoints %s',
    async (stateless, all, sentence) => {
      const why_not = all
        ? null
        : { reason: 'not_pausable', message: 'It has none.', hint: '' };
      const one = workspaceKernel({ why_not });
      const operation = workspaceOperation({ kernels: [one] });
      pages.serves({ state: 'pausing', stateless, operation });
      const page = await pages.openPaused();
      expect(workspaceHint(page.tab.face, true, trans)).toContain(sentence);
    }
  );

  it.each([404, 500, 401, 200])(
    'is followed also where the proxy answers %i in place of the pod',
    async code => {
      cluster.absent = code;
      const page = await pages.openPaused();
      await page.tab.resume();
      cluster.is('Running');
      await page.phase('ready');
    }
  );

  it('is not away for one answer that has failed', async () => {
    const page = await pages.open(undefined, { hiccup: 60_000 });
    const phases = new Set<string>();
    page.tab.changed.connect(() => phases.add(page.tab.face.phase));
    cluster.absent = 500;
    cluster.podReady = false;
    await page.model.refresh();
    cluster.podReady = true;
    await until(page.tab, () => page.tab.face.served);
    expect([...phases]).toEqual(['here']);
  });

  it('tells a server that does not answer from a pause', async () => {
    const page = await pages.open();
    cluster.podReady = false;
    await page.notices('away');
    expect(workspaceSentence(page.tab.face, trans)).toContain(
      'does not answer'
    );
    cluster.podReady = true;
    await page.phase('ready');
  });

  it.each([
    [500, 'internal'],
    [403, 'forbidden']
  ])(
    'tells a server that answers %i of its own from one that does not',
    async (code, reason) => {
      const page = await pages.open();
      const problem = {
        reason,
        message: 'A file is broken.',
        hint: 'Mend it.'
      };
      cluster.ails = { code, body: problem };
      await page.notices('away');
      const { face } = page.tab;
      expect(face).toMatchObject({ answers: true, problem, signedOut: false });
      expect(workspaceSentence(face, trans)).toContain('answers with an error');
      expect(workspaceHint(face, true, trans)).toBe(
        'A file is broken. Mend it.'
      );
      cluster.ails = null;
      await until(page.tab, () => page.tab.face.served);
      expect(page.tab.face.answers).toBe(false);
    }
  );

  it('is gone when it was deleted', async () => {
    const page = await pages.openPaused();
    cluster.workspace.name = 'another';
    await page.phase('gone');
    expect(page.tab.face.canResume).toBe(false);
  });
});

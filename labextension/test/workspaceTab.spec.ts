import { GkewsApi } from '../src/api';
import { GkewsModel } from '../src/model';
import type { WorkspaceFace, WorkspaceStatus } from '../src/workspaces/tokens';
import { onlyAsUser } from '../src/workspaces/asUser';
import type { Pace } from '../src/workspaces/pace';
import { WorkspaceTab } from '../src/workspaces/tab';
import { workspaceHint, workspaceSentence } from '../src/workspaces/wording';
import { answer, Cluster, refuse } from './cluster';
import {
  recovery,
  trans,
  until,
  wakeUp,
  workspace,
  workspaceKernel,
  workspaceOperation
} from './shapes';

const NO_NODE =
  'Workspace Pod is unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.';

/** Of which pause the users of this browser have been told. */
let told: string | null = null;

/** A page: its model and its tab, over real HTTP. */
class Page {
  readonly model: GkewsModel;
  readonly tab: WorkspaceTab;

  constructor(
    cluster: Cluster,
    baseUrl = cluster.baseUrl,
    pace: Partial<Pace> = {}
  ) {
    const api = new GkewsApi(cluster.settings, trans);
    this.model = new GkewsModel({ api, followInterval: 10 });
    this.tab = new WorkspaceTab({
      model: this.model,
      api,
      baseUrl,
      trans,
      isVisible: () => true,
      told: { get: () => told, set: pause => (told = pause) },
      pace: { busy: 10, calm: 20, slow: 40, hiccup: 0, told: 60_000, ...pace }
    });
  }

  phase(phase: WorkspaceFace['phase']): Promise<unknown> {
    return until(this.tab, () => this.tab.face.phase === phase);
  }

  /** The server's status as a page reads it that has noticed something. */
  async notices(phase: WorkspaceFace['phase']): Promise<void> {
    await this.model.refresh();
    await this.phase(phase);
  }

  dispose(): void {
    this.tab.dispose();
    this.model.dispose();
  }
}

describe('the workspace in a page', () => {
  let cluster: Cluster;
  let pages: Page[];

  const open = async (
    baseUrl?: string,
    pace?: Partial<Pace>
  ): Promise<Page> => {
    const page = new Page(cluster, baseUrl, pace);
    pages.push(page);
    await page.model.refresh();
    return page;
  };
  const serves = (fields: Partial<WorkspaceStatus>): void => {
    cluster.status.workspace = workspace(fields);
  };
  /** One that is paused while this page looks on. */
  const openPaused = async (pace?: Partial<Pace>): Promise<Page> => {
    const page = await open(undefined, pace);
    cluster.is('Paused');
    await page.notices('paused');
    return page;
  };

  beforeEach(async () => {
    cluster = await Cluster.start();
    serves({});
    told = null;
    pages = [];
  });

  afterEach(async () => {
    pages.forEach(page => page.dispose());
    await cluster.stop();
  });

  it('says nothing where there is none', async () => {
    cluster.status.workspace = { state: 'none' };
    const page = await open('http://localhost:8888/');
    expect(page.tab.face.phase).toBe('none');
    cluster.podReady = false;
    await page.model.refresh();
    expect(page.tab.face.phase).toBe('none');
    expect(cluster.looks).toBe(0);
  });

  it('asks the backend nothing while the server answers', async () => {
    const page = await open();
    await new Promise(resolve => setTimeout(resolve, 60));
    expect(page.tab.face.phase).toBe('here');
    expect(cluster.asked).toHaveLength(1);
  });

  it('is followed from pause to resume, and says when it is back', async () => {
    serves({ state: 'pausing' });
    const page = await open();
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
    serves({ provenance: 'restored' });
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

  it('asks once, however often it is clicked', async () => {
    const page = await openPaused();
    await Promise.all([page.tab.resume(), page.tab.resume()]);
    await page.tab.resume();
    await page.phase('restoring');
    expect(cluster.orders).toHaveLength(1);
  });

  it('asks once from two tabs that are clicked at once', async () => {
    const [one, two] = [await open(), await open()];
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
    const page = await openPaused();
    cluster.workspace.paused = false;
    cluster.is('Pending');
    await page.tab.resume();
    expect(cluster.orders).toHaveLength(0);
    await page.phase('restoring');
  });

  it('takes it for no error if the dashboard was first by a moment', async () => {
    const page = await openPaused();
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
    const page = await openPaused();
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
    const page = await openPaused();
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

  it('says that the session has ended, and goes on once there is one', async () => {
    const page = await open();
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
    const page = await openPaused();
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
    const page = await openPaused();
    cluster.instead = response => {
      refuse(response, 403, 'you are not authorized');
      return true;
    };
    await until(page.tab, () => page.tab.face.problem?.reason === 'forbidden');
    expect(page.tab.face).toMatchObject({ canResume: true, signedOut: false });
  });

  it('tells of a pause that the dashboard has begun', async () => {
    const page = await open();
    cluster.workspace.paused = true;
    cluster.is('Terminating');
    await page.notices('pausing');
  });

  it('does not tell what was foreseen of a pause as what was done by another', async () => {
    serves({ stateless: false });
    const page = await openPaused();
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
      serves({ state: 'pausing', stateless, operation });
      const page = await openPaused();
      expect(workspaceHint(page.tab.face, true, trans)).toContain(sentence);
    }
  );

  it.each([404, 500, 401, 200])(
    'is followed also where the proxy answers %i in place of the pod',
    async code => {
      cluster.absent = code;
      const page = await openPaused();
      await page.tab.resume();
      cluster.is('Running');
      await page.phase('ready');
    }
  );

  it('is not away for one answer that has failed', async () => {
    const page = await open(undefined, { hiccup: 60_000 });
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
    const page = await open();
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
      const page = await open();
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
    const page = await openPaused();
    cluster.workspace.name = 'another';
    await page.phase('gone');
    expect(page.tab.face.canResume).toBe(false);
  });

  it('says that it started fresh until the user has seen it', async () => {
    const timers = jest.spyOn(globalThis, 'setTimeout');
    const page = await openPaused({ told: 54_321 });
    await page.tab.resume();
    serves({ provenance: 'fresh' });
    cluster.is('Running');
    await page.phase('ready');
    expect(page.tab.face.provenance).toBe('fresh');
    await page.model.refresh();
    // Nothing is set that would end it, as it is for a full return.
    const delays = timers.mock.calls.map(([, delay]) => delay);
    timers.mockRestore();
    expect(delays).toContain(10);
    expect(delays).not.toContain(54_321);
    expect(page.tab.face.phase).toBe('ready');
    page.tab.dismiss();
    expect(page.tab.face.phase).toBe('here');
    await page.model.refresh();
    expect(page.tab.face.phase).toBe('here');
  });

  it('says for a while only that it is back with everything, also while news come', async () => {
    const timers = jest.spyOn(globalThis, 'setTimeout');
    const page = await openPaused({ told: 201 });
    serves({ provenance: 'restored' });
    cluster.is('Running');
    await page.phase('ready');
    await page.model.refresh();
    await page.model.refresh();
    const ends = timers.mock.calls.filter(([, delay]) => delay === 201);
    timers.mockRestore();
    // News do not put the end off.
    expect(ends).toHaveLength(1);
    await page.phase('here');
  });

  it('tells what became of the kernels where the memory did not come back', async () => {
    const page = await openPaused();
    await page.tab.resume();
    cluster.status.recovery = recovery();
    cluster.is('Running');
    await page.phase('ready');
    const { face } = page.tab;
    expect(face.provenance).toBe('fresh');
    expect(face.recovery?.kernels.map(({ why }) => why)).toEqual([
      '',
      'Its notebook is gone.'
    ]);
  });

  it('does not take the start before for one after the pause', async () => {
    cluster.status.recovery = recovery();
    cluster.status.woke = wakeUp({ woke: 'before' });
    const page = await open();
    page.tab.dismiss();
    cluster.is('Paused');
    await page.notices('paused');
    cluster.is('Running');
    await page.phase('ready');
    expect(page.tab.face).toMatchObject({ provenance: null, recovery: null });
  });

  it('believes the server that it woke up', async () => {
    const page = await openPaused();
    cluster.status.woke = wakeUp();
    cluster.is('Running');
    await page.phase('ready');
    expect(page.tab.face.provenance).toBe('restored');
  });

  it('tells a page that is opened after such a start, once', async () => {
    cluster.status.recovery = recovery();
    const first = await open();
    expect(first.tab.face).toMatchObject({
      phase: 'ready',
      provenance: 'fresh'
    });
    first.tab.dismiss();
    expect(first.tab.face.phase).toBe('here');
    expect((await open()).tab.face.phase).toBe('here');
  });

  it('remembers of which start the user was told also when a full return is closed', async () => {
    told = 'p-0';
    const page = await openPaused();
    serves({ provenance: 'restored' });
    cluster.is('Running');
    await page.phase('ready');
    page.tab.dismiss();
    expect(told).toBe('p-0');
  });

  it('is paused as the user, once, where only the user may', async () => {
    serves({
      pausable: false,
      why_not: { reason: 'forbidden', message: 'No.', hint: '' }
    });
    const page = await open();
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
      serves({ state: 'pausing', operation });
      return operation;
    };
    const page = await open();
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
    serves({
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
      serves({ state: 'pausing', operation });
      return operation;
    };
    const page = await open();
    await page.tab.pause();
    cluster.is('Paused');
    await page.notices('paused');
    serves({});
    cluster.is('Running');
    await page.phase('ready');
    page.tab.dismiss();
    cluster.workspace.paused = false;
    cluster.is('Unknown');
    await page.notices('away');
  });
});

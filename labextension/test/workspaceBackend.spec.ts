import { GkewsError } from '../src/api';
import { awayPhase, shortened } from '../src/workspaces/away';
import type { Listed } from '../src/workspaces/backend';
import { isSignedOut, WorkspacesBackend } from '../src/workspaces/backend';
import { placeOf } from '../src/workspaces/place';
import { answer, Cluster, refuse } from './cluster';
import { trans } from './shapes';

describe('the place of a page', () => {
  const at = (path: string, api = '') =>
    placeOf(`https://hub.example${path}`, api);

  it('is read from its address', () => {
    expect(at('/workspace/connect/team/my-ws/8888/')).toEqual({
      namespace: 'team',
      name: 'my-ws',
      api: 'https://hub.example/workspaces/api/v1'
    });
  });

  it('may be below a prefix, which the backend is below, too', () => {
    expect(at('/hub/workspace/connect/team/ws/8888/lab')?.api).toBe(
      'https://hub.example/hub/workspaces/api/v1'
    );
  });

  it.each([
    '/',
    '/lab',
    '/user/ada/',
    '/workspace/connect/team/',
    '/workspace/connect/team/ws'
  ])('is none at %s', path => {
    expect(at(path)).toBeNull();
  });

  it.each([
    ['/notebooks/api/v1/', 'https://hub.example/notebooks/api/v1'],
    ['https://hub.example/api/v1', 'https://hub.example/api/v1'],
    ['  ', 'https://hub.example/workspaces/api/v1']
  ])('has its backend where the user has set it: %p', (api, found) => {
    expect(at('/workspace/connect/team/ws/8888/', api)?.api).toBe(found);
  });

  it('has no backend of another origin, which does not know the session', () => {
    expect(
      at('/workspace/connect/team/ws/8888/', 'https://evil.example/api')
    ).toBeNull();
  });
});

describe('the Workspaces backend', () => {
  let cluster: Cluster;
  let backend: WorkspacesBackend;

  beforeEach(async () => {
    cluster = await Cluster.start();
    backend = new WorkspacesBackend(placeOf(cluster.baseUrl)!, trans);
  });

  afterEach(async () => {
    document.cookie = 'XSRF-TOKEN=; Max-Age=0';
    await cluster.stop();
  });

  async function refusal(work: Promise<unknown>): Promise<GkewsError> {
    const error: unknown = await work.then(
      () => null,
      (thrown: unknown) => thrown
    );
    expect(error).toBeInstanceOf(GkewsError);
    return error as GkewsError;
  }

  it('tells of the workspace of this name, of no other', async () => {
    cluster.is('Paused');
    expect(await backend.read()).toMatchObject({ name: 'ws', state: 'Paused' });
  });

  it('knows when there is none', async () => {
    cluster.workspace.name = 'renamed';
    expect(await backend.read()).toBeNull();
  });

  it('starts what is paused', async () => {
    cluster.is('Paused');
    expect(await backend.setPaused(false)).toBe(true);
    expect(cluster.workspace.paused).toBe(false);
    expect(cluster.orders[0].body).toEqual({ data: { paused: false } });
    expect(cluster.orders[0].headers['content-type']).toBe('application/json');
  });

  it('takes a conflict for what it is: another was first', async () => {
    expect(await backend.setPaused(false)).toBe(false);
  });

  it('sends back the token against forged requests where one is set', async () => {
    document.cookie = 'XSRF-TOKEN=a%3Db';
    await backend.setPaused(true);
    expect(cluster.orders[0].headers['x-xsrf-token']).toBe('a=b');
  });

  it('sends none where none is set', async () => {
    await backend.setPaused(true);
    expect(cluster.orders[0].headers).not.toHaveProperty('x-xsrf-token');
  });

  it.each([
    [401, 'forbidden', true],
    [403, 'forbidden', false],
    [404, 'internal', false],
    [500, 'internal', false],
    [503, 'cluster_unreachable', false]
  ])('says what %i means', async (code, reason, signedOut) => {
    cluster.instead = response => {
      refuse(response, code, 'no');
      return true;
    };
    const error = await refusal(backend.read());
    expect(error.reason).toBe(reason);
    expect(error.problem.hint).not.toBe('');
    expect(isSignedOut(error)).toBe(signedOut);
  });

  it('knows that a way to sign in is no answer', async () => {
    cluster.instead = response => {
      response.writeHead(302, { Location: '/oauth2/sign_in' }).end();
      return true;
    };
    expect(isSignedOut(await refusal(backend.read()))).toBe(true);
    expect(cluster.asked.map(({ path }) => path)).not.toContain(
      '/oauth2/sign_in'
    );
  });

  it('knows a page to sign in at', async () => {
    cluster.instead = response => {
      response.writeHead(200).end('<!doctype html><html>Sign in</html>');
      return true;
    };
    expect(isSignedOut(await refusal(backend.read()))).toBe(true);
  });

  it('does not take anything else for an answer', async () => {
    cluster.instead = response => {
      answer(response, 200, { data: 'what' });
      return true;
    };
    expect((await refusal(backend.read())).reason).toBe('internal');
  });

  it('may be out of reach', async () => {
    await cluster.stop();
    expect((await refusal(backend.read())).reason).toBe('cluster_unreachable');
    cluster = await Cluster.start();
  });
});

describe('what the state of a workspace means', () => {
  const NO_NODE =
    'Workspace Pod is unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu. preemption: 0/3 nodes are available: 3 No preemption victims found.';
  const listed = (fields: Partial<Listed>): Listed => ({
    name: 'ws',
    namespace: 'team',
    paused: false,
    pausedTime: 0,
    state: 'Unknown',
    stateMessage: '',
    ...fields
  });
  const fresh = { pausing: false, starting: false };
  const pausing = { pausing: true, starting: false };
  const starting = { pausing: true, starting: true };

  it.each([
    ['snapshot', listed({}), pausing, 'pausing'],
    ['warning in mid-snapshot', listed({ state: 'Error' }), pausing, 'pausing'],
    [
      'pod stops',
      listed({ paused: true, state: 'Terminating' }),
      fresh,
      'pausing'
    ],
    ['paused', listed({ paused: true, state: 'Paused' }), pausing, 'paused'],
    ['asked', listed({ state: 'Paused' }), starting, 'restoring'],
    [
      'no node',
      listed({ state: 'Error', stateMessage: NO_NODE }),
      starting,
      'waiting'
    ],
    ['pod starts', listed({ state: 'Pending' }), starting, 'restoring'],
    ['not ready yet', listed({}), starting, 'restoring'],
    ['ready soon', listed({ state: 'Running' }), starting, 'restoring'],
    [
      'broken',
      listed({ state: 'Error', stateMessage: 'CrashLoop' }),
      starting,
      'failed'
    ],
    ['hiccup', listed({ state: 'Running' }), fresh, 'away'],
    ['nobody knows', listed({}), fresh, 'away'],
    ['deleted', null, pausing, 'gone']
  ])('%s', (_, workspace, episode, phase) => {
    expect(awayPhase(workspace, episode)).toBe(phase);
  });

  it('is told in few words of the scheduler', () => {
    expect(shortened(NO_NODE)).toBe(
      '0/3 nodes are available: 3 Insufficient nvidia.com/gpu.'
    );
    expect(shortened('x'.repeat(500))).toHaveLength(180);
  });
});

import { ServerConnection } from '@jupyterlab/services';

import { GkewsApi, GkewsError } from '../src/api';
import { operation, status, kernel, trans, Wire } from './shapes';

async function refusal(work: Promise<unknown>): Promise<GkewsError> {
  const error: unknown = await work.then(
    () => null,
    (thrown: unknown) => thrown
  );
  expect(error).toBeInstanceOf(GkewsError);
  return error as GkewsError;
}

describe('the REST client', () => {
  it('reads the status below the base URL', async () => {
    const wire = new Wire().on('GET status', status(kernel()));
    const answer = await new GkewsApi(wire.settings, trans).status();
    expect(answer.kernels[0].id).toBe('k-1');
  });

  it('says when a pause shall begin', async () => {
    const wire = new Wire().on('POST kernels/k-1/pause', operation(), 202);
    await new GkewsApi(wire.settings, trans).pause('k-1', 'interrupt');
    expect(wire.asked[0].body).toEqual({ when: 'interrupt' });
  });

  it('passes on the typed error of the server', async () => {
    const wire = new Wire().on(
      'POST kernels/k-1/pause',
      { reason: 'kernel_busy', message: 'Busy.', hint: 'Wait.' },
      409
    );
    const error = await refusal(
      new GkewsApi(wire.settings, trans).pause('k-1', 'now')
    );
    expect(error.problem).toEqual({
      reason: 'kernel_busy',
      message: 'Busy.',
      hint: 'Wait.',
      said: true
    });
    expect(error.status).toBe(409);
  });

  it('explains a missing server half, and that kernels are untouched', async () => {
    const error = await refusal(
      new GkewsApi(new Wire().settings, trans).status()
    );
    expect(error.reason).toBe('server_half_missing');
    expect(error.hint).toMatch(/untouched.*jupyter server extension list/);
  });

  it('tells an unreachable server from one that refuses', async () => {
    const settings = ServerConnection.makeSettings({
      fetch: () => Promise.reject(new TypeError('Failed to fetch'))
    });
    const error = await refusal(new GkewsApi(settings, trans).status());
    expect(error.reason).toBe('server_unreachable');
    expect(error.status).toBe(0);
  });

  it('does not take a page of a proxy for an answer', async () => {
    const wire = new Wire();
    wire.answers.set(
      'GET status',
      () => new Response('<html>sign in</html>', { status: 200 })
    );
    const error = await refusal(new GkewsApi(wire.settings, trans).status());
    expect(error.reason).toBe('internal');
  });
});

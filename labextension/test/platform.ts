/**
 * The Workspaces backend with one workspace, played: paths, envelopes and codes are those of
 * kubeflow/notebooks (notebooks-v2, workspaces/backend), read and written anew. Knows no sockets.
 * Used by the specs and the browser tests.
 */

import type { IncomingHttpHeaders } from 'http';

import type { Listed } from '../src/workspaces/backend';

export type Asked = {
  method: string;
  path: string;
  headers: IncomingHttpHeaders;
  body: unknown;
};

const LIST = '/workspaces/api/v1/workspaces/team';

export class Backend {
  readonly asked: Asked[] = [];
  readonly workspace: Listed = {
    name: 'ws',
    namespace: 'team',
    paused: false,
    pausedTime: 0,
    state: 'Running',
    stateMessage: ''
  };
  /** How many requests to pause or start were carried out. */
  accepted = 0;
  /** Called before a request to pause or start is looked at. */
  before: (() => void) | null = null;

  /** The requests to pause or start. */
  get orders(): Asked[] {
    return this.asked.filter(({ path }) => path.endsWith('/actions/pause'));
  }

  /** How many times the list was asked for. */
  get looks(): number {
    return this.asked.filter(({ path }) => path === LIST).length;
  }

  respond(asked: Asked): { code: number; body: unknown } {
    const { method, path, headers, body } = asked;
    if (method === 'GET' && path === LIST) {
      const other = { ...this.workspace, name: 'other', state: 'Error' };
      return { code: 200, body: { data: [other, this.workspace] } };
    }
    if (method !== 'POST' || path !== `${LIST}/ws/actions/pause`) {
      return refused(404, 'the requested resource could not be found');
    }
    if (!headers['content-type']?.startsWith('application/json')) {
      return refused(415, 'Only application/json is supported');
    }
    this.before?.();
    const { paused } = (body as { data: { paused: boolean } }).data;
    const fits =
      this.workspace.paused !== paused &&
      (paused || this.workspace.state === 'Paused');
    if (!fits) {
      return refused(409, 'kubernetes conflict error');
    }
    this.workspace.paused = paused;
    this.accepted += 1;
    return { code: 200, body: { data: { paused } } };
  }
}

export function refused(
  code: number,
  message: string
): { code: number; body: unknown } {
  return { code, body: { error: { code: String(code), message } } };
}

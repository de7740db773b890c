/**
 * A cluster that is under our control, over real HTTP on loopback: below one origin the Workspaces
 * backend (paths, envelopes and codes of kubeflow/notebooks, notebooks-v2) and the server half in
 * the workspace's pod, which is only reached while the pod is ready. Used by the specs only.
 */

import { ServerConnection } from '@jupyterlab/services';
import type { IncomingMessage, Server, ServerResponse } from 'http';
import { createServer } from 'http';
import type { AddressInfo } from 'net';

import type { Listed } from '../src/workspaces/backend';
import type { Status } from '../src/tokens';

export type Asked = {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  body: unknown;
};

export class Cluster {
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
  /** Whether requests get to the pod; without it the proxy answers 503. */
  podReady = true;
  status: Status = {
    version: '0.1.0',
    kernels: [],
    store: { path: '', free: 1 }
  };
  /** Answers something else in place of the backend, if set. */
  instead: ((response: ServerResponse, asked: Asked) => boolean) | null = null;
  /** Called before the backend looks at a request to pause or start. */
  before: (() => void) | null = null;

  static async start(): Promise<Cluster> {
    const cluster = new Cluster();
    await new Promise<void>(resolve =>
      cluster._server.listen(0, '127.0.0.1', resolve)
    );
    return cluster;
  }

  async stop(): Promise<void> {
    this._server.closeAllConnections();
    await new Promise(resolve => this._server.close(resolve));
  }

  get origin(): string {
    return `http://127.0.0.1:${(this._server.address() as AddressInfo).port}`;
  }

  /** Below which the Jupyter server of the workspace answers. */
  get baseUrl(): string {
    return `${this.origin}/workspace/connect/team/ws/8888/`;
  }

  get settings(): ServerConnection.ISettings {
    return ServerConnection.makeSettings({ baseUrl: this.baseUrl });
  }

  /** The requests to pause or start. */
  get orders(): Asked[] {
    return this.asked.filter(({ path }) => path.endsWith('/actions/pause'));
  }

  /** How many times the backend was asked for the list. */
  get looks(): number {
    return this.asked.filter(({ path }) => path.endsWith('/workspaces/team'))
      .length;
  }

  /** Every kind of step that the platform takes, with what the proxy makes of it. */
  is(state: string, stateMessage = '', podReady = state === 'Running'): void {
    Object.assign(this.workspace, { state, stateMessage });
    this.podReady = podReady;
    if (state === 'Paused') {
      Object.assign(this.workspace, { paused: true, pausedTime: Date.now() });
    }
  }

  private readonly _server: Server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const text = Buffer.concat(parts).toString();
      const asked: Asked = {
        method: request.method ?? '',
        path: new URL(request.url ?? '/', this.origin).pathname,
        headers: request.headers,
        body: text ? JSON.parse(text) : null
      };
      this.asked.push(asked);
      if (asked.path.startsWith('/workspace/connect/team/ws/8888/')) {
        this._pod(response, asked);
      } else if (!this.instead?.(response, asked)) {
        this._backend(response, asked);
      }
    });
  });

  private _pod(response: ServerResponse, { path }: Asked): void {
    if (!this.podReady) {
      response.writeHead(503).end('no healthy upstream');
    } else if (path.endsWith('/gkews/status')) {
      answer(response, 200, this.status);
    } else {
      answer(response, 404, {});
    }
  }

  private _backend(response: ServerResponse, asked: Asked): void {
    const { method, path, headers, body } = asked;
    const base = '/workspaces/api/v1/workspaces/team';
    if (method === 'GET' && path === base) {
      const other = { ...this.workspace, name: 'other', state: 'Error' };
      answer(response, 200, { data: [other, this.workspace] });
      return;
    }
    if (method !== 'POST' || path !== `${base}/ws/actions/pause`) {
      refuse(response, 404, 'the requested resource could not be found');
      return;
    }
    if (!headers['content-type']?.startsWith('application/json')) {
      refuse(response, 415, 'Only application/json is supported');
      return;
    }
    this.before?.();
    const { paused } = (body as { data: { paused: boolean } }).data;
    const fits =
      this.workspace.paused !== paused &&
      (paused || this.workspace.state === 'Paused');
    if (!fits) {
      refuse(response, 409, 'kubernetes conflict error');
      return;
    }
    this.workspace.paused = paused;
    this.accepted += 1;
    answer(response, 200, { data: { paused } });
  }
}

export function answer(
  response: ServerResponse,
  code: number,
  body: unknown
): void {
  response
    .writeHead(code, { 'Content-Type': 'application/json' })
    .end(JSON.stringify(body));
}

export function refuse(
  response: ServerResponse,
  code: number,
  message: string
): void {
  answer(response, code, { error: { code: String(code), message } });
}

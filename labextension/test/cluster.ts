/**
 * A cluster that is under our control, over real HTTP on loopback: below one origin the Workspaces
 * backend and the server half in the workspace's pod, which is only reached while the pod is ready.
 * Used by the specs only.
 */

import { ServerConnection } from '@jupyterlab/services';
import type { Server, ServerResponse } from 'http';
import { createServer } from 'http';
import type { AddressInfo } from 'net';

import type { GkewsProblem, Status } from '../src/tokens';
import type { Asked } from './platform';
import { Backend, refused } from './platform';

export class Cluster extends Backend {
  /** Whether requests get to the pod; without it the proxy answers 503. */
  podReady = true;
  /** What the proxy answers then. */
  absent = 503;
  status: Status = {
    version: '0.1.0',
    kernels: [],
    store: { path: '', free: 1 }
  };
  /** What the server half answers to a look at its status, in place of it. */
  ails: { code: number; body: GkewsProblem } | null = null;
  /** What the server half does when it is asked for a pause. */
  pause: (() => unknown) | null = null;
  /** Answers something else in place of the backend, if set. */
  instead: ((response: ServerResponse, asked: Asked) => boolean) | null = null;
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
        const { code, body } = this.respond(asked);
        answer(response, code, body);
      }
    });
  });

  private _pod(response: ServerResponse, { path }: Asked): void {
    if (!this.podReady) {
      response.writeHead(this.absent).end('no healthy upstream');
    } else if (path.endsWith('/gkews/workspace/pause')) {
      answer(response, 202, this.pause?.());
    } else if (path.endsWith('/gkews/status') && this.ails) {
      answer(response, this.ails.code, this.ails.body);
    } else if (path.endsWith('/gkews/status')) {
      answer(response, 200, this.status);
    } else {
      answer(response, 404, {});
    }
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
  answer(response, code, refused(code, message).body);
}

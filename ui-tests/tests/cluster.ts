/**
 * One origin as a cluster with Workspaces has it, played: the backend, and a proxy to a pod that is
 * a real Jupyter server of its own, below the base URL that a workspace has. What the cluster would
 * tell that server of its workspace is put into its status by the proxy. A snapshot is played by
 * stopping the server's process: it goes on later where it was, as a restored one does.
 */

import type { ChildProcess } from 'child_process';
import { spawn } from 'child_process';
import * as fs from 'fs';
import type { IncomingMessage, Server, ServerResponse } from 'http';
import * as http from 'http';
import type { AddressInfo, Socket } from 'net';
import * as net from 'net';
import * as path from 'path';

import { Backend } from '../../labextension/test/platform';
import type {
  WorkspaceOperation,
  WorkspaceStatus
} from '../../labextension/src/workspaces/tokens';
import { HOME } from './gkews';

const BASE = '/workspace/connect/team/ws/8888/';

export class Cluster extends Backend {
  /** What the server says of its workspace. */
  status: Partial<WorkspaceStatus> = {
    state: 'running',
    name: 'ws',
    namespace: 'team',
    node: 'node-1',
    pausable: true,
    stateless: false
  };
  /** What was asked of the server half. */
  readonly pauses: unknown[] = [];
  readonly home = path.join(HOME, 'workspace');

  /** The address of JupyterLab. */
  get lab(): string {
    const { port } = this._proxy.address() as AddressInfo;
    return `http://127.0.0.1:${port}${BASE}lab`;
  }

  async start(): Promise<void> {
    this._port = await freePort();
    await new Promise<void>(resolve =>
      this._proxy.listen(0, '127.0.0.1', resolve)
    );
    const below = (name: string) => path.join(this.home, name);
    fs.mkdirSync(below('work'), { recursive: true });
    const venv = path.join(__dirname, '..', '..', '.venv', 'bin');
    this._server = spawn(
      'jupyter',
      [
        'lab',
        '--config=jupyter_server_test_config.py',
        `--ServerApp.base_url=${BASE}`
      ],
      {
        cwd: path.join(__dirname, '..'),
        stdio: 'ignore',
        env: {
          ...process.env,
          PATH: fs.existsSync(venv)
            ? `${venv}${path.delimiter}${process.env.PATH}`
            : process.env.PATH,
          GKEWS_UI_PORT: String(this._port),
          GKEWS_UI_HOME: this.home,
          HOME: this.home,
          XDG_DATA_HOME: below('xdg'),
          IPYTHONDIR: below('ipython'),
          JUPYTER_CONFIG_DIR: below('config'),
          JUPYTER_DATA_DIR: below('data'),
          JUPYTER_RUNTIME_DIR: below('runtime'),
          JUPYTER_PREFER_ENV_PATH: '1'
        }
      }
    );
    for (;;) {
      const answered = await fetch(`${this.lab}`).catch(() => null);
      if (answered?.ok) {
        return;
      }
      if (this._server.exitCode !== null) {
        throw new Error('The server in the pod has ended.');
      }
      await new Promise(resolve => setTimeout(resolve, 200));
    }
  }

  async stop(): Promise<void> {
    const server = this._server;
    if (server && server.exitCode === null) {
      const ended = new Promise(resolve => server.once('exit', resolve));
      server.kill('SIGCONT');
      server.kill('SIGTERM');
      await ended;
    }
    this._cut();
    await new Promise(resolve => this._proxy.close(resolve));
  }

  /** The state that the controller gives the workspace. */
  is(state: string, stateMessage = ''): void {
    Object.assign(this.workspace, { state, stateMessage });
    if (state === 'Paused') {
      Object.assign(this.workspace, { paused: true, pausedTime: Date.now() });
    }
  }

  /** The snapshot begins: the pod leaves its Service, and nothing in it runs. */
  freeze(): void {
    this.is('Unknown');
    this._frozen = true;
    this._server?.kill('SIGSTOP');
    this._cut();
  }

  /** The pod is ready again, with what was in it. */
  thaw(provenance: WorkspaceStatus['provenance']): void {
    this.status = { ...this.status, state: 'running', provenance };
    this.status.operation = null;
    this.is('Running');
    this._server?.kill('SIGCONT');
    this._frozen = false;
  }

  private _cut(): void {
    this._sockets.forEach(socket => socket.destroy());
    this._sockets.clear();
  }

  private _accept(request: IncomingMessage, response: ServerResponse): void {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts);
      const url = new URL(request.url ?? '/', 'http://proxy');
      const method = request.method ?? '';
      if (!url.pathname.startsWith(BASE)) {
        const asked = {
          method,
          path: url.pathname,
          headers: request.headers,
          body: body.length ? JSON.parse(body.toString()) : null
        };
        this.asked.push(asked);
        const answer = this.respond(asked);
        reply(response, answer.code, answer.body);
      } else if (this._frozen) {
        response.writeHead(503).end('no healthy upstream');
      } else if (
        method === 'POST' &&
        url.pathname.endsWith('/workspace/pause')
      ) {
        this.pauses.push(JSON.parse(body.toString()));
        this.status.state = 'pausing';
        this.status.operation = this._operation();
        reply(response, 202, this.status.operation);
      } else if (url.pathname.endsWith('/gkews/workspace')) {
        reply(response, 200, this.status);
      } else {
        this._pass(request, response, body, url.pathname);
      }
    });
  }

  private _pass(
    request: IncomingMessage,
    response: ServerResponse,
    body: Buffer,
    where: string
  ): void {
    const onward = http.request(
      {
        host: '127.0.0.1',
        port: this._port,
        path: request.url,
        method: request.method,
        headers: { ...request.headers, 'accept-encoding': 'identity' }
      },
      answer => {
        if (!where.endsWith('/gkews/status')) {
          response.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(response);
          return;
        }
        const parts: Buffer[] = [];
        answer.on('data', (part: Buffer) => parts.push(part));
        answer.on('end', () => {
          const status = JSON.parse(Buffer.concat(parts).toString()) as object;
          reply(response, 200, { ...status, workspace: this.status });
        });
      }
    );
    onward.on('error', () => {
      if (!response.headersSent) {
        response.writeHead(503);
      }
      response.end();
    });
    onward.end(body);
  }

  /** A websocket: bytes are passed on as they come. */
  private _upgrade(
    request: IncomingMessage,
    socket: Socket,
    head: Buffer
  ): void {
    if (this._frozen) {
      socket.end('HTTP/1.1 503 Service Unavailable\r\n\r\n');
      return;
    }
    const onward = net.connect(this._port, '127.0.0.1', () => {
      const lines = [`${request.method} ${request.url} HTTP/1.1`];
      for (let i = 0; i < request.rawHeaders.length; i += 2) {
        lines.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`);
      }
      onward.write(`${lines.join('\r\n')}\r\n\r\n`);
      onward.write(head);
      onward.pipe(socket);
      socket.pipe(onward);
    });
    for (const [one, other] of [
      [socket, onward],
      [onward, socket]
    ]) {
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
  }

  private _operation(): WorkspaceOperation {
    return {
      id: 'pause-1',
      kind: 'pause',
      kernel: null,
      phase: 'checkpointing',
      step: null,
      bytes_done: 0,
      bytes_total: 0,
      eta_s: null,
      started: new Date().toISOString(),
      finished: null,
      cancellable: true,
      result: null,
      error: null,
      message: 'Checkpoints are written: 0 of 1.',
      kernels: []
    };
  }

  private readonly _sockets = new Set<Socket>();
  private readonly _proxy: Server = http
    .createServer((request, response) => this._accept(request, response))
    .on('connection', (socket: Socket) => {
      this._sockets.add(socket);
      socket.once('close', () => this._sockets.delete(socket));
    })
    .on('upgrade', (request, socket, head) =>
      this._upgrade(request, socket as Socket, head)
    );
  private _server: ChildProcess | null = null;
  private _port = 0;
  private _frozen = false;
}

function reply(response: ServerResponse, code: number, body: unknown): void {
  response
    .writeHead(code, { 'Content-Type': 'application/json' })
    .end(JSON.stringify(body));
}

async function freePort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise(resolve => server.close(resolve));
  return port;
}

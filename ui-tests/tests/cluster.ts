/**
 * One origin as a cluster with Workspaces has it, played: the backend, and a proxy to a pod that is
 * a real Jupyter server of its own, below the base URL that a workspace has. What the cluster would
 * tell that server of its workspace is put into its status by the proxy. A snapshot is played by
 * stopping the server's process: it goes on later where it was, as a restored one does.
 */

import type { ChildProcess } from 'child_process';
import { execFileSync, spawn } from 'child_process';
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

/** Leaves a pause open in the journal, as a server does that was stopped in it. */
const OPEN_PAUSE = `
import json, pathlib, sys
from jupyter_gkews.journal.pauses import JournalledKernel, WorkspacePauses
said = json.load(sys.stdin)
WorkspacePauses(pathlib.Path(said["store"])).open(
    workspace={"namespace": "team", "name": "ws"},
    pod={"name": "ws-0", "uid": "1"},
    kernels=[
        JournalledKernel(
            kernel_name="python3", state="running",
            notebook=f"{said['root']}/{one['path']}", **one,
        )
        for one in said["kernels"]
    ],
    server={"root": said["root"], "base_url": said["base"]},
)
`;

/** A kernel with its notebook, relative to the server's root, and its checkpoint. */
type Written = { kernel: string; path: string; checkpoint: string | null };

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

  /** The root of the server's files. */
  get work(): string {
    return path.join(this.home, 'work');
  }

  async start(): Promise<void> {
    this._port = await freePort();
    await new Promise<void>(resolve =>
      this._proxy.listen(0, '127.0.0.1', resolve)
    );
    fs.mkdirSync(this.work, { recursive: true });
    await this._launch();
  }

  /** Write a checkpoint of the notebook's kernel, as a pause does before the snapshot. */
  async checkpoint(notebook: string): Promise<void> {
    const kernelOf = async () => {
      const { kernels } = await this._ask('status');
      return (kernels as { id: string; path: string }[]).find(
        kernel => kernel.path === notebook
      )!;
    };
    const { id } = await kernelOf();
    const { id: operation } = await this._ask(`kernels/${id}/checkpoint`, {});
    for (;;) {
      const { finished, error, result } = await this._ask(
        `operations/${operation}`
      );
      if (error) {
        throw new Error(JSON.stringify(error));
      }
      if (finished) {
        const { checkpoint } = result as { checkpoint: string };
        this._written.push({ kernel: id, path: notebook, checkpoint });
        return;
      }
      await new Promise(resolve => setTimeout(resolve, 100));
    }
  }

  /**
   * The pod starts without the memory: the pause stands open in the journal, with the kernels that
   * have a checkpoint and that of `lost`, which has none, and a new server finds it.
   */
  async startCold(lost: string): Promise<void> {
    const server = this._server!;
    const ended = new Promise(resolve => server.once('exit', resolve));
    server.kill('SIGKILL');
    await ended;
    this._cut();
    const gone = { kernel: 'k-gone', path: lost, checkpoint: null };
    execFileSync('python', ['-c', OPEN_PAUSE], {
      env: { ...process.env, PATH: searchPath() },
      input: JSON.stringify({
        store: path.join(this.home, 'data', 'gkews'),
        root: fs.realpathSync(this.work),
        base: BASE,
        kernels: [...this._written.splice(0), gone]
      })
    });
    await this._launch();
    this.thaw(null);
  }

  /** What the server half says to this; with a body, it is told to do it. */
  private async _ask(
    what: string,
    body?: object
  ): Promise<Record<string, unknown>> {
    const answer = await fetch(`${this._direct}gkews/${what}`, {
      method: body ? 'POST' : 'GET',
      body: body && JSON.stringify(body)
    });
    return (await answer.json()) as Record<string, unknown>;
  }

  /** The server, without the proxy. */
  private get _direct(): string {
    return `http://127.0.0.1:${this._port}${BASE}`;
  }

  private async _launch(): Promise<void> {
    const below = (name: string) => path.join(this.home, name);
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
          PATH: searchPath(),
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
      const answered = await fetch(`${this._direct}lab`).catch(() => null);
      if (answered?.ok) {
        return;
      }
      const { exitCode, signalCode } = this._server;
      if (exitCode !== null || signalCode !== null) {
        throw new Error('The server in the pod has ended.');
      }
      await new Promise(resolve => setTimeout(resolve, 200));
    }
  }

  async stop(): Promise<void> {
    const server = this._server;
    if (server && server.exitCode === null && server.signalCode === null) {
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

  /** What has a checkpoint since the last start. */
  private readonly _written: Written[] = [];
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

/** Where programs are looked for: first in the environment of this checkout, if it has one. */
function searchPath(): string | undefined {
  const venv = path.join(__dirname, '..', '..', '.venv', 'bin');
  return fs.existsSync(venv)
    ? `${venv}${path.delimiter}${process.env.PATH}`
    : process.env.PATH;
}

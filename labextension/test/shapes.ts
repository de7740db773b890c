/**
 * Builds what the server answers, complete, with the fields that a test is about on top. Used by
 * the specs only.
 */

import { nullTranslator } from '@jupyterlab/translation';
import { ServerConnection } from '@jupyterlab/services';

import type {
  Checkpoint,
  KernelStatus,
  Operation,
  OperationResult,
  Outlook,
  Snapshot,
  Status,
  Survives,
  Variable
} from '../src/tokens';
import type {
  Recovery,
  WakeUp,
  WorkspaceKernel,
  WorkspaceOperation,
  WorkspaceStatus
} from '../src/workspaces/tokens';

export const trans = nullTranslator.load('jupyter_gkews');

export function operation(fields: Partial<Operation> = {}): Operation {
  return {
    id: 'op-1',
    kind: 'pause',
    kernel: 'k-1',
    phase: 'checkpointing',
    step: null,
    bytes_done: 0,
    bytes_total: 0,
    eta_s: null,
    started: '2026-11-30T18:00:00.000Z',
    finished: null,
    cancellable: true,
    result: null,
    error: null,
    ...fields
  };
}

export function result(fields: Partial<OperationResult> = {}): OperationResult {
  return {
    provenance: null,
    checkpoint: 'c-1',
    kept: 41,
    rebuilt: 0,
    rebuilt_details: [],
    lost: [],
    seconds: { checkpointing: 2, releasing: 0.1 },
    released: { ram: 1_500_000_000 },
    bytes_written: 3_000_000_000,
    saved_before: null,
    ...fields
  };
}

export function kernel(fields: Partial<KernelStatus> = {}): KernelStatus {
  return {
    id: 'k-1',
    name: 'python3',
    display_name: 'Python 3',
    language: 'python',
    path: 'work/demo.ipynb',
    state: 'running',
    since: '2026-11-30T18:00:00.000Z',
    provenance: null,
    reason: null,
    message: 'The kernel runs.',
    hint: '',
    operation: null,
    last_operation: null,
    checkpoint: null,
    pausable: true,
    why_not: null,
    auto_resume: true,
    execution_state: 'idle',
    ram: 100_000_000,
    ...fields
  };
}

export function status(...kernels: KernelStatus[]): Status {
  return {
    version: '0.1.0',
    kernels,
    store: { path: '/store', free: 50_000_000_000 }
  };
}

export function workspace(
  fields: Partial<WorkspaceStatus> = {}
): WorkspaceStatus {
  return {
    state: 'running',
    phase: null,
    since: '2026-11-30T18:00:00.000Z',
    provenance: null,
    reason: null,
    message: 'The workspace runs.',
    hint: '',
    namespace: 'team',
    name: 'ws',
    node: 'node-1',
    operation: null,
    last_operation: null,
    pausable: true,
    why_not: null,
    stateless: false,
    checks: [],
    allowed: [{ id: 'pause', allowed: true, without: '' }],
    snapshot: null,
    ...fields
  };
}

export function workspaceOperation(
  fields: Partial<WorkspaceOperation> = {}
): WorkspaceOperation {
  return {
    ...operation(),
    id: 'op-w',
    kernel: null,
    message: null,
    kernels: [],
    ...fields
  };
}

export function workspaceKernel(
  fields: Partial<WorkspaceKernel> = {}
): WorkspaceKernel {
  return {
    kernel: 'k-1',
    path: 'work/demo.ipynb',
    name: 'Python 3',
    state: 'written',
    operation: 'op-1',
    checkpoint: 'c-1',
    why_not: null,
    ...fields
  };
}

/** After a cold start: one notebook waits, and one could not come back. */
export function recovery(fields: Partial<Recovery> = {}): Recovery {
  return {
    pause: 'p-1',
    paused: '2026-11-30T18:00:00.000Z',
    started: '2026-11-30T19:00:00.000Z',
    way: 'ask',
    provenance: 'fresh',
    message: 'This server was started anew.',
    kernels: [
      {
        kernel: 'k-1',
        path: 'demo.ipynb',
        checkpoint: 'c-1',
        state: 'waiting',
        why: ''
      },
      {
        kernel: 'k-2',
        path: 'old/gone.ipynb',
        checkpoint: null,
        state: 'lost',
        why: 'Its notebook is gone.'
      }
    ],
    ...fields
  };
}

export function wakeUp(fields: Partial<WakeUp> = {}): WakeUp {
  return {
    paused: '2026-11-30T16:00:00.000Z',
    woke: '2026-11-30T19:00:00.000Z',
    away_s: 10_800,
    changed_files: [],
    hooks_failed: {},
    trouble: {},
    ...fields
  };
}

export function variable(fields: Partial<Variable> = {}): Variable {
  return {
    name: 'model',
    type: 'Qwen2ForCausalLM',
    bytes: 6_000_000_000,
    device: 'cpu',
    fate: 'kept',
    reason: null,
    cell: 3,
    ...fields
  };
}

export function survives(
  variables: Variable[],
  fields: Partial<Survives> = {}
): Survives {
  return {
    kernel: 'k-1',
    variables,
    process: [{ what: 'working directory', fate: 'kept', reason: null }],
    bytes: { kept: 6e9, to_write: 3e9, already_stored: 3e9 },
    stale: false,
    as_of: '2026-11-30T18:00:00.000Z',
    ...fields
  };
}

export function checkpoint(fields: Partial<Checkpoint> = {}): Checkpoint {
  return {
    id: 'c-1',
    name: null,
    created: '2026-11-30T18:00:00.000Z',
    kernel: { id: 'k-1', name: 'python3' },
    notebook: '/home/ada/work/demo.ipynb',
    counts: { kept: 41, rebuilt: 0, lost: 2 },
    lost: [],
    bytes: { total: 6_000_000_000, written: 3_000_000_000 },
    error: null,
    in_use: false,
    ...fields
  };
}

export function outlook(fields: Partial<Outlook> = {}): Outlook {
  return {
    engine: 'gvisor',
    keeps: ['threads and what they are doing'],
    holds: { pid: 2, threads: ['ticker'], generators: ['rows'] },
    estimate: { image_bytes: 24_000_000, seconds: 1.4, restore_seconds: 0.8 },
    objections: [],
    taken: null,
    ...fields
  };
}

export function snapshot(fields: Partial<Snapshot> = {}): Snapshot {
  return {
    id: 's-1',
    engine: 'gvisor',
    kernel: 'k-1',
    checkpoint: 'c-1',
    created: '2026-11-30T18:00:00.000Z',
    bytes: 24_000_000,
    environment: { runsc: '0.0~20221219.0', python: '3.11.2' },
    holds: { pid: 2, threads: ['ticker'], files: ['/home/ada/notes.txt'] },
    notebook: '/home/ada/work/demo.ipynb',
    in_cell: false,
    in_use: true,
    unneeded: null,
    problem: null,
    ...fields
  };
}

/** What a server that is under our control answers, route by route, and what it was asked. */
export class Wire {
  readonly asked: { method: string; path: string; body: unknown }[] = [];
  answers = new Map<string, () => Response | Promise<Response>>();

  /** Answer `route` (`GET status`) with a JSON body from now on. */
  on(route: string, body: unknown, code = 200): this {
    this.answers.set(route, () => json(body, code));
    return this;
  }

  readonly settings = ServerConnection.makeSettings({
    baseUrl: 'http://localhost/base/',
    fetch: async (input: RequestInfo | URL, init?: RequestInit) => {
      const request = new Request(input, init);
      const path = new URL(request.url).pathname.replace('/base/gkews/', '');
      const text = request.method === 'GET' ? '' : await request.text();
      this.asked.push({
        method: request.method,
        path,
        body: text ? JSON.parse(text) : null
      });
      const answer = this.answers.get(`${request.method} ${path}`);
      if (!answer) {
        return new Response('<html>404</html>', { status: 404 });
      }
      return answer();
    }
  });
}

export function json(body: unknown, code = 200): Response {
  return new Response(JSON.stringify(body), {
    status: code,
    headers: { 'Content-Type': 'application/json' }
  });
}

/** Resolves when `check` holds, looked at after each emission of the signal. */
export async function until<T>(
  model: { changed: { connect(slot: () => void): boolean } },
  check: () => T | null | undefined | false
): Promise<T> {
  return new Promise(resolve => {
    const look = () => {
      const value = check();
      if (value) {
        resolve(value);
      }
    };
    model.changed.connect(look);
    look();
  });
}

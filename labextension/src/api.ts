/**
 * The only place that speaks to the server half, over REST. Answers become the types of
 * `tokens.ts`, refusals become `GkewsError`. Holds no state and starts nothing by itself.
 */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import type {
  Checkpoint,
  Collected,
  Difference,
  GkewsProblem,
  Operation,
  PauseWhen,
  ResumeHow,
  Snapshot,
  Status,
  StoreUse,
  Survives
} from './tokens';
import type {
  WorkspaceOperation,
  WorkspacePauseHow,
  WorkspaceStatus
} from './workspaces/tokens';

/** Milliseconds until the status is not waited for any longer: a frozen server never answers. */
const STATUS_TIMEOUT = 10000;

/** A refusal that the user can act on. */
export class GkewsError extends Error {
  /** `status` is the HTTP status, or 0 if the server did not answer at all. */
  constructor(
    readonly problem: GkewsProblem,
    readonly status: number
  ) {
    super(problem.message);
    this.name = 'GkewsError';
  }

  get reason(): string {
    return this.problem.reason;
  }

  get hint(): string {
    return this.problem.hint;
  }
}

/** Any thrown value as a problem to show. */
export function toProblem(error: unknown): GkewsProblem {
  if (error instanceof GkewsError) {
    return error.problem;
  }
  const message = error instanceof Error ? error.message : String(error);
  return { reason: 'internal', message, hint: '' };
}

export class GkewsApi {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _trans: TranslationBundle
  ) {}

  status(): Promise<Status> {
    return this._request<Status>(
      'GET',
      ['status'],
      undefined,
      '',
      STATUS_TIMEOUT
    );
  }

  /** The workspace, judged anew. */
  workspace(): Promise<WorkspaceStatus> {
    return this._request<WorkspaceStatus>('GET', ['workspace']);
  }

  pauseWorkspace(how: WorkspacePauseHow = {}): Promise<WorkspaceOperation> {
    return this._request<WorkspaceOperation>('POST', ['workspace', 'pause'], {
      when: how.when ?? 'idle',
      stateless: how.stateless ?? false,
      without_checkpoint: how.withoutCheckpoint ?? false
    });
  }

  survives(kernelId: string): Promise<Survives> {
    return this._request<Survives>('GET', ['kernels', kernelId, 'survives']);
  }

  pause(kernelId: string, when: PauseWhen): Promise<Operation> {
    return this._request<Operation>('POST', ['kernels', kernelId, 'pause'], {
      when
    });
  }

  resume(kernelId: string, how: ResumeHow = {}): Promise<Operation> {
    return this._request<Operation>('POST', ['kernels', kernelId, 'resume'], {
      accept_missing: how.acceptMissing ?? false,
      ...(how.snapshot === undefined ? {} : { snapshot: how.snapshot })
    });
  }

  checkpoint(kernelId: string): Promise<Operation> {
    return this._request<Operation>('POST', [
      'kernels',
      kernelId,
      'checkpoint'
    ]);
  }

  setAutoResume(kernelId: string, value: boolean): Promise<unknown> {
    return this._request('PATCH', ['kernels', kernelId], {
      auto_resume: value
    });
  }

  operation(id: string): Promise<Operation> {
    return this._request<Operation>('GET', ['operations', id]);
  }

  cancel(operationId: string): Promise<unknown> {
    return this._request('DELETE', ['operations', operationId]);
  }

  async checkpoints(): Promise<Checkpoint[]> {
    const answer = await this._request<{ checkpoints: Checkpoint[] }>('GET', [
      'checkpoints'
    ]);
    return answer.checkpoints;
  }

  async snapshots(): Promise<Snapshot[]> {
    const answer = await this._request<{ snapshots: Snapshot[] }>('GET', [
      'snapshots'
    ]);
    return answer.snapshots;
  }

  deleteSnapshot(id: string): Promise<unknown> {
    return this._request('DELETE', ['snapshots', id]);
  }

  /** What may break in a load of a checkpoint; empty where that is not known. */
  async differences(
    checkpointId: string,
    kernelId: string | null
  ): Promise<Difference[]> {
    const answer = await this._request<{ differences: Difference[] | null }>(
      'GET',
      ['checkpoints', checkpointId],
      undefined,
      kernelId === null
        ? ''
        : URLExt.objectToQueryString({ kernel_id: kernelId })
    );
    return answer.differences ?? [];
  }

  store(): Promise<StoreUse> {
    return this._request<StoreUse>('GET', ['store']);
  }

  /** Remove what no checkpoint needs, and with `olderThanS` (seconds) old ones without a name. */
  collect(olderThanS: number | null, dryRun: boolean): Promise<Collected> {
    return this._request<Collected>('POST', ['gc'], {
      dry_run: dryRun,
      older_than_s: olderThanS
    });
  }

  deleteCheckpoint(id: string): Promise<unknown> {
    return this._request('DELETE', ['checkpoints', id]);
  }

  restore(
    checkpointId: string,
    kernelId: string | null,
    acceptMissing = false
  ): Promise<Operation> {
    return this._request<Operation>(
      'POST',
      ['checkpoints', checkpointId, 'restore'],
      { kernel_id: kernelId, accept_missing: acceptMissing }
    );
  }

  private async _request<T>(
    method: string,
    path: string[],
    body?: ReadonlyPartialJSONObject,
    query = '',
    timeout = 0
  ): Promise<T> {
    const url =
      URLExt.join(
        this._settings.baseUrl,
        'gkews',
        ...path.map(encodeURIComponent)
      ) + query;
    const init: RequestInit = { method };
    if (method !== 'GET') {
      init.body = JSON.stringify(body ?? {});
    }
    const abort = new AbortController();
    if (timeout) {
      init.signal = abort.signal;
    }
    const timer = timeout
      ? setTimeout(() => abort.abort(), timeout)
      : undefined;
    let response: Response;
    let text: string;
    try {
      response = await ServerConnection.makeRequest(url, init, this._settings);
      text = await response.text();
    } catch (error) {
      throw new GkewsError(this._unreachable(error), 0);
    } finally {
      clearTimeout(timer);
    }
    let data: unknown = null;
    if (text) {
      try {
        data = JSON.parse(text);
      } catch {
        // An HTML page from a proxy or from Jupyter itself: judged by its status below.
      }
    }
    if (response.ok && (data !== null || response.status === 204)) {
      return data as T;
    }
    throw new GkewsError(this._refusal(response, data), response.status);
  }

  /** The server's own typed error, or a sentence of ours where something else has answered. */
  private _refusal(response: Response, data: unknown): GkewsProblem {
    const said = (data ?? {}) as Partial<GkewsProblem>;
    if (typeof said.reason === 'string' && typeof said.message === 'string') {
      return {
        reason: said.reason,
        message: said.message,
        hint: said.hint ?? '',
        said: true
      };
    }
    if (response.status >= 502 && response.status <= 504) {
      // A proxy whose server is not there now.
      return this._unreachable(`${response.status} ${response.statusText}`);
    }
    if (response.status === 404) {
      return {
        reason: 'server_half_missing',
        message: this._trans.__(
          'The server half of jupyter-gkews does not answer.'
        ),
        hint: this._trans.__(
          'Kernels are untouched. Install jupyter-gkews in the environment of the Jupyter server, check "jupyter server extension list", and restart the server.'
        )
      };
    }
    if (response.status === 401 || response.status === 403) {
      return {
        reason: 'forbidden',
        message: this._trans.__('The server refused: you may not do this.'),
        hint: this._trans.__('Sign in again, then reload this page.')
      };
    }
    return {
      reason: 'internal',
      message: this._trans.__(
        'The server answered %1 %2.',
        response.status,
        response.statusText
      ),
      hint: this._trans.__('The log of the Jupyter server says more.')
    };
  }

  private _unreachable(error: unknown): GkewsProblem {
    return {
      reason: 'server_unreachable',
      message: this._trans.__('The Jupyter server cannot be reached.'),
      hint: this._trans.__(
        'What is shown is what was known last. It is read again as soon as the connection is back. (%1)',
        error instanceof Error ? error.message : String(error)
      )
    };
  }
}

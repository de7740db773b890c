/**
 * The only place that speaks to the Workspaces backend, with the session of the page: reads one
 * workspace, and asks for it to be paused or started. Never repeats a request, keeps no state.
 *
 * Paths, bodies and codes are those of kubeflow/notebooks (notebooks-v2, workspaces/backend): the
 * state is only in the list of a namespace; a request that comes too late is 409.
 */

import type { TranslationBundle } from '@jupyterlab/translation';

import { GkewsError } from '../api';
import type { Place } from './place';

/** A workspace as the backend lists it. Times are milliseconds since the epoch, 0 if unset. */
export type Listed = {
  name: string;
  namespace: string;
  paused: boolean;
  pausedTime: number;
  /** Running, Terminating, Paused, Pending, Error or Unknown. */
  state: string;
  stateMessage: string;
};

/** The envelope of every answer. */
type Answer = { data?: unknown; error?: { message?: string } };

/** Milliseconds until a request is given up. */
const TIMEOUT = 10000;

/** Kubeflow's web applications want this cookie sent back in a header, where they have set it. */
const XSRF_COOKIE = 'XSRF-TOKEN';
const XSRF_HEADER = 'X-XSRF-TOKEN';

export class WorkspacesBackend {
  constructor(
    readonly place: Place,
    private readonly _trans: TranslationBundle,
    private readonly _fetch: typeof fetch = (input, init) => fetch(input, init)
  ) {}

  /**
   * The workspace; null if there is none of this name. Rejects with a `GkewsError`: `forbidden`
   * (its status 401: the session has ended), `cluster_unreachable`, `internal`.
   */
  async read(): Promise<Listed | null> {
    const { namespace, name } = this.place;
    const listed = await this._request('GET', [namespace]);
    if (!Array.isArray(listed)) {
      throw this._unexpected(200);
    }
    return (listed as Listed[]).find(one => one.name === name) ?? null;
  }

  /** Pause or start it. Resolves with false if it was not in a state for that: another was first. */
  async setPaused(paused: boolean): Promise<boolean> {
    const { namespace, name } = this.place;
    try {
      await this._request('POST', [namespace, name, 'actions', 'pause'], {
        data: { paused }
      });
      return true;
    } catch (error) {
      if (error instanceof GkewsError && error.status === 409) {
        return false;
      }
      throw error;
    }
  }

  private async _request(
    method: string,
    path: string[],
    body?: unknown
  ): Promise<unknown> {
    const url = [this.place.api, 'workspaces', ...path.map(encodeURIComponent)];
    const headers: Record<string, string> = { Accept: 'application/json' };
    if (body !== undefined) {
      headers['Content-Type'] = 'application/json';
      const token = cookie(XSRF_COOKIE);
      if (token) {
        headers[XSRF_HEADER] = token;
      }
    }
    let response: Response;
    let text: string;
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), TIMEOUT);
    try {
      response = await this._fetch(url.join('/'), {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body),
        credentials: 'same-origin',
        cache: 'no-store',
        // A way to sign in is no answer, and a script cannot follow it.
        redirect: 'manual',
        signal: abort.signal
      });
      text = await response.text();
    } catch {
      throw this._unreachable(0);
    } finally {
      clearTimeout(timer);
    }
    const { status, type } = response;
    const moved = type === 'opaqueredirect' || (status >= 300 && status < 400);
    if (moved || status === 401) {
      throw this._signedOut();
    }
    let data: Answer | null = null;
    try {
      data = JSON.parse(text) as Answer;
    } catch {
      if (response.ok && /^\s*</.test(text)) {
        throw this._signedOut(); // the page to sign in at, in place of the answer
      }
    }
    if (response.ok && data && 'data' in data) {
      return data.data;
    }
    throw this._refusal(status, data?.error?.message ?? '');
  }

  private _refusal(status: number, said: string): GkewsError {
    const trans = this._trans;
    if (status === 403) {
      return new GkewsError(
        {
          reason: 'forbidden',
          message: trans.__(
            'You may not do this with the workspace, says the Workspaces backend.'
          ),
          hint: trans.__(
            'Ask who gave you the workspace, or use the Workspaces page.'
          )
        },
        status
      );
    }
    if (status === 409) {
      return new GkewsError(
        {
          reason: 'operation_running',
          message: said,
          hint: ''
        },
        status
      );
    }
    if (status >= 502 && status <= 504) {
      return this._unreachable(status);
    }
    return this._unexpected(status);
  }

  private _unreachable(status: number): GkewsError {
    return new GkewsError(
      {
        reason: 'cluster_unreachable',
        message: this._trans.__('The Workspaces backend cannot be reached.'),
        hint: this._trans.__(
          'It is asked again. The workspace itself is not touched by that.'
        )
      },
      status
    );
  }

  private _unexpected(status: number): GkewsError {
    return new GkewsError(
      {
        reason: 'internal',
        message: this._trans.__(
          'The Workspaces backend answered in a way that is not understood (%1).',
          status
        ),
        hint: this._trans.__(
          'Use the Workspaces page of the cluster. If its API has another address, set it in the settings, Pause and Resume.'
        )
      },
      status
    );
  }

  private _signedOut(): GkewsError {
    return new GkewsError(
      {
        reason: 'forbidden',
        message: this._trans.__('Your session at the cluster has ended.'),
        hint: this._trans.__(
          'Sign in in another tab; this page goes on by itself. What is unsaved here stays here.'
        )
      },
      401
    );
  }
}

/** Whether an error means that the user has to sign in again. */
export function isSignedOut(error: unknown): boolean {
  return error instanceof GkewsError && error.status === 401;
}

function cookie(name: string): string | null {
  for (const part of document.cookie.split(';')) {
    const [key, ...value] = part.trim().split('=');
    if (key === name) {
      return decodeURIComponent(value.join('='));
    }
  }
  return null;
}

/**
 * The words that the parts about the workspace share: what the server says of the pod it lives in,
 * and the interface of the workspace in the page. Holds no code that runs.
 */

import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import type {
  GkewsProblem,
  PauseWhen,
  Progress,
  Provenance,
  State
} from '../tokens';

/** A kernel within the pause of a workspace. */
export type WorkspaceKernel = {
  kernel: string;
  path: string | null;
  name: string;
  state: 'waiting' | 'checkpointing' | 'written' | 'paused' | 'none';
  operation: string | null;
  checkpoint: string | null;
  /** Why it has no checkpoint. */
  why_not: GkewsProblem | null;
};

/** A pause of the whole workspace, as the server follows it. */
export type WorkspaceOperation = Progress & {
  kernel: null;
  /** What happens just now, in the platform's words. */
  message: string | null;
  kernels: WorkspaceKernel[];
};

/** The pod that the server lives in, as far as the server knows it; `none` where it is in none. */
export type WorkspaceStatus = {
  state: State | 'none' | 'unknown';
  phase: string | null;
  since: string | null;
  provenance: Provenance | null;
  reason: string | null;
  message: string;
  hint: string;
  namespace: string | null;
  name: string | null;
  node: string | null;
  operation: WorkspaceOperation | null;
  last_operation: WorkspaceOperation | null;
  pausable: boolean;
  why_not: GkewsProblem | null;
  /** Whether a pause now would lose the memory, or this one does; null: not known. */
  stateless: boolean | null;
  /** What a pause would meet. `passed` null: not known. */
  checks: {
    id: string;
    passed: boolean | null;
    message: string;
    costs: 'refused' | 'memory' | 'risk';
    hint: string;
  }[];
  allowed: { id: string; allowed: boolean; without: string }[];
  snapshot: {
    name: string;
    ready: boolean | null;
    created: string | null;
    keeps_until: string | null;
  } | null;
};

/** How to pause the workspace; what is left out is as the server does it. */
export type WorkspacePauseHow = {
  when?: PauseWhen;
  /** Also if the memory would be lost. */
  stateless?: boolean;
  /** Also if kernels have no checkpoint. */
  withoutCheckpoint?: boolean;
};

/** A kernel of a pause whose memory did not come back. */
export type RecoveredKernel = {
  kernel: string;
  path: string | null;
  checkpoint: string | null;
  /** `lost`: it is not listed, `why` says why not. */
  state: 'waiting' | 'recovering' | 'recovered' | 'failed' | 'lost';
  why: string;
  /** When the checkpoint was written, if that was before the pause, which others had asked for. */
  taken?: string | null;
};

/** After a start without the memory of a pause: what became of the kernels. */
export type Recovery = {
  /** The id of the pause. */
  pause: string;
  paused: string;
  started: string;
  way: 'ask' | 'automatic' | 'never';
  provenance: Provenance;
  message: string;
  kernels: RecoveredKernel[];
};

/** A return of the server with all its kernels, from a snapshot. */
export type WakeUp = {
  paused: string;
  woke: string;
  away_s: number;
  /** Files that pages had open, and that were changed meanwhile. */
  changed_files: string[];
  /** By kernel, the on_resume functions that have failed, each with what it raised. */
  hooks_failed: Record<string, Record<string, string>>;
  /** What could not be put right, by step, each a sentence. */
  trouble: Record<string, string>;
};

/** What is so with the workspace, as the page knows it from server and backend together. */
export type WorkspaceFace = {
  phase:
    | 'none'
    | 'here'
    | 'pausing'
    | 'paused'
    | 'waiting'
    | 'restoring'
    | 'failed'
    | 'away'
    | 'gone'
    | 'ready';
  /** Since when, in milliseconds since the epoch; null where that is not known. */
  since: number | null;
  /** The platform's words; empty if it has said nothing. */
  why: string;
  /** Whether the server answers. */
  served: boolean;
  /** Whether this page can ask for the start now. */
  canResume: boolean;
  /** The pause that the server follows. */
  operation: WorkspaceOperation | null;
  /** Whether the memory is lost by the pause under way; null: not known. */
  stateless: boolean | null;
  /** Whether the pause that was followed has left no kernel without a checkpoint. */
  checkpointed: boolean;
  /** After it has come back: what became of the memory. */
  provenance: Provenance | null;
  /** After it has come back without its memory: what became of its kernels. */
  recovery: Recovery | null;
  /** Whether the server answers, but with an error of its own, which is `problem`. */
  answers: boolean;
  /** Why the backend cannot be asked, or what the server answers. */
  problem: GkewsProblem | null;
  /** Whether the backend cannot be asked for want of a session, so that the user has to sign in again. */
  signedOut: boolean;
};

/** The workspace in this page: what is so, and what can be asked for. */
export interface IWorkspaceTab extends IDisposable {
  /** Emitted after anything below has changed. */
  readonly changed: ISignal<IWorkspaceTab, void>;
  /** Emitted when the server answers again after it was away. */
  readonly cameBack: ISignal<IWorkspaceTab, void>;
  /** Emitted when a pause that this page has asked for has failed. */
  readonly failed: ISignal<IWorkspaceTab, WorkspaceOperation>;
  readonly face: WorkspaceFace;
  /** What it is called; empty if there is none. */
  readonly name: string;
  /** What the server said last; null if it has never said anything of a workspace. */
  readonly status: WorkspaceStatus | null;
  /** Whether this page can ask the backend. */
  readonly hasBackend: boolean;

  /** Where the backend answers, as the user has set it; empty: found by the page's address. */
  configure(api: string): void;
  /** Look now, as a click or a page that becomes visible does. Never rejects. */
  look(): Promise<void>;
  /** Judge anew what a pause would meet. Rejects with a `GkewsError`. */
  judge(): Promise<WorkspaceStatus>;
  /** Rejects with a `GkewsError` if the server refuses. */
  pause(how?: WorkspacePauseHow): Promise<WorkspaceOperation>;
  /**
   * Ask the backend for the pause, as the user, if it runs; false if another was first. No
   * checkpoint is written for it. Rejects with a `GkewsError`.
   */
  pauseAsUser(): Promise<boolean>;
  cancel(): Promise<void>;
  /**
   * Ask for the start if it is paused, once; who comes too late only sees. Rejects with a
   * `GkewsError` if the backend refuses or cannot be asked.
   */
  resume(): Promise<void>;
  /** The user has seen that it is back. */
  dismiss(): void;
}

export const IWorkspaceTab = new Token<IWorkspaceTab>(
  'jupyter_gkews:IWorkspaceTab',
  'The workspace that the page belongs to, also while its server is away.'
);

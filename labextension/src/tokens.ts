/**
 * The words that all parts of the frontend share: what the server answers (DESIGN's shapes), the
 * interface of the model, the names of the commands. Holds no code that runs.
 *
 * Times are ISO 8601 UTC, sizes bytes, durations seconds, as on the wire.
 */

import { Token } from '@lumino/coreutils';
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';

import type { Recovery, WakeUp, WorkspaceStatus } from './workspaces/tokens';

/** The translation domain. */
export const DOMAIN = 'jupyter_gkews';

/** The id of the settings plugin, `schema/plugin.json`. */
export const SETTINGS_ID = 'jupyter_gkews:plugin';

export namespace CommandIDs {
  export const pause = 'gkews:pause';
  export const resume = 'gkews:resume';
  export const checkpoint = 'gkews:checkpoint';
  export const survives = 'gkews:survives';
  export const openPanel = 'gkews:open-panel';
  export const restore = 'gkews:restore';
  export const pauseWorkspace = 'gkews:pause-workspace';
  export const resumeWorkspace = 'gkews:resume-workspace';
  export const resumeAll = 'gkews:resume-all';
  export const startFresh = 'gkews:start-fresh';
}

export type State = 'running' | 'pausing' | 'paused' | 'resuming';
export type Provenance = 'restored' | 'recovered' | 'fresh';
export type Fate = 'kept' | 'rebuilt' | 'lost';
export type OperationKind = 'pause' | 'resume' | 'checkpoint' | 'restore';

/** What happened, what is safe, and what to do. `reason` is one of a closed list. */
export type GkewsProblem = {
  reason: string;
  message: string;
  hint: string;
  /** Whether the server half itself has said it, and nothing that stands before or for it. */
  said?: true;
};

/** A variable that was not kept as it was. `cell` is the execution count that made it. */
export type NamedReason = {
  name: string;
  reason: string | null;
  cell: number | string | null;
};

/** How a checkpoint was proved before it counted. */
export type Proved = {
  how: 'scratch' | 'read-back' | 'off';
  /** Why it came to less than a test load of its own; null if it did not. */
  why: string | null;
  /** The checkpoint whose test load it was. */
  by: string | null;
  when: string | null;
  /** Names of which not all objects were compared. */
  partly: string[];
};

export type OperationResult = {
  provenance: Provenance | null;
  checkpoint: string | null;
  kept: number;
  rebuilt: number;
  rebuilt_details: NamedReason[];
  lost: NamedReason[];
  seconds: Record<string, number>;
  released: { ram?: number; vram?: number };
  bytes_written: number;
  /** Null where nothing was written, or by a kernel that does not say. */
  proved?: Proved | null;
  /** Weights that stand in files to which the checkpoint refers. */
  bytes_referenced?: number;
  /** `checkpoint` only: seconds for which the kernel was blocked for it. */
  blocked_s?: number | null;
  /** Why a checkpoint blocked until its end, why no snapshot was taken: the server's words. */
  note?: string | null;
  /** `pause` only: the process snapshot that was taken. */
  snapshot?: string | null;
  /** `restore` only: the checkpoint of what the kernel held before. */
  saved_before: string | null;
};

export type Operation = {
  id: string;
  kind: OperationKind;
  kernel: string;
  phase: string;
  step: string | null;
  bytes_done: number;
  bytes_total: number;
  eta_s: number | null;
  started: string;
  finished: string | null;
  cancellable: boolean;
  result: OperationResult | null;
  error: GkewsProblem | null;
};

/** How far an operation is, whatever it is about. */
export type Progress = Omit<Operation, 'kernel'>;

export type KernelStatus = {
  id: string;
  name: string;
  display_name: string;
  language: string;
  path: string | null;
  state: State;
  since: string;
  provenance: Provenance | null;
  /** Why the last operation failed; null if it did not. */
  reason: string | null;
  message: string;
  hint: string;
  /** The one that runs now. */
  operation: Operation | null;
  /** The last one that ended. */
  last_operation: Operation | null;
  /** The id of the checkpoint that a resume would load. */
  checkpoint: string | null;
  /** The engine that can freeze its process; null for an ordinary kernel. */
  engine?: string | null;
  /** The process snapshot of a paused kernel, from which a resume brings the same process back. */
  snapshot?: string | null;
  pausable: boolean;
  why_not: GkewsProblem | null;
  auto_resume: boolean;
  execution_state: string;
  /** Resident bytes of the process; null where unknown or paused. */
  ram: number | null;
};

export type Status = {
  version: string;
  /** Null if the server did not start so. */
  recovery?: Recovery | null;
  /** The last time that this very server came back from a snapshot; null: never. */
  woke?: WakeUp | null;
  /** Left out by servers of earlier versions, and there with `state` alone. */
  workspace?: Partial<WorkspaceStatus>;
  kernels: KernelStatus[];
  store: { path: string; free: number | null };
};

export type Variable = {
  name: string;
  type: string;
  bytes: number | null;
  device: string | null;
  fate: Fate;
  reason: string | null;
  cell: number | string | null;
};

export type ProcessRow = {
  what: string;
  fate: Fate;
  reason: string | null;
};

export type Survives = {
  kernel: string;
  variables: Variable[];
  process: ProcessRow[];
  bytes: {
    kept: number | null;
    to_write: number | null;
    already_stored: number | null;
    /** Weights that stand in files to which the checkpoint refers. */
    referenced?: number;
  };
  /** Whether the kernel could not be asked now, so that this is the table of `as_of`. */
  stale: boolean;
  as_of: string;
  /** What a process snapshot has besides; null for a kernel that no engine can freeze. */
  snapshot?: Outlook | null;
};

/** What a process holds that goes on after a restore, and that a checkpoint cannot carry. */
export type Holds = {
  pid?: number;
  python?: string;
  threads?: string[];
  generators?: string[];
  children?: string[];
  files?: string[];
};

/** A process snapshot foreseen. */
export type Outlook = {
  engine: string;
  /** What a restored process has that a recovered one has not, in the engine's words. */
  keeps: string[];
  /** Null, as the other two, where the kernel could not be asked. */
  holds: Holds | null;
  estimate: {
    image_bytes: number;
    seconds: number;
    restore_seconds: number;
  } | null;
  /** What stands in the way; empty if nothing does. */
  objections: { what: string; reason: string; hint: string }[] | null;
  /** Of a paused kernel, the snapshot that was taken. */
  taken: string | null;
};

/** The image of a process on disk, listed beside the checkpoint that could be loaded instead. */
export type Snapshot = {
  id: string;
  engine: string;
  kernel: string;
  /** Of the same pause or, `in_cell`, the last one before it; null if there is none. */
  checkpoint: string | null;
  created: string;
  bytes: number;
  environment: { runsc?: string; machine?: string; python?: string };
  holds: Holds;
  notebook: string | null;
  /** Taken in the middle of a cell: the checkpoint is of an earlier state. */
  in_cell?: boolean;
  /** Whether a paused kernel would be resumed from it. */
  in_use: boolean;
  /** Why nobody needs it; null if somebody does, or may. */
  unneeded: string | null;
  /** Why it could not be restored here now. */
  problem: GkewsProblem | null;
};

export type Checkpoint = {
  id: string;
  name: string | null;
  created: string | null;
  kernel: { id: string | null; name: string | null } | null;
  notebook: string | null;
  counts: { kept: number; rebuilt: number; lost: number } | null;
  lost: NamedReason[];
  bytes: { total: number; written: number; referenced?: number } | null;
  /** The files of weights to which it refers, with what is wrong with each now. */
  files?: { path: string; problem: string | null }[];
  /** Why it cannot be read; such a one cannot be restored. */
  error: GkewsProblem | null;
  in_use: boolean;
  why_in_use?: string | null;
  /** Null in checkpoints of older versions. */
  proved?: Proved | null;
};

/** How many bytes the checkpoint store holds. */
export type StoreUse = { bytes: number; checkpoints: number; unused: number };

/** What was removed from the store, or would be. */
export type Collected = {
  bytes_freed: number;
  checkpoints: { id: string }[];
  snapshots?: { count: number; bytes: number };
  /** Why something that may be unused was left. */
  stays: string | null;
};

/** Something that is not as it was where a checkpoint was made, and what that may break. */
export type Difference = {
  what: string;
  made: string | null;
  here: string | null;
  means: string;
  severity: 'loses' | 'may_lose' | 'note';
};

/** When a pause may begin: at the next idle moment, after one interrupt, or only if idle now. */
export type PauseWhen = 'idle' | 'interrupt' | 'now';

/** How to resume; what is left out is as the server does it. */
export type ResumeHow = {
  /** Also without files of weights that are gone or were changed. */
  acceptMissing?: boolean;
  /** False loads the checkpoint although there is a snapshot. */
  snapshot?: boolean;
};

/** What the surfaces know of the settings; `model.ts` passes `resumeOnRun` on to the server. */
export interface ISettings {
  readonly resumeOnRun: boolean;
  readonly skipDialogWhenNothingLost: boolean;
  readonly notifications: boolean;
}

/** All state of the frontend. Widgets draw it, commands ask it; nobody else talks to the server. */
export interface IGkewsModel extends IDisposable {
  /** Emitted after anything below has changed. */
  readonly changed: ISignal<IGkewsModel, void>;
  /** Emitted when an operation is seen for the first time, and when it has ended. */
  readonly operationChanged: ISignal<IGkewsModel, Operation>;

  /** What the server said last; null until it has answered once. */
  readonly status: Status | null;
  /** Why the server cannot be asked; null while it answers. */
  readonly problem: GkewsProblem | null;
  readonly checkpoints: Checkpoint[];
  readonly snapshots: Snapshot[];
  /** Read with the checkpoints; null until then. */
  readonly store: StoreUse | null;

  /** The kernel with this id, as the server saw it last. */
  kernel(id: string | null | undefined): KernelStatus | null;
  /** The running or else the last operation of a kernel. */
  operation(kernelId: string): Operation | null;
  /** The last "what survives" table of a kernel. */
  survives(kernelId: string): Survives | null;
  /** Why the table could not be had. */
  survivesProblem(kernelId: string): GkewsProblem | null;
  /** Whether a table is being asked for. */
  survivesPending(kernelId: string): boolean;

  /** Read the status again; concurrent calls share one request. Never rejects. */
  refresh(): Promise<void>;
  /** Ask for the table. Rejects with a `GkewsError`. */
  loadSurvives(kernelId: string): Promise<Survives>;
  /** Ask for the lists of checkpoints and snapshots. Never rejects. */
  loadCheckpoints(): Promise<void>;

  /* Each of these starts an operation and resolves with it while it runs; all reject with a
   * `GkewsError` when the server refuses. */
  pause(kernelId: string, when?: PauseWhen): Promise<Operation>;
  resume(kernelId: string, how?: ResumeHow): Promise<Operation>;
  takeCheckpoint(kernelId: string): Promise<Operation>;
  /** Load a checkpoint into a kernel, or into a new kernel of its notebook where null. */
  restore(
    checkpointId: string,
    kernelId: string | null,
    acceptMissing?: boolean
  ): Promise<Operation>;

  cancel(operation: Operation): Promise<void>;
  deleteCheckpoint(checkpointId: string): Promise<void>;
  /** Delete a snapshot; the kernel that has it is resumed from its checkpoint from then on. */
  deleteSnapshot(snapshotId: string): Promise<void>;
  /** What may break if the checkpoint is loaded into this kernel, null for a new one. */
  differences(
    checkpointId: string,
    kernelId: string | null
  ): Promise<Difference[]>;
  /** Remove what the store does not need, with `olderThanDays` also old checkpoints. */
  collect(olderThanDays: number | null, dryRun: boolean): Promise<Collected>;
  /** Let the server resume, or not, when a cell is run in a paused notebook. */
  setResumeOnRun(value: boolean): void;
}

export const IGkewsModel = new Token<IGkewsModel>(
  'jupyter_gkews:IGkewsModel',
  'The state of paused and running kernels, and what can be done with them.'
);

/** Which notebook the user looks at. */
export interface ICurrentNotebook {
  readonly changed: ISignal<ICurrentNotebook, void>;
  /** Emitted after a cell of it was run. */
  readonly executed: ISignal<ICurrentNotebook, void>;
  /** The path of the current notebook; null if none is open. */
  readonly path: string | null;
  readonly kernelId: string | null;
}

export const ICurrentNotebook = new Token<ICurrentNotebook>(
  'jupyter_gkews:ICurrentNotebook',
  'The notebook that the user looks at, and its kernel.'
);

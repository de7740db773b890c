/**
 * The workspace in this page: follows it by the server while that answers, and by the Workspaces
 * backend while it does not, and asks for pause and resume. No DOM here. Asks for a start only
 * when a click says so and the backend has just said that it is paused.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { GkewsApi } from '../api';
import { toProblem } from '../api';
import type { IGkewsModel } from '../tokens';
import type {
  IWorkspaceTab,
  WorkspaceFace,
  WorkspaceOperation,
  WorkspacePauseHow,
  WorkspaceStatus
} from './tokens';
import { Absence } from './absence';
import { shortened } from './away';
import { isSignedOut, WorkspacesBackend } from './backend';
import type { Pace } from './pace';
import { PACE } from './pace';
import { placeOf } from './place';
import type { Lives } from './served';
import { livesOf, provenanceOf, recoveryOf, whole } from './served';

export class WorkspaceTab implements IWorkspaceTab {
  constructor(private readonly _options: WorkspaceTab.IOptions) {
    this._pace = { ...PACE, ..._options.pace };
    this.configure('');
    _options.model.changed.connect(this._onModel, this);
    this._onModel();
  }

  get changed(): ISignal<IWorkspaceTab, void> {
    return this._changed;
  }

  get cameBack(): ISignal<IWorkspaceTab, void> {
    return this._cameBack;
  }

  get failed(): ISignal<IWorkspaceTab, WorkspaceOperation> {
    return this._failed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get hasBackend(): boolean {
    return this._backend !== null;
  }

  get name(): string {
    return this._status?.name ?? this._backend?.place.name ?? '';
  }

  get status(): WorkspaceStatus | null {
    return this._status;
  }

  get face(): WorkspaceFace {
    const { model } = this._options;
    const status = this._status;
    const absence = this._absence;
    const served = absence === null;
    const phase = this._phase();
    const ready = phase === 'ready';
    const answers = phase === 'away' && !!model.problem?.said;
    const pausing = status?.operation ?? null;
    const operation = served ? pausing : null;
    // What was foreseen of a pause counts for one that the server has carried out, and for no other.
    const isFollowed = !!pausing || status?.state === 'pausing';
    return {
      phase,
      since: this._since(phase),
      why: served
        ? (operation?.message ?? '')
        : shortened(absence?.listed?.stateMessage ?? ''),
      served,
      canResume: !served && phase === 'paused' && !this._asking,
      operation,
      stateless: isFollowed ? (status?.stateless ?? null) : null,
      checkpointed: !!pausing?.kernels.every(({ why_not }) => !why_not),
      provenance: ready ? provenanceOf(model.status, this._before) : null,
      recovery: ready ? recoveryOf(model.status, this._before) : null,
      answers,
      problem: served
        ? null
        : absence.error
          ? toProblem(absence.error)
          : answers
            ? model.problem
            : null,
      signedOut: !served && isSignedOut(absence.error)
    };
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._options.model.changed.disconnect(this._onModel, this);
    clearTimeout(this._timer);
    clearTimeout(this._told);
    Signal.clearData(this);
  }

  configure(api: string): void {
    const { baseUrl, trans, fetch } = this._options;
    const place = placeOf(baseUrl, api);
    if (place?.api !== this._backend?.place.api) {
      this._backend = place && new WorkspacesBackend(place, trans, fetch);
      this._changed.emit();
    }
  }

  look(): Promise<void> {
    this._looking ??= this._look().finally(() => {
      this._looking = null;
      this._schedule();
    });
    return this._looking;
  }

  async judge(): Promise<WorkspaceStatus> {
    this._status = whole(await this._options.api.workspace());
    this._changed.emit();
    return this._status;
  }

  async pause(how: WorkspacePauseHow = {}): Promise<WorkspaceOperation> {
    const operation = await this._options.api.pauseWorkspace(how);
    this._ours = operation.id;
    await this._options.model.refresh();
    return operation;
  }

  async pauseAsUser(): Promise<boolean> {
    const backend = this._backend;
    const listed = backend && (await backend.read());
    if (!backend || !listed || listed.paused || listed.state !== 'Running') {
      return false;
    }
    const asked = await backend.setPaused(true);
    this._asUser = Date.now();
    this._changed.emit();
    this._schedule();
    return asked;
  }

  async cancel(): Promise<void> {
    const operation = this._status?.operation;
    if (operation) {
      await this._options.api.cancel(operation.id);
      await this._options.model.refresh();
    }
  }

  resume(): Promise<void> {
    this._asking ??= this._resume().finally(() => {
      this._asking = null;
      this._changed.emit();
      void this.look();
    });
    this._changed.emit();
    return this._asking;
  }

  dismiss(): void {
    const { model, told } = this._options;
    const { pause } = model.status?.recovery ?? {};
    if (pause) {
      told?.set(pause);
    }
    this._stopTelling();
    this._changed.emit();
  }

  private async _resume(): Promise<void> {
    const backend = this._backend;
    const absence = this._absence;
    if (!backend || !absence) {
      return;
    }
    // Another tab or the dashboard may have been first: look right before, ask once.
    absence.take(await backend.read());
    if (absence.phase !== 'paused' || absence !== this._absence) {
      return;
    }
    // A conflict says that somebody was first, between the look and this; whether a request without
    // an answer came through is seen by the next look.
    await backend.setPaused(false);
    absence.asked();
  }

  private async _look(): Promise<void> {
    const absence = this._absence;
    if (!absence || !this._backend) {
      await this._options.model.refresh();
      return;
    }
    if (absence.mayServe) {
      void this._options.model.refresh();
    }
    let there = true;
    try {
      const listed = await this._backend.read();
      absence.take(listed);
      absence.answered();
      there = listed?.state === 'Running';
    } catch (error) {
      absence.failed(error);
    }
    if (there && absence === this._absence) {
      // Not waited for: a server that is frozen answers late or never.
      void this._options.model.refresh();
    }
    this._changed.emit();
  }

  private _onModel(): void {
    const { model } = this._options;
    // In place of a pod that is not there a proxy may answer anything, a page to sign in at, too:
    // where the backend can be asked, it is.
    const away =
      model.problem?.reason === 'server_unreachable' ||
      (!!model.problem && this._backend !== null);
    if (model.status && !model.problem) {
      this._onServed(model.status.workspace ?? {});
    } else if (away && !this._absence && this._status) {
      this._absence = new Absence(
        this._status.state === 'pausing' ||
          this._ours !== null ||
          this._isAsUser(),
        this._pace
      );
      this._stopTelling();
      this._before = livesOf(model.status);
      if (this._backend) {
        void this.look();
      }
      this._changed.emit();
    }
  }

  private _onServed(said: Partial<WorkspaceStatus>): void {
    const { model, told } = this._options;
    const { pause } = model.status?.recovery ?? {};
    if (this._status === null && pause && told?.get() !== pause) {
      // The memory was lost before this page was opened.
      this._back = Date.now();
    }
    const back = this._absence !== null && this._phase() !== 'here';
    this._absence = null;
    this._status = whole(said);
    if (back) {
      this._asUser = 0;
      this._back = Date.now();
      this._cameBack.emit();
    }
    this._endTelling();
    const ended = this._status.last_operation;
    if (ended && ended.id === this._ours && ended.finished) {
      this._ours = null;
      if (ended.error) {
        this._failed.emit(ended);
      }
    }
    if (back && this._status.operation?.id !== this._ours) {
      this._ours = null; // a server that has started anew does not know it
    }
    this._schedule();
    this._changed.emit();
  }

  /** A return with everything is told for a while; what was lost stays told until it was seen. */
  private _endTelling(): void {
    if (
      this._back !== null &&
      this._told === undefined &&
      provenanceOf(this._options.model.status, this._before) === 'restored'
    ) {
      this._told = setTimeout(() => this.dismiss(), this._pace.told);
    }
  }

  private _stopTelling(): void {
    this._back = null;
    clearTimeout(this._told);
    this._told = undefined;
  }

  private _phase(): WorkspaceFace['phase'] {
    const status = this._status;
    if (!status) {
      return 'none';
    }
    const isNone = status.state === 'none' || status.state === 'unknown';
    const absence = this._absence;
    if (!absence) {
      if (status.state === 'pausing' || status.operation || this._isAsUser()) {
        return 'pausing';
      }
      if (this._back !== null) {
        return 'ready';
      }
      return isNone ? 'none' : 'here';
    }
    if (!this._backend) {
      // Nobody can be asked; what the server said last is what is known.
      return absence.isPausing ? 'pausing' : isNone ? 'none' : 'here';
    }
    return absence.phase;
  }

  private _since(phase: WorkspaceFace['phase']): number | null {
    switch (phase) {
      case 'none':
      case 'here':
        return null;
      case 'ready':
        return this._back;
      case 'pausing': {
        const { operation, state, since } = this._status ?? {};
        const began = Date.parse(
          operation?.started ?? ((state === 'pausing' && since) || '')
        );
        return Number.isNaN(began)
          ? (this._absence?.since ?? this._asUser) || null
          : began;
      }
      default:
        return this._absence?.since ?? null;
    }
  }

  /** For a while the server does not see yet what the user has asked for. */
  private _isAsUser(): boolean {
    return Date.now() - this._asUser < this._pace.asked;
  }

  private _schedule(): void {
    clearTimeout(this._timer);
    const delay = this._delay();
    if (delay !== null && !this._isDisposed) {
      this._timer = setTimeout(() => void this.look(), delay);
    }
  }

  /** Milliseconds until the next look; null where others tell. */
  private _delay(): number | null {
    if (!this._absence) {
      return this._phase() === 'pausing' ? this._pace.busy : null;
    }
    // Without a backend the model asks again by itself.
    return this._backend
      ? this._absence.delay(this._options.isVisible())
      : null;
  }

  private readonly _pace: Pace;
  private readonly _changed = new Signal<this, void>(this);
  private readonly _cameBack = new Signal<this, void>(this);
  private readonly _failed = new Signal<this, WorkspaceOperation>(this);
  private _backend: WorkspacesBackend | null = null;
  private _status: WorkspaceStatus | null = null;
  /** The time without the server that lasts now; null while it answers. */
  private _absence: Absence | null = null;
  /** When the user was last asked for in the server's place; 0: never. */
  private _asUser = 0;
  /** When it came back, until the user has seen it. */
  private _back: number | null = null;
  /** The pause that this page has asked for. */
  private _ours: string | null = null;
  /** Which life of the server this page knew before it went. */
  private _before: Lives = {};
  private _looking: Promise<void> | null = null;
  private _asking: Promise<void> | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _told: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}

export namespace WorkspaceTab {
  export interface IOptions {
    model: IGkewsModel;
    api: Pick<GkewsApi, 'workspace' | 'pauseWorkspace' | 'cancel'>;
    /** Below which the server answers, absolute. */
    baseUrl: string;
    trans: TranslationBundle;
    /** Whether the user looks at the page. */
    isVisible: () => boolean;
    /** Remembers of which pause the user has been told that its memory was lost. */
    told?: { get(): string | null; set(pause: string): void };
    fetch?: typeof fetch;
    pace?: Partial<Pace>;
  }
}

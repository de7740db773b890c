/**
 * The only place of the frontend that holds state: what the server said last about kernels,
 * operations, checkpoints and fates. It reads again when told to (events, reconnect, the page
 * becoming visible), follows running operations, and asks nothing while nothing happens.
 * No DOM here.
 */

import type { Event } from '@jupyterlab/services';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import { toProblem } from './api';
import type { GkewsApi } from './api';
import { progressOf, readEvent } from './events';
import { FateTables } from './fates';
import { Following } from './following';
import { Looks } from './looks';
import { ResumeOnRun } from './resumeOnRun';
import { Shelf } from './shelf';
import type {
  Checkpoint,
  Collected,
  Difference,
  GkewsProblem,
  IGkewsModel,
  KernelStatus,
  Operation,
  PauseWhen,
  ResumeHow,
  Snapshot,
  Status,
  StoreUse,
  Survives
} from './tokens';

export class GkewsModel implements IGkewsModel {
  constructor(options: GkewsModel.IOptions) {
    this._api = options.api;
    this._fates = new FateTables(options.api, () => this._emitChanged());
    this._shelf = new Shelf(
      options.api,
      () => this._emitChanged(),
      error => this._note(error)
    );
    this._resumeOnRun = new ResumeOnRun(options.api);
    this._stream = options.events?.stream ?? null;
    this._stream?.connect(this._onEvent, this);
    this._following = new Following(
      options.api,
      {
        seen: operation => {
          this._see(operation, true);
          this._emitChanged();
        },
        over: ({ kernel }, known) => {
          if (!known) {
            // The status says what became of the kernel.
            this._operations.delete(kernel);
          }
          void this.refresh();
        }
      },
      options.followInterval
    );
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get operationChanged(): ISignal<this, Operation> {
    return this._operationChanged;
  }

  get status(): Status | null {
    return this._status;
  }

  get problem(): GkewsProblem | null {
    return this._problem;
  }

  get checkpoints(): Checkpoint[] {
    return this._shelf.checkpoints;
  }

  get snapshots(): Snapshot[] {
    return this._shelf.snapshots;
  }

  get store(): StoreUse | null {
    return this._shelf.store;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._stream?.disconnect(this._onEvent, this);
    this._looks.dispose();
    this._following.dispose();
    Signal.clearData(this);
  }

  kernel(id: string | null | undefined): KernelStatus | null {
    return this._status?.kernels.find(kernel => kernel.id === id) ?? null;
  }

  operation(kernelId: string): Operation | null {
    return this._operations.get(kernelId) ?? null;
  }

  survives(kernelId: string): Survives | null {
    return this._fates.table(kernelId);
  }

  survivesProblem(kernelId: string): GkewsProblem | null {
    return this._fates.problem(kernelId);
  }

  survivesPending(kernelId: string): boolean {
    return this._fates.pending(kernelId);
  }

  refresh(): Promise<void> {
    if (this._refreshing) {
      // Whatever made us look again may be newer than the answer under way.
      this._refreshAgain = true;
      return this._refreshing;
    }
    this._refreshing = this._readStatus().finally(() => {
      this._refreshing = null;
    });
    return this._refreshing;
  }

  loadSurvives(kernelId: string): Promise<Survives> {
    return this._fates.load(kernelId);
  }

  loadCheckpoints(): Promise<void> {
    return this._shelf.load();
  }

  pause(kernelId: string, when: PauseWhen = 'idle'): Promise<Operation> {
    return this._start(this._api.pause(kernelId, when));
  }

  resume(kernelId: string, how: ResumeHow = {}): Promise<Operation> {
    return this._start(this._api.resume(kernelId, how));
  }

  takeCheckpoint(kernelId: string): Promise<Operation> {
    return this._start(this._api.checkpoint(kernelId));
  }

  restore(
    checkpointId: string,
    kernelId: string | null,
    acceptMissing = false
  ): Promise<Operation> {
    return this._start(
      this._api.restore(checkpointId, kernelId, acceptMissing)
    );
  }

  async cancel(operation: Operation): Promise<void> {
    await this._api.cancel(operation.id);
    await this.refresh();
  }

  deleteCheckpoint(checkpointId: string): Promise<void> {
    return this._shelf.deleteCheckpoint(checkpointId);
  }

  async deleteSnapshot(snapshotId: string): Promise<void> {
    await this._shelf.deleteSnapshot(snapshotId);
    await this.refresh();
  }

  differences(
    checkpointId: string,
    kernelId: string | null
  ): Promise<Difference[]> {
    return this._api.differences(checkpointId, kernelId);
  }

  collect(olderThanDays: number | null, dryRun: boolean): Promise<Collected> {
    return this._shelf.collect(olderThanDays, dryRun);
  }

  setResumeOnRun(value: boolean): void {
    this._resumeOnRun.set(value, this._status?.kernels ?? []);
  }

  private async _readStatus(): Promise<void> {
    do {
      this._refreshAgain = false;
      let status: Status;
      try {
        status = await this._api.status();
      } catch (error) {
        this._note(error);
        return;
      }
      if (this._isDisposed) {
        return;
      }
      this._take(status);
    } while (this._refreshAgain);
  }

  private _take(status: Status): void {
    const before = this._status;
    const wasAway = this._problem?.reason === 'server_unreachable';
    this._status = status;
    this._problem = null;
    this._looks.answered(wasAway);
    this._operations.forEach(operation => this._following.hurry(operation));
    for (const kernel of status.kernels) {
      const operation = kernel.operation ?? kernel.last_operation;
      const known = before?.kernels.some(({ id }) => id === kernel.id);
      if (operation) {
        this._see(operation, !!known);
      }
    }
    const ids = new Set(status.kernels.map(({ id }) => id));
    for (const id of [...this._operations.keys()]) {
      const operation = this._operations.get(id);
      // A restore into a new kernel is known before its kernel is listed.
      if (!ids.has(id) && operation?.finished) {
        this._operations.delete(id);
        this._fates.forget(id);
      }
    }
    this._looks.awaitStarting(status.kernels);
    this._resumeOnRun.send(status.kernels);
    this._shelf.expect(status.kernels.map(({ snapshot }) => snapshot));
    this._emitChanged();
  }

  /** Take note of an operation; `news` is false for one that ended before we looked. */
  private _see(operation: Operation, news: boolean): void {
    const before = this._operations.get(operation.kernel);
    const same = before?.id === operation.id;
    if (before && !same && operation.started < before.started) {
      return; // the one before: its last answer came late
    }
    if (same && before.finished && !operation.finished) {
      return; // an older answer that came late
    }
    this._operations.set(operation.kernel, operation);
    if (!operation.finished) {
      if (!same) {
        this._operationChanged.emit(operation);
      }
      this._following.begin(operation);
      return;
    }
    if (same && before.finished) {
      return;
    }
    // What the kernel holds has changed: a resume made it, a pause froze it.
    this._fates.forget(operation.kernel);
    if (same || news) {
      this._operationChanged.emit(operation);
      void this.loadCheckpoints();
    }
  }

  private async _start(request: Promise<Operation>): Promise<Operation> {
    let operation: Operation;
    try {
      operation = await request;
    } catch (error) {
      // A refusal often means that another tab was first: show what is true now.
      void this.refresh();
      throw error;
    }
    this._see(operation, true);
    this._emitChanged();
    void this.refresh();
    return operation;
  }

  private _onEvent(_: Event.IManager, event: Event.Emission): void {
    const news = readEvent(event);
    if (!news) {
      return;
    }
    if (news.action === 'checkpoints') {
      void this.loadCheckpoints();
      return;
    }
    const before = news.kernel ? this._operations.get(news.kernel) : undefined;
    const moved = before && progressOf(news, before);
    if (moved) {
      this._see(moved, true);
      this._emitChanged();
    } else {
      void this.refresh();
    }
  }

  /** Keep a failure for the surfaces, and ask again later if nobody answered. */
  private _note(error: unknown): void {
    if (this._isDisposed) {
      return;
    }
    this._problem = toProblem(error);
    if (this._problem.reason === 'server_unreachable') {
      this._looks.retry();
    }
    this._emitChanged();
  }

  private _emitChanged(): void {
    if (!this._isDisposed) {
      this._changed.emit();
    }
  }

  private readonly _api: GkewsApi;
  private readonly _stream: Event.Stream | null;
  private readonly _following: Following;
  private readonly _operations = new Map<string, Operation>();
  private readonly _fates: FateTables;
  private readonly _shelf: Shelf;
  private readonly _resumeOnRun: ResumeOnRun;
  private readonly _looks = new Looks(() => void this.refresh());
  private readonly _changed = new Signal<this, void>(this);
  private readonly _operationChanged = new Signal<this, Operation>(this);
  private _status: Status | null = null;
  private _problem: GkewsProblem | null = null;
  private _refreshing: Promise<void> | null = null;
  private _refreshAgain = false;
  private _isDisposed = false;
}

export namespace GkewsModel {
  export interface IOptions {
    api: GkewsApi;
    /** The server's event bus; without it, only `refresh` brings news. */
    events?: Pick<Event.IManager, 'stream'>;
    /** Milliseconds between two looks at a running operation. */
    followInterval?: number;
  }
}

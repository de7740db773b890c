/**
 * Part of the model's state: what lies in the store, checkpoints and process snapshots, as the
 * server listed it last. Deletes what it is told to, and reads again after that.
 */

import type { GkewsApi } from './api';
import type { Checkpoint, Collected, Snapshot, StoreUse } from './tokens';

export class Shelf {
  /** `changed` is called when something was read, `failed` when the list could not be. */
  constructor(
    private readonly _api: GkewsApi,
    private readonly _changed: () => void,
    private readonly _failed: (error: unknown) => void
  ) {}

  get checkpoints(): Checkpoint[] {
    return this._checkpoints;
  }

  get snapshots(): Snapshot[] {
    return this._snapshots;
  }

  get store(): StoreUse | null {
    return this._store;
  }

  async load(): Promise<void> {
    const turn = ++this._turn;
    try {
      // What cannot be read now stays as it was; a server of an earlier version never tells it.
      const [checkpoints, snapshots, store] = await Promise.all([
        this._api.checkpoints(),
        this._api.snapshots().catch(() => null),
        this._api.store().catch(() => null)
      ]);
      if (turn !== this._turn) {
        return; // what was asked later is newer, whichever comes first
      }
      if (snapshots === null) {
        this._expected.clear();
      }
      this._checkpoints = checkpoints;
      this._snapshots = snapshots ?? this._snapshots;
      this._store = store ?? this._store;
      this._changed();
    } catch (error) {
      if (turn === this._turn) {
        this._expected.clear();
        this._failed(error);
      }
    }
  }

  /**
   * Read again if a kernel has a snapshot that was not listed yet; asks once for each, and again if
   * the list could not be had.
   */
  expect(snapshots: (string | null | undefined)[]): void {
    const unknown = snapshots.filter(
      id => id && !this._expected.has(id) && !this._has(id)
    );
    if (unknown.length > 0) {
      unknown.forEach(id => this._expected.add(id!));
      void this.load();
    }
  }

  async deleteCheckpoint(id: string): Promise<void> {
    try {
      await this._api.deleteCheckpoint(id);
    } finally {
      // Also after a refusal: the list shown was older than the truth.
      await this.load();
    }
  }

  async deleteSnapshot(id: string): Promise<void> {
    try {
      await this._api.deleteSnapshot(id);
    } finally {
      await this.load();
    }
  }

  async collect(
    olderThanDays: number | null,
    dryRun: boolean
  ): Promise<Collected> {
    const seconds = olderThanDays === null ? null : olderThanDays * 86400;
    const done = await this._api.collect(seconds, dryRun);
    if (!dryRun) {
      await this.load();
    }
    return done;
  }

  private _has(id: string): boolean {
    return this._snapshots.some(snapshot => snapshot.id === id);
  }

  private _turn = 0;
  private readonly _expected = new Set<string>();
  private _checkpoints: Checkpoint[] = [];
  private _snapshots: Snapshot[] = [];
  private _store: StoreUse | null = null;
}

/**
 * Part of the model's state: the last "what survives" table of each kernel, or why there is none.
 * Two surfaces that want the same table share one request.
 */

import { toProblem } from './api';
import type { GkewsApi } from './api';
import type { GkewsProblem, Survives } from './tokens';

type Entry = {
  table: Survives | null;
  problem: GkewsProblem | null;
  pending: Promise<Survives> | null;
};

export class FateTables {
  /** `changed` is called when a request begins and when it has ended. */
  constructor(
    private readonly _api: GkewsApi,
    private readonly _changed: () => void
  ) {}

  table(kernelId: string): Survives | null {
    return this._entries.get(kernelId)?.table ?? null;
  }

  problem(kernelId: string): GkewsProblem | null {
    return this._entries.get(kernelId)?.problem ?? null;
  }

  pending(kernelId: string): boolean {
    return !!this._entries.get(kernelId)?.pending;
  }

  /** Drop what is known of a kernel that holds something else now. */
  forget(kernelId: string): void {
    const entry = this._entries.get(kernelId);
    if (entry?.pending) {
      // What is being asked for is newer than what is dropped.
      entry.table = entry.problem = null;
    } else {
      this._entries.delete(kernelId);
    }
  }

  /** Ask the kernel. Rejects with a `GkewsError`. */
  load(kernelId: string): Promise<Survives> {
    const entry: Entry = this._entries.get(kernelId) ?? {
      table: null,
      problem: null,
      pending: null
    };
    this._entries.set(kernelId, entry);
    if (!entry.pending) {
      entry.pending = this._request(kernelId, entry);
      this._changed();
    }
    return entry.pending;
  }

  private async _request(kernelId: string, entry: Entry): Promise<Survives> {
    try {
      entry.table = await this._api.survives(kernelId);
      entry.problem = null;
      return entry.table;
    } catch (error) {
      entry.problem = toProblem(error);
      throw error;
    } finally {
      entry.pending = null;
      this._changed();
    }
  }

  private readonly _entries = new Map<string, Entry>();
}

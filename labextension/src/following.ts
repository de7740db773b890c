/**
 * Part of the model: looks at operations that run until each has ended, less often while the server
 * does not answer. Holds no operation, and begins none.
 */

import { GkewsError } from './api';
import type { GkewsApi } from './api';
import type { Operation } from './tokens';

/** Milliseconds between two looks at a running operation; its events come oftener. */
const INTERVAL = 1000;

/** The longest, while nobody answers: a server may be away for the night. */
const LAST = 30000;

type Followed = { timer?: ReturnType<typeof setTimeout>; delay: number };

export class Following {
  constructor(
    private readonly _api: Pick<GkewsApi, 'operation'>,
    private readonly _told: {
      /** What it is now. */
      seen: (operation: Operation) => void;
      /** It has ended, or a server that was started anew has forgotten it. */
      over: (operation: Operation, known: boolean) => void;
    },
    private readonly _interval = INTERVAL
  ) {}

  dispose(): void {
    for (const id of [...this._followed.keys()]) {
      this._forget(id);
    }
    this._isDisposed = true;
  }

  /** Look at it until it has ended; nothing more for one that is followed already. */
  begin(operation: Operation): void {
    if (!this._followed.has(operation.id) && !this._isDisposed) {
      const followed = { delay: this._interval };
      this._followed.set(operation.id, followed);
      this._wait(operation, followed);
    }
  }

  /** The server is back: this one is looked at as often as before. */
  hurry(operation: Operation): void {
    const followed = this._followed.get(operation.id);
    if (followed && followed.delay > this._interval) {
      this._forget(operation.id);
      this.begin(operation);
    }
  }

  private _wait(operation: Operation, followed: Followed): void {
    followed.timer = setTimeout(
      () => void this._look(operation, followed),
      followed.delay
    );
  }

  private async _look(before: Operation, followed: Followed): Promise<void> {
    let operation: Operation | null = null;
    let known = true;
    try {
      operation = await this._api.operation(before.id);
    } catch (error) {
      known = !(error instanceof GkewsError && error.status === 404);
    }
    if (this._followed.get(before.id) !== followed) {
      return; // followed anew since, or not any more
    }
    if (operation) {
      this._told.seen(operation);
    }
    if (!known || operation?.finished) {
      this._forget(before.id);
      this._told.over(operation ?? before, known);
      return;
    }
    followed.delay = operation
      ? this._interval
      : Math.min(2 * followed.delay, LAST);
    this._wait(operation ?? before, followed);
  }

  private _forget(id: string): void {
    clearTimeout(this._followed.get(id)?.timer);
    this._followed.delete(id);
  }

  private readonly _followed = new Map<string, Followed>();
  private _isDisposed = false;
}

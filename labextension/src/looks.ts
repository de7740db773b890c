/**
 * Part of the model: when the server is asked again without being told to. Only where nobody would
 * tell: it cannot be reached, it has just come back, or a kernel is starting.
 */

import type { KernelStatus } from './tokens';

type Timer = ReturnType<typeof setTimeout>;

/** Milliseconds until a starting kernel is looked at again, at first; it doubles. */
const STARTING_FIRST = 300;

/** Milliseconds between the looks at a server that has come back. */
const AFTER_RECONNECT = [1000, 4000, 15000];

/** Milliseconds until an unreachable server is asked again: at first, and at most. */
const RETRY_FIRST = 2000;
const RETRY_LAST = 30000;

export class Looks {
  constructor(private readonly _look: () => void) {}

  dispose(): void {
    clearTimeout(this._retry);
    clearTimeout(this._starting);
    clearTimeout(this._again);
  }

  /** The server has answered; `wasAway` if it could not be reached before. */
  answered(wasAway: boolean): void {
    this._retryDelay = RETRY_FIRST;
    if (wasAway) {
      // A new server may still be taking paused kernels over, and its event bus is not heard yet.
      this._lookAgain(AFTER_RECONNECT);
    }
  }

  /** Nobody answered: ask again later, and later each time. */
  retry(): void {
    clearTimeout(this._retry);
    this._retry = setTimeout(this._look, this._retryDelay);
    this._retryDelay = Math.min(2 * this._retryDelay, RETRY_LAST);
  }

  /** A kernel tells nobody when it has loaded our half: look again until none is starting. */
  awaitStarting(kernels: KernelStatus[]): void {
    clearTimeout(this._starting);
    const starting = kernels.some(
      ({ why_not }) => why_not?.reason === 'kernel_starting'
    );
    if (!starting) {
      this._startingDelay = STARTING_FIRST;
      return;
    }
    this._starting = setTimeout(this._look, this._startingDelay);
    this._startingDelay = Math.min(2 * this._startingDelay, RETRY_LAST);
  }

  private _lookAgain(delays: number[]): void {
    const [delay, ...later] = delays;
    clearTimeout(this._again);
    this._again = setTimeout(() => {
      this._look();
      if (later.length) {
        this._lookAgain(later);
      }
    }, delay);
  }

  private _retry: Timer | undefined;
  private _retryDelay = RETRY_FIRST;
  private _starting: Timer | undefined;
  private _startingDelay = STARTING_FIRST;
  private _again: Timer | undefined;
}

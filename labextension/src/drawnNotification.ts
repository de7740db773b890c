/**
 * A notification whose changes wait until JupyterLab has drawn it, as it loses those that come
 * before: it draws a second one for them, which is dropped as it has the id of the first.
 */

/** Milliseconds within which it is drawn, if it is at all: not while "do not disturb" is on. */
export const DRAWN_WITHIN = 1500;

/** Milliseconds between two looks. */
const LOOK_EVERY = 50;

export class DrawnNotification {
  constructor(readonly id: string) {}

  /** Change it, at once if it is drawn; what waits for that already is not done any more. */
  then(change: () => void): void {
    const waits = this._next !== null;
    this._next = change;
    if (!waits) {
      this._look();
    }
  }

  private _look(): void {
    // The id of a toast's element is that of its notification.
    if (!this._drawn) {
      this._drawn =
        !!document.getElementById(this.id) || Date.now() > this._until;
    }
    if (!this._drawn) {
      setTimeout(() => this._look(), LOOK_EVERY);
      return;
    }
    const change = this._next;
    this._next = null;
    change?.();
  }

  private readonly _until = Date.now() + DRAWN_WITHIN;
  private _drawn = false;
  private _next: (() => void) | null = null;
}

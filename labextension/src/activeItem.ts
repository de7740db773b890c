/**
 * What the items in the status bar have in common: one is only there while it has something to say,
 * and is drawn anew when it hears of news, or when an age that it shows has grown. Says nothing.
 */

import { ReactWidget } from '@jupyterlab/apputils';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

/** Milliseconds between two drawings of an age. */
const AGE_INTERVAL = 20000;

export abstract class ActiveItem extends ReactWidget {
  /** `news`: what it is drawn from has changed. */
  constructor(...news: ISignal<unknown, void>[]) {
    super();
    this.addClass('jp-gkews-StatusItem');
    this._news = news;
    news.forEach(signal => signal.connect(this._refresh, this));
    this._timer = setInterval(() => this.update(), AGE_INTERVAL);
  }

  /** Whether there is something to say. */
  abstract get isActive(): boolean;

  get activeChanged(): ISignal<this, void> {
    return this._activeChanged;
  }

  dispose(): void {
    if (!this.isDisposed) {
      clearInterval(this._timer);
      this._news.forEach(signal => signal.disconnect(this._refresh, this));
      Signal.clearData(this);
    }
    super.dispose();
  }

  private _refresh(): void {
    if (this.isActive !== this._wasActive) {
      this._wasActive = this.isActive;
      this._activeChanged.emit();
    }
    this.update();
  }

  private readonly _news: ISignal<unknown, void>[];
  private readonly _activeChanged = new Signal<this, void>(this);
  private readonly _timer: ReturnType<typeof setInterval>;
  private _wasActive = false;
}

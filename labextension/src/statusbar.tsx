/**
 * The item in the status bar: the state of the current notebook's kernel and the one number that
 * matters now. A click opens the panel. Draws the model; the minute timer only redraws the age.
 */

import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import React from 'react';

import { localTime } from './format';
import type { ICurrentNotebook, IGkewsModel } from './tokens';
import {
  percent,
  stateHint,
  stateLabel,
  stateSentence,
  statusLine,
  viewOf
} from './wording';

/** Milliseconds between two drawings of an age. */
const AGE_INTERVAL = 30000;

export class StatusItem extends ReactWidget {
  constructor(private readonly _options: StatusItem.IOptions) {
    super();
    this.addClass('jp-gkews-StatusItem');
    _options.current.changed.connect(this._refresh, this);
    this._timer = setInterval(() => this.update(), AGE_INTERVAL);
  }

  /** Whether there is a kernel to speak of. */
  get isActive(): boolean {
    const { model, current } = this._options;
    return viewOf(model, current.kernelId) !== null;
  }

  get activeChanged(): ISignal<this, void> {
    return this._activeChanged;
  }

  dispose(): void {
    if (!this.isDisposed) {
      clearInterval(this._timer);
      this._options.current.changed.disconnect(this._refresh, this);
      Signal.clearData(this);
    }
    super.dispose();
  }

  protected render(): JSX.Element | null {
    const { model, current, trans, open } = this._options;
    const view = viewOf(model, current.kernelId);
    if (!view) {
      return null;
    }
    const { kernel, active } = view;
    const label = stateLabel(view, trans);
    const share = active ? percent(active) : null;
    const since = trans.__(
      'Since %1 (%2).',
      localTime(kernel.since),
      kernel.since
    );
    const title = [stateSentence(view, trans), stateHint(view, trans), since]
      .filter(part => part)
      .join('\n');
    return (
      <>
        <button
          type="button"
          className={`jp-gkews-StatusItem-button jp-gkews-mod-${label.tone}`}
          title={title}
          onClick={open}
        >
          <label.icon.react tag="span" className="jp-gkews-Icon" />
          <span className="jp-gkews-StatusItem-text">
            {statusLine(view, trans)}
          </span>
          {share !== null && (
            <span className="jp-gkews-StatusItem-track" aria-hidden="true">
              <span style={{ width: `${share}%` }} />
            </span>
          )}
        </button>
        {/* Only the word is announced: numbers that run would never let the reader speak. */}
        <span className="jp-gkews-Hidden" role="status" aria-live="polite">
          {trans.__('Kernel: %1', label.word)}
        </span>
      </>
    );
  }

  private _refresh(): void {
    if (this.isActive !== this._wasActive) {
      this._wasActive = this.isActive;
      this._activeChanged.emit();
    }
    this.update();
  }

  private readonly _activeChanged = new Signal<this, void>(this);
  private readonly _timer: ReturnType<typeof setInterval>;
  private _wasActive = false;
}

export namespace StatusItem {
  export interface IOptions {
    model: IGkewsModel;
    current: ICurrentNotebook;
    trans: TranslationBundle;
    /** Opens the panel. */
    open: () => void;
  }
}

/**
 * The item of the workspace in the status bar, only while there is something to say of it. Draws
 * the tab's face.
 */

import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';
import React from 'react';

import type { IWorkspaceTab } from '../tokens';
import { workspaceLabel, workspaceLine, workspaceSentence } from './wording';

/** Milliseconds between two drawings of an age. */
const AGE_INTERVAL = 20000;

export class WorkspaceItem extends ReactWidget {
  constructor(private readonly _options: WorkspaceItem.IOptions) {
    super();
    this.addClass('jp-gkews-StatusItem');
    _options.tab.changed.connect(this._refresh, this);
    this._timer = setInterval(() => this.update(), AGE_INTERVAL);
  }

  get isActive(): boolean {
    return this._options.tab.face.phase !== 'none';
  }

  get activeChanged(): ISignal<this, void> {
    return this._activeChanged;
  }

  dispose(): void {
    if (!this.isDisposed) {
      clearInterval(this._timer);
      this._options.tab.changed.disconnect(this._refresh, this);
      Signal.clearData(this);
    }
    super.dispose();
  }

  protected render(): JSX.Element | null {
    const { tab, trans, open } = this._options;
    const { face } = tab;
    if (!this.isActive) {
      return null;
    }
    const { icon, tone } = workspaceLabel(face, trans);
    return (
      <button
        type="button"
        className={`jp-gkews-StatusItem-button jp-gkews-mod-${tone}`}
        title={workspaceSentence(face, trans) || tab.name}
        onClick={open}
      >
        <icon.react tag="span" className="jp-gkews-Icon" />
        <span className="jp-gkews-StatusItem-text">
          {workspaceLine(face, trans)}
        </span>
      </button>
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

export namespace WorkspaceItem {
  export interface IOptions {
    tab: IWorkspaceTab;
    trans: TranslationBundle;
    /** Opens the panel. */
    open: () => void;
  }
}

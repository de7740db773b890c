/**
 * The item of the workspace in the status bar, only while there is something to say of it. Draws
 * the tab's face.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { ActiveItem } from '../activeItem';
import type { IWorkspaceTab } from './tokens';
import { workspaceLabel, workspaceLine, workspaceSentence } from './wording';

export class WorkspaceItem extends ActiveItem {
  constructor(private readonly _options: WorkspaceItem.IOptions) {
    super(_options.tab.changed);
  }

  get isActive(): boolean {
    return this._options.tab.face.phase !== 'none';
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
}

export namespace WorkspaceItem {
  export interface IOptions {
    tab: IWorkspaceTab;
    trans: TranslationBundle;
    /** Opens the panel. */
    open: () => void;
  }
}

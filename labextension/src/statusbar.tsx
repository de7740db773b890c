/**
 * The item in the status bar: the state of the current notebook's kernel and the one number that
 * matters now. A click opens the panel. Draws the model; the minute timer only redraws the age.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { ActiveItem } from './activeItem';
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
import { isAway } from './workspaces/away';
import type { IWorkspaceTab } from './workspaces/tokens';

export class StatusItem extends ActiveItem {
  constructor(private readonly _options: StatusItem.IOptions) {
    super(
      _options.current.changed,
      ...(_options.workspace ? [_options.workspace.changed] : [])
    );
  }

  /** Whether there is a kernel to speak of; of one that is away its workspace's item speaks. */
  get isActive(): boolean {
    const { model, current, workspace } = this._options;
    return !isAway(workspace) && viewOf(model, current.kernelId) !== null;
  }

  protected render(): JSX.Element | null {
    const { model, current, trans, open } = this._options;
    const view = viewOf(model, current.kernelId);
    if (!view || !this.isActive) {
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
}

export namespace StatusItem {
  export interface IOptions {
    model: IGkewsModel;
    current: ICurrentNotebook;
    workspace?: IWorkspaceTab;
    trans: TranslationBundle;
    /** Opens the panel. */
    open: () => void;
  }
}

/**
 * The card that floats over a paused notebook, and over no other: one sentence, one button. The
 * notebook below can be read, scrolled and edited; only the card itself takes the mouse.
 */

import { ReactWidget } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import React from 'react';

import { kernelIdOf } from './current';
import { localTime } from './format';
import { pauseIcon, warningIcon, workingIcon } from './icons';
import { ProgressBar } from './progress';
import { hasOtherWay } from './snapshots';
import type { IGkewsModel } from './tokens';
import { CommandIDs } from './tokens';
import type { IView } from './wording';
import { activity, percent, progressText, viewOf } from './wording';
import { isAway } from './workspaces/away';
import type { IWorkspaceTab } from './workspaces/tokens';

/** What the card says; null where there shall be none. */
export type CardFace = {
  mode: 'paused' | 'resuming' | 'failed';
  sentence: string;
  /** What to do, after a failure. */
  hint: string;
  /** The label of the button; null while it works. */
  action: string | null;
  /** The label of the other way on, by the checkpoint; null if there is none. */
  other: string | null;
};

export function cardFace(
  view: IView | null,
  trans: TranslationBundle
): CardFace | null {
  if (!view) {
    return null;
  }
  const { kernel, active } = view;
  if (active && (active.kind === 'resume' || active.kind === 'restore')) {
    return {
      mode: 'resuming',
      sentence: trans.__('Resuming: %1', activity(active, trans)),
      hint: '',
      action: null,
      other: null
    };
  }
  if (active || kernel.state !== 'paused') {
    return null;
  }
  if (kernel.reason) {
    return {
      mode: 'failed',
      sentence: kernel.message,
      hint: kernel.hint,
      action: trans.__('Try again'),
      other: hasOtherWay(kernel) ? trans.__('From the checkpoint') : null
    };
  }
  const since = localTime(kernel.since);
  return {
    mode: 'paused',
    sentence: kernel.auto_resume
      ? trans.__('Paused since %1; run a cell or resume to go on.', since)
      : trans.__('Paused since %1; resume before you run a cell.', since),
    hint: '',
    action: trans.__('Resume'),
    other: null
  };
}

export class PausedOverlay extends ReactWidget {
  /** Puts the card over `panel` and takes it away again, as the model says. */
  constructor(private readonly _options: PausedOverlay.IOptions) {
    super();
    this.addClass('jp-gkews-Overlay');
    const { panel, model, workspace } = _options;
    model.changed.connect(this._refresh, this);
    workspace?.changed.connect(this._refresh, this);
    panel.sessionContext.kernelChanged.connect(this._refresh, this);
    panel.disposed.connect(() => this.dispose());
    // The kernel may be known to be paused before the notebook is on the page.
    void panel.revealed.then(() => this._refresh());
    this._refresh();
  }

  dispose(): void {
    if (!this.isDisposed) {
      const { panel, model, workspace } = this._options;
      model.changed.disconnect(this._refresh, this);
      workspace?.changed.disconnect(this._refresh, this);
      if (!panel.isDisposed) {
        panel.sessionContext.kernelChanged.disconnect(this._refresh, this);
      }
    }
    super.dispose();
  }

  protected render(): JSX.Element | null {
    const { trans, commands, panel, model } = this._options;
    const view = this._view();
    const face = cardFace(view, trans);
    if (!face) {
      return null;
    }
    const Icon = ICONS[face.mode].react;
    const active = view?.active ?? null;
    const iso = view?.kernel.since;
    return (
      <section
        className={`jp-gkews-Overlay-card jp-gkews-mod-${face.mode}`}
        aria-label={trans.__('Paused notebook')}
      >
        <Icon tag="span" className="jp-gkews-Icon" />
        <div className="jp-gkews-Overlay-body">
          <p
            className="jp-gkews-Overlay-sentence"
            role="status"
            aria-live="polite"
            title={iso}
          >
            {face.sentence}
          </p>
          {face.hint && <p className="jp-gkews-Overlay-hint">{face.hint}</p>}
          {active && (
            <>
              <ProgressBar operation={active} trans={trans} />
              {percent(active) !== null && (
                <p className="jp-gkews-Overlay-hint">
                  {progressText(active, trans)}
                </p>
              )}
            </>
          )}
        </div>
        {face.action && (
          <div className="jp-gkews-Overlay-actions">
            <button
              type="button"
              className="jp-gkews-Button jp-gkews-mod-primary"
              onClick={() => {
                void commands.execute(CommandIDs.resume, {
                  kernelId: kernelIdOf(panel.sessionContext, model)
                });
              }}
            >
              {face.action}
            </button>
            {face.other && (
              <button
                type="button"
                className="jp-gkews-Button"
                onClick={() => {
                  void commands.execute(CommandIDs.resume, {
                    kernelId: kernelIdOf(panel.sessionContext, model),
                    snapshot: false
                  });
                }}
              >
                {face.other}
              </button>
            )}
          </div>
        )}
      </section>
    );
  }

  private _view(): IView | null {
    const { panel, model, workspace } = this._options;
    if (isAway(workspace)) {
      return null; // the card of the workspace says what is so
    }
    return viewOf(model, kernelIdOf(panel.sessionContext, model));
  }

  private _refresh(): void {
    const { panel, trans } = this._options;
    if (panel.isDisposed || this.isDisposed) {
      return;
    }
    const shown = cardFace(this._view(), trans) !== null;
    panel.toggleClass('jp-gkews-mod-paused-notebook', shown);
    if (shown && !this.isAttached && panel.isAttached) {
      Widget.attach(this, panel.node);
    } else if (!shown && this.isAttached) {
      Widget.detach(this);
    }
    this.update();
  }
}

const ICONS = {
  paused: pauseIcon,
  resuming: workingIcon,
  failed: warningIcon
};

export namespace PausedOverlay {
  export interface IOptions {
    panel: NotebookPanel;
    model: IGkewsModel;
    workspace?: IWorkspaceTab;
    commands: CommandRegistry;
    trans: TranslationBundle;
  }
}

/**
 * The card at the bottom of the page while the workspace pauses, is away, or has just come back: one
 * sentence, what can be done, one button. All else of the page can be read, scrolled and edited.
 * Draws the tab's face; asks for nothing but what a button says.
 */

import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';
import React from 'react';

import { percent, progressText } from '../wording';
import { showProblem } from '../problems';
import type { IWorkspaceTab } from './tokens';
import type { IGkewsModel } from '../tokens';
import { CommandIDs } from '../tokens';
import { ProgressBar } from '../progress';
import { canBeResumed, recoveryHint, recoveryRows } from './recovery';
import { RecoveryButtons, RecoveryList } from './recoveryList';
import { workspaceHint, workspaceLabel, workspaceSentence } from './wording';

/** Milliseconds between two drawings of an age. */
const AGE_INTERVAL = 20000;

export class WorkspaceBanner extends ReactWidget {
  /** Puts the card over the page and takes it away again, as the tab says. */
  constructor(private readonly _options: WorkspaceBanner.IOptions) {
    super();
    this.addClass('jp-gkews-Banner');
    _options.tab.changed.connect(this._refresh, this);
    _options.model.changed.connect(this._refresh, this);
    this._timer = setInterval(() => this.update(), AGE_INTERVAL);
    this._refresh();
  }

  dispose(): void {
    if (!this.isDisposed) {
      clearInterval(this._timer);
      this._options.tab.changed.disconnect(this._refresh, this);
      this._options.model.changed.disconnect(this._refresh, this);
    }
    super.dispose();
  }

  protected render(): JSX.Element | null {
    const { tab, model, commands, trans } = this._options;
    const { face } = tab;
    if (!isShown(tab)) {
      return null;
    }
    const { icon, tone, word } = workspaceLabel(face, trans);
    const { operation } = face;
    const rows = face.recovery && recoveryRows(face.recovery, model, trans);
    const hint = rows
      ? recoveryHint(rows, trans)
      : workspaceHint(face, tab.hasBackend, trans);
    return (
      <section
        className={`jp-gkews-Banner-card jp-gkews-mod-${tone}`}
        aria-label={trans.__('Workspace')}
        data-phase={face.phase}
      >
        <icon.react tag="span" className="jp-gkews-Icon" />
        <div className="jp-gkews-Banner-body">
          <p
            className="jp-gkews-Banner-sentence"
            title={
              face.since === null
                ? undefined
                : new Date(face.since).toISOString()
            }
          >
            <strong>{tab.name || word}</strong> {workspaceSentence(face, trans)}
          </p>
          {face.why && <p className="jp-gkews-Banner-why">{face.why}</p>}
          {operation && (
            <>
              <ProgressBar operation={operation} trans={trans} />
              {percent(operation) !== null && (
                <p className="jp-gkews-Muted">
                  {progressText(operation, trans)}
                </p>
              )}
            </>
          )}
          {hint && <p className="jp-gkews-Muted">{hint}</p>}
          {rows && rows.length > 0 && (
            <RecoveryList rows={rows} commands={commands} trans={trans} />
          )}
          {/* Only the word is announced: what runs would never let the reader speak. */}
          <span className="jp-gkews-Hidden" role="status" aria-live="polite">
            {trans.__('Workspace: %1', word)}
          </span>
        </div>
        <div className="jp-gkews-Banner-actions">
          {face.phase === 'paused' && tab.hasBackend && !face.signedOut && (
            <button
              type="button"
              className="jp-gkews-Button jp-gkews-mod-primary"
              disabled={!face.canResume}
              onClick={() => void commands.execute(CommandIDs.resumeWorkspace)}
            >
              {trans.__('Resume')}
            </button>
          )}
          {operation?.cancellable && (
            <button
              type="button"
              className="jp-gkews-Button"
              onClick={() => {
                tab.cancel().catch((error: unknown) => showProblem(error));
              }}
            >
              {trans.__('Cancel')}
            </button>
          )}
          {rows && (
            <RecoveryButtons rows={rows} commands={commands} trans={trans} />
          )}
          {face.phase === 'ready' && (
            <button
              type="button"
              className="jp-gkews-Button"
              onClick={() => tab.dismiss()}
            >
              {rows?.some(canBeResumed) ? trans.__('Later') : trans.__('Close')}
            </button>
          )}
        </div>
      </section>
    );
  }

  private _refresh(): void {
    const { tab, model } = this._options;
    const shown = isShown(tab);
    const { recovery } = tab.face;
    if (recovery && recovery.pause !== this._looked) {
      // What each checkpoint keeps and loses is in their list.
      this._looked = recovery.pause;
      void model.loadCheckpoints();
    }
    if (shown && !this.isAttached) {
      Widget.attach(this, document.body);
    } else if (!shown && this.isAttached) {
      Widget.detach(this);
    }
    this.update();
  }

  private readonly _timer: ReturnType<typeof setInterval>;
  private _looked: string | null = null;
}

/** Whether there is something to say over the page. */
function isShown({ face }: IWorkspaceTab): boolean {
  return face.phase !== 'none' && face.phase !== 'here';
}

export namespace WorkspaceBanner {
  export interface IOptions {
    tab: IWorkspaceTab;
    model: IGkewsModel;
    commands: CommandRegistry;
    trans: TranslationBundle;
  }
}

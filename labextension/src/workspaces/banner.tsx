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
import type { IWorkspaceTab } from '../tokens';
import { CommandIDs } from '../tokens';
import { ProgressBar } from '../progress';
import {
  lostKernels,
  workspaceHint,
  workspaceLabel,
  workspaceSentence
} from './wording';

/** Milliseconds between two drawings of an age. */
const AGE_INTERVAL = 20000;

export class WorkspaceBanner extends ReactWidget {
  /** Puts the card over the page and takes it away again, as the tab says. */
  constructor(private readonly _options: WorkspaceBanner.IOptions) {
    super();
    this.addClass('jp-gkews-Banner');
    _options.tab.changed.connect(this._refresh, this);
    this._timer = setInterval(() => this.update(), AGE_INTERVAL);
    this._refresh();
  }

  dispose(): void {
    if (!this.isDisposed) {
      clearInterval(this._timer);
      this._options.tab.changed.disconnect(this._refresh, this);
    }
    super.dispose();
  }

  protected render(): JSX.Element | null {
    const { tab, commands, trans } = this._options;
    const { face } = tab;
    if (!isShown(tab)) {
      return null;
    }
    const { icon, tone, word } = workspaceLabel(face, trans);
    const { operation } = face;
    const hint = workspaceHint(face, tab.hasBackend, trans);
    const lost = lostKernels(face);
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
          {lost.length > 0 && (
            <ul className="jp-gkews-Met">
              {lost.map(({ kernel, name, why }) => (
                <li key={kernel}>
                  <strong>{name}</strong>: {why}
                </li>
              ))}
            </ul>
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
          {face.phase === 'ready' && (
            <button
              type="button"
              className="jp-gkews-Button"
              onClick={() => tab.dismiss()}
            >
              {trans.__('Close')}
            </button>
          )}
        </div>
      </section>
    );
  }

  private _refresh(): void {
    const shown = isShown(this._options.tab);
    if (shown && !this.isAttached) {
      Widget.attach(this, document.body);
    } else if (!shown && this.isAttached) {
      Widget.detach(this);
    }
    this.update();
  }

  private readonly _timer: ReturnType<typeof setInterval>;
}

/** Whether there is something to say over the page. */
function isShown({ face }: IWorkspaceTab): boolean {
  return face.phase !== 'none' && face.phase !== 'here';
}

export namespace WorkspaceBanner {
  export interface IOptions {
    tab: IWorkspaceTab;
    commands: CommandRegistry;
    trans: TranslationBundle;
  }
}

/**
 * The side panel: what state the current notebook's kernel is in and what can be done, what
 * would survive a pause, the checkpoints, and the last operation. Draws the model; asks it for
 * tables only while the panel is on the page.
 */

import { ReactWidget } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { Message } from '@lumino/messaging';
import React from 'react';

import { pauseIcon } from '../icons';
import type { ICurrentNotebook, IGkewsModel } from '../tokens';
import type { IWorkspaceTab } from '../workspaces/tokens';
import { viewOf } from '../wording';
import { isAway } from '../workspaces/away';
import { LastReturnSection } from '../workspaces/lastReturn';
import { WorkspaceSection } from '../workspaces/section';
import { CheckpointsSection } from './checkpoints';
import { OperationSection } from './operation';
import { Problem } from './problem';
import { StateSection } from './state';
import { SurvivesSection } from './survives';

/** Milliseconds after the last cell until the table is asked for anew. */
const ASK_AFTER_CELL = 600;

/** Milliseconds until a busy kernel is asked again: at first, and at most. */
const BUSY_FIRST = 500;
const BUSY_LAST = 10000;

/** What the sections are drawn from. */
export interface ISectionProps {
  model: IGkewsModel;
  commands: CommandRegistry;
  trans: TranslationBundle;
}

export class GkewsPanel extends ReactWidget {
  constructor(private readonly _options: GkewsPanel.IOptions) {
    super();
    const { trans } = _options;
    this.id = 'jupyter-gkews-panel';
    this.addClass('jp-gkews-Panel');
    this.title.icon = pauseIcon;
    this.title.caption = trans.__('Pause and Resume');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Pause and Resume'));
    _options.current.changed.connect(this._onCurrentChanged, this);
    _options.current.executed.connect(this._onExecuted, this);
    _options.workspace?.changed.connect(this._onWorkspaceChanged, this);
  }

  dispose(): void {
    if (!this.isDisposed) {
      clearTimeout(this._soon);
      this._options.current.changed.disconnect(this._onCurrentChanged, this);
      this._options.current.executed.disconnect(this._onExecuted, this);
      this._options.workspace?.changed.disconnect(
        this._onWorkspaceChanged,
        this
      );
    }
    super.dispose();
  }

  /** Show the table of what survives, asked for anew, and bring it into view. */
  revealSurvives(): void {
    this._askSurvives();
    requestAnimationFrame(() => {
      const table = this.node.querySelector('.jp-gkews-Survives');
      table?.scrollIntoView({ block: 'start' });
    });
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    void this._options.model.loadCheckpoints();
    this._asked = null;
    this._onCurrentChanged();
  }

  protected render(): JSX.Element {
    const { model, current, workspace, commands, trans } = this._options;
    const view = viewOf(model, current.kernelId);
    const props = { model, commands, trans };
    // What can be said of a kernel and done with it is of no use while its workspace is away.
    const away = isAway(workspace);
    return (
      <div className="jp-gkews-Panel-content">
        <div className="jp-gkews-Panel-header">
          <h2>{trans.__('Pause and Resume')}</h2>
          {current.path && (
            <p title={current.path}>
              {view
                ? trans.__(
                    '%1 · %2',
                    PathExt.basename(current.path),
                    view.kernel.display_name
                  )
                : PathExt.basename(current.path)}
            </p>
          )}
        </div>
        {model.problem && !away && <Problem problem={model.problem} />}
        {workspace && (
          <WorkspaceSection tab={workspace} commands={commands} trans={trans} />
        )}
        {!away && <LastReturnSection {...props} />}
        {view ? (
          <>
            {!away && <StateSection {...props} view={view} />}
            <SurvivesSection
              {...props}
              view={view}
              away={away}
              reload={() => this._askSurvives()}
            />
          </>
        ) : (
          !model.problem && (
            <p className="jp-gkews-Empty">
              {current.path
                ? trans.__('This notebook has no kernel yet.')
                : trans.__('Open a notebook to see what a pause would keep.')}
            </p>
          )
        )}
        {!away && (
          <CheckpointsSection {...props} view={view} path={current.path} />
        )}
        {!away && view?.ended && (
          <OperationSection {...props} operation={view.ended} />
        )}
      </div>
    );
  }

  private _onWorkspaceChanged(): void {
    this.update();
  }

  private _onCurrentChanged(): void {
    const { model, current } = this._options;
    if (this.isVisible) {
      // Once for each kernel and each state that it enters, and when what was known is dropped.
      const kernel = model.kernel(current.kernelId);
      const key = kernel && [kernel.id, kernel.state, kernel.since].join();
      if (
        kernel?.pausable &&
        kernel.state === 'running' &&
        (key !== this._asked || this._knowsNothing(kernel.id))
      ) {
        this._asked = key;
        this._askSurvives();
      }
    }
    this.update();
  }

  private _knowsNothing(id: string): boolean {
    const { model } = this._options;
    return (
      !model.survives(id) &&
      !model.survivesProblem(id) &&
      !model.survivesPending(id)
    );
  }

  /** The cells may have made or changed variables: ask once, when the run has ended. */
  private _onExecuted(): void {
    clearTimeout(this._soon);
    if (this.isVisible) {
      this._soon = setTimeout(() => {
        this._askSurvives();
        void this._options.model.refresh();
      }, ASK_AFTER_CELL);
    }
  }

  private _askSurvives(): void {
    const { model, current } = this._options;
    const id = current.kernelId;
    if (!id || !model.kernel(id)) {
      return;
    }
    model.loadSurvives(id).then(
      () => {
        this._busyDelay = BUSY_FIRST;
      },
      () => {
        // The section shows why, from the model. A busy kernel is asked again.
        const busy = model.survivesProblem(id)?.reason === 'kernel_busy';
        if (busy && this.isVisible && current.kernelId === id) {
          clearTimeout(this._soon);
          this._soon = setTimeout(() => this._askSurvives(), this._busyDelay);
          this._busyDelay = Math.min(2 * this._busyDelay, BUSY_LAST);
        }
      }
    );
  }

  private _busyDelay = BUSY_FIRST;
  private _asked: string | null = null;
  private _soon: ReturnType<typeof setTimeout> | undefined;
}

export namespace GkewsPanel {
  export interface IOptions extends ISectionProps {
    current: ICurrentNotebook;
    workspace?: IWorkspaceTab;
  }
}

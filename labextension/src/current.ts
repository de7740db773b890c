/**
 * Which notebook the user looks at, and which kernel belongs to a notebook. Knows nothing of
 * what the kernel does: that is the model's.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { NotebookActions } from '@jupyterlab/notebook';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { ICurrentNotebook, IGkewsModel } from './tokens';

/**
 * The kernel of a notebook: that of its session, or else a paused one whose notebook has this
 * path and whose session went with an earlier server.
 */
export function kernelIdOf(
  context: ISessionContext,
  model: IGkewsModel
): string | null {
  const connected = context.session?.kernel?.id;
  if (connected) {
    return connected;
  }
  const path = context.session?.path ?? context.path;
  const paused = model.status?.kernels.find(
    kernel => kernel.state !== 'running' && kernel.path === path
  );
  return paused?.id ?? null;
}

export class CurrentNotebook implements ICurrentNotebook {
  constructor(
    private readonly _tracker: INotebookTracker,
    private readonly _model: IGkewsModel
  ) {
    _tracker.currentChanged.connect(this._onCurrentChanged, this);
    _model.changed.connect(this._emit, this);
    NotebookActions.executed.connect((_, { notebook }) => {
      if (notebook === this._panel?.content) {
        this._executed.emit();
      }
    });
    this._onCurrentChanged();
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get executed(): ISignal<this, void> {
    return this._executed;
  }

  get path(): string | null {
    return this._panel?.context.path ?? null;
  }

  get kernelId(): string | null {
    return this._panel
      ? kernelIdOf(this._panel.sessionContext, this._model)
      : null;
  }

  private _onCurrentChanged(): void {
    const panel = this._tracker.currentWidget;
    if (panel !== this._panel) {
      if (this._panel && !this._panel.isDisposed) {
        this._panel.sessionContext.kernelChanged.disconnect(this._emit, this);
        this._panel.context.pathChanged.disconnect(this._emit, this);
      }
      this._panel = panel;
      panel?.sessionContext.kernelChanged.connect(this._emit, this);
      panel?.context.pathChanged.connect(this._emit, this);
    }
    this._emit();
  }

  private _emit(): void {
    this._changed.emit();
  }

  private readonly _changed = new Signal<this, void>(this);
  private readonly _executed = new Signal<this, void>(this);
  private _panel: NotebookPanel | null = null;
}

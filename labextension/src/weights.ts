/**
 * Asks what to do when a resume ended because files of weights are gone or were changed: go on
 * without them, or not now. Starts the second attempt only if the user says so.
 */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { showProblem } from './problems';
import type { IGkewsModel, Operation } from './tokens';
import { sentences } from './wording';

export class MissingWeights {
  constructor(
    private readonly _model: IGkewsModel,
    private readonly _trans: TranslationBundle
  ) {
    _model.operationChanged.connect(this._onOperation, this);
  }

  /**
   * Load `checkpoint` into a kernel, null for a new one; the checkpoint is remembered for a second
   * attempt, since an operation does not say what it loads.
   */
  async restore(checkpoint: string, kernelId: string | null): Promise<void> {
    const operation = await this._model.restore(checkpoint, kernelId);
    if (!operation.finished) {
      this._restoring.set(operation.id, { checkpoint, kernelId });
    }
  }

  private _onOperation(_: IGkewsModel, operation: Operation): void {
    if (!operation.finished) {
      return;
    }
    const restore = this._restoring.get(operation.id);
    this._restoring.delete(operation.id);
    if (operation.error?.reason !== 'weights_missing') {
      return;
    }
    // A restore that another page asked for is that page's to repeat.
    if (operation.kind === 'resume' || restore) {
      void this._ask(operation, restore);
    }
  }

  private async _ask(
    operation: Operation,
    restore: { checkpoint: string; kernelId: string | null } | undefined
  ): Promise<void> {
    const trans = this._trans;
    const { button } = await showDialog({
      title: trans.__('Files of weights are missing'),
      body: operation.error ? sentences(operation.error) : '',
      buttons: [
        Dialog.cancelButton({ label: trans.__('Not now') }),
        Dialog.warnButton({
          label: trans.__('Resume without them'),
          caption: trans.__(
            'What needs the files is lost; everything else comes back'
          )
        })
      ]
    });
    if (!button.accept) {
      return;
    }
    try {
      if (restore) {
        await this._model.restore(restore.checkpoint, restore.kernelId, true);
      } else {
        await this._model.resume(operation.kernel, { acceptMissing: true });
      }
    } catch (error) {
      showProblem(error);
    }
  }

  private readonly _restoring = new Map<
    string,
    { checkpoint: string; kernelId: string | null }
  >();
}

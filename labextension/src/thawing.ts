/**
 * Asks what to do when a process could not be restored from its snapshot: try again, resume from
 * the checkpoint, or not now. Starts the next attempt only if the user says so.
 */

import { Dialog, ReactWidget, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { FailedRestoreBody } from './panel/problem';
import { showProblem } from './problems';
import { isOfSnapshot } from './snapshots';
import type { IGkewsModel, Operation } from './tokens';
import { nameOf } from './wording';

export class FailedRestores {
  constructor(
    private readonly _model: IGkewsModel,
    private readonly _trans: TranslationBundle
  ) {
    _model.operationChanged.connect(this._onOperation, this);
  }

  private _onOperation(_: IGkewsModel, operation: Operation): void {
    const { finished, kind, error } = operation;
    if (finished && kind === 'resume' && isOfSnapshot(error?.reason)) {
      void this._ask(operation);
    }
  }

  private async _ask({ kernel, error }: Operation): Promise<void> {
    if (this._asking.has(kernel)) {
      return;
    }
    this._asking.add(kernel);
    try {
      const how = await this._answer(kernel, error!);
      // Another page may have been quicker.
      if (how && this._model.kernel(kernel)?.state === 'paused') {
        await this._model.resume(kernel, how);
      }
    } catch (failure) {
      showProblem(failure);
    } finally {
      this._asking.delete(kernel);
    }
  }

  private async _answer(
    kernel: string,
    error: NonNullable<Operation['error']>
  ): Promise<{ snapshot: boolean } | null> {
    const trans = this._trans;
    const paused = this._model.kernel(kernel);
    const checkpoint = !!paused?.checkpoint;
    const { button } = await showDialog({
      title: paused
        ? trans.__(
            'The process of %1 could not be brought back',
            nameOf(paused)
          )
        : trans.__('The process could not be brought back'),
      body: ReactWidget.create(
        React.createElement(FailedRestoreBody, {
          problem: error,
          checkpoint,
          trans
        })
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Not now') }),
        ...(checkpoint
          ? [
              Dialog.createButton({
                accept: true,
                displayType: 'default',
                className: 'jp-gkews-mod-other',
                label: trans.__('From the checkpoint'),
                caption: trans.__(
                  'Load the variables into a new process; what a checkpoint cannot keep is lost'
                ),
                actions: ['checkpoint']
              })
            ]
          : []),
        Dialog.okButton({
          label: trans.__('Try again'),
          caption: trans.__('Bring the same process back'),
          actions: ['again']
        })
      ]
    });
    if (!button.accept) {
      return null;
    }
    // Again means the same process: without a snapshot (deleted meanwhile) nothing is loaded.
    return { snapshot: button.actions[0] !== 'checkpoint' };
  }

  private readonly _asking = new Set<string>();
}

/**
 * The section "Paused notebooks" of the Running panel: size, age, Resume, Discard. Lists what the
 * model says; a discard ends the kernel first and deletes its checkpoint then.
 */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { IRunningSessions } from '@jupyterlab/running';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { notebookIcon } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import type { ISignal } from '@lumino/signaling';
import React from 'react';

import { age, localTime, secondsSince, size } from './format';
import { resumeIcon } from './icons';
import { showProblem } from './problems';
import type { IGkewsModel, KernelStatus } from './tokens';
import { CommandIDs } from './tokens';
import { nameOf } from './wording';

export class PausedNotebooks implements IRunningSessions.IManager {
  constructor(private readonly _options: PausedNotebooks.IOptions) {
    const { trans } = _options;
    this.name = trans.__('Paused notebooks');
    this.shutdownLabel = trans.__('Discard');
    this.shutdownAllLabel = trans.__('Discard All');
    this.shutdownAllConfirmationText = trans.__(
      'Discard every paused notebook’s kernel and its checkpoint? This cannot be undone. The notebook files stay.'
    );
  }

  readonly name: string;
  readonly shutdownLabel: string;
  readonly shutdownAllLabel: string;
  readonly shutdownAllConfirmationText: string;

  get runningChanged(): ISignal<IGkewsModel, void> {
    return this._options.model.changed;
  }

  running(): IRunningSessions.IRunningItem[] {
    return this._paused().map(kernel => this._item(kernel));
  }

  refreshRunning(): void {
    void this._options.model.refresh();
    void this._options.model.loadCheckpoints();
  }

  shutdownAll(): void {
    // The Running panel has asked already.
    void Promise.all(this._paused().map(kernel => this._discard(kernel)));
  }

  private _paused(): KernelStatus[] {
    const kernels = this._options.model.status?.kernels ?? [];
    return kernels.filter(({ state }) => state === 'paused');
  }

  private _item(kernel: KernelStatus): IRunningSessions.IRunningItem {
    const { commands, model, trans } = this._options;
    const { path, since } = kernel;
    const name = nameOf(kernel);
    const checkpoint = model.checkpoints.find(
      ({ id }) => id === kernel.checkpoint
    );
    const facts = [age(secondsSince(since), trans)];
    if (checkpoint?.bytes) {
      facts.unshift(size(checkpoint.bytes.total));
    }
    return {
      icon: () => notebookIcon,
      className: 'jp-gkews-Running-item',
      label: () => (
        <>
          <button
            type="button"
            className="jp-gkews-IconButton"
            disabled={
              !commands.isEnabled(CommandIDs.resume, { kernelId: kernel.id })
            }
            title={trans.__('Resume %1', name)}
            aria-label={trans.__('Resume %1', name)}
            onClick={event => {
              event.stopPropagation();
              void commands.execute(CommandIDs.resume, { kernelId: kernel.id });
            }}
          >
            <resumeIcon.react tag="span" className="jp-gkews-Icon" />
          </button>
          {name}
        </>
      ),
      labelTitle: () =>
        trans.__(
          '%1\nPaused since %2 (%3)',
          path ?? name,
          localTime(since),
          since
        ),
      detail: () => facts.join(' · '),
      open: path
        ? () => void commands.execute('docmanager:open', { path })
        : undefined,
      shutdown: () => void this._confirm(kernel, name)
    };
  }

  private async _confirm(kernel: KernelStatus, name: string): Promise<void> {
    const { trans } = this._options;
    const { button } = await showDialog({
      title: trans.__('Discard %1?', name),
      body: kernel.checkpoint
        ? trans.__(
            'Its paused kernel and the checkpoint with all its variables are deleted. This cannot be undone. The notebook file stays.'
          )
        : trans.__(
            'Its paused kernel and the frozen process, which is all there is of it, are deleted. This cannot be undone. The notebook file stays.'
          ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.warnButton({ label: trans.__('Discard') })
      ]
    });
    if (button.accept) {
      await this._discard(kernel);
    }
  }

  private async _discard(kernel: KernelStatus): Promise<void> {
    const { kernels, model } = this._options;
    try {
      await kernels.shutdown(kernel.id);
      await model.refresh();
      if (kernel.checkpoint) {
        await model.deleteCheckpoint(kernel.checkpoint);
      }
    } catch (error) {
      showProblem(error);
    }
  }
}

export namespace PausedNotebooks {
  export interface IOptions {
    model: IGkewsModel;
    kernels: Pick<Kernel.IManager, 'shutdown'>;
    commands: CommandRegistry;
    trans: TranslationBundle;
  }
}

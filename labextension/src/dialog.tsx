/**
 * The dialog before a pause: what will be kept, rebuilt and lost, how long it may take, and when
 * to begin. Asks and answers; the pause itself is started by the command.
 */

import { Dialog, ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { duration, localTime, size } from './format';
import { FateTotals, VariableTable } from './panel/survives';
import { OutlookNote } from './panel/outlook';
import { Problem } from './panel/problem';
import { wouldFreeze } from './snapshots';
import type { IGkewsModel, PauseWhen } from './tokens';
import { viewOf } from './wording';

/** The user's answer; null means not to pause. */
export type PauseAnswer = {
  when: PauseWhen | null;
  /** Whether not to be asked again when nothing is lost. */
  dontAsk: boolean;
};

/**
 * Bytes a second of the last pause or checkpoint that wrote at least 10 MB, in this session of
 * the server; null while there is none.
 */
export function writeRate(model: IGkewsModel): number | null {
  const rates = (model.status?.kernels ?? [])
    .map(({ last_operation }) => last_operation)
    .filter(operation => (operation?.result?.bytes_written ?? 0) >= 1e7)
    .map(operation => ({
      at: operation!.finished ?? '',
      rate:
        operation!.result!.bytes_written /
        (operation!.result!.seconds['checkpointing'] ?? Infinity)
    }))
    .filter(({ rate }) => rate > 0)
    .sort((a, b) => b.at.localeCompare(a.at));
  return rates[0]?.rate ?? null;
}

/** `3.1 GB to write, about 4 s at the speed of the last pause.` */
export function estimate(
  model: IGkewsModel,
  toWrite: number | null,
  trans: TranslationBundle
): string {
  if (toWrite === null) {
    return '';
  }
  const rate = writeRate(model);
  if (rate === null) {
    return trans.__('%1 to write.', size(toWrite));
  }
  return trans.__(
    '%1 to write, about %2 at the speed of the last pause.',
    size(toWrite),
    duration(Math.max(1, toWrite / rate), trans)
  );
}

export class PauseDialogBody extends ReactWidget {
  constructor(
    private readonly _model: IGkewsModel,
    private readonly _kernelId: string,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-gkews-PauseDialog');
    _model.changed.connect(this._refresh, this);
  }

  dispose(): void {
    this._model.changed.disconnect(this._refresh, this);
    super.dispose();
  }

  protected render(): JSX.Element {
    const trans = this._trans;
    const model = this._model;
    const table = model.survives(this._kernelId);
    const problem = model.survivesProblem(this._kernelId);
    const busy = isBusy(model, this._kernelId);
    const frozen = wouldFreeze(table?.snapshot);
    const lost = table?.variables.filter(({ fate }) => fate === 'lost') ?? [];
    return (
      <div className={busy ? undefined : 'jp-gkews-mod-roomy'}>
        <p>
          {frozen
            ? trans.__(
                'The variables are written to disk, then the process is frozen to disk as it is, and its memory is free. The notebook stays open, and no cell is run again.'
              )
            : trans.__(
                'The variables are written to disk, then the process ends and its memory is free. The notebook stays open, and no cell is run again.'
              )}
        </p>
        {busy && (
          <p className="jp-gkews-Note">
            {trans.__(
              'A cell is running. The pause waits for it, unless you interrupt it.'
            )}
            {canFreeze(model, this._kernelId) &&
              ` ${trans.__('Frozen now, the cell goes on after the resume; of such a state there is no checkpoint, only the snapshot.')}`}
            {!table &&
              ` ${trans.__('What survives is known when it has ended.')}`}
          </p>
        )}
        {!table && !problem && (
          <p className="jp-gkews-Empty" role="status">
            {trans.__('Looking through the variables')}
          </p>
        )}
        {problem && !table && !busy && <Problem problem={problem} />}
        {table && (
          <>
            {table.stale && (
              <p className="jp-gkews-Note" title={table.as_of}>
                {trans.__(
                  'As of %1: the kernel cannot be asked now.',
                  localTime(table.as_of)
                )}
              </p>
            )}
            {table.snapshot && (
              <OutlookNote outlook={table.snapshot} trans={trans} />
            )}
            <FateTotals
              variables={table.variables}
              trans={trans}
              frozen={frozen}
            />
            {lost.length > 0 && frozen && (
              <p className="jp-gkews-Muted">
                {trans._n(
                  'One variable is kept by the snapshot alone. If that can ever not be restored, the checkpoint brings back everything but this one.',
                  '%1 variables are kept by the snapshot alone. If that can ever not be restored, the checkpoint brings back everything but these.',
                  lost.length
                )}
              </p>
            )}
            {lost.length > 0 && !frozen && (
              <p className="jp-gkews-Note">
                {trans._n(
                  'One variable cannot be kept. Using it after the resume raises an error that names the cell that made it.',
                  '%1 variables cannot be kept. Using one after the resume raises an error that names the cell that made it.',
                  lost.length
                )}
              </p>
            )}
            <VariableTable
              variables={table.variables}
              trans={trans}
              initialSort="fate"
              wide
              frozen={frozen}
            />
            <p className="jp-gkews-Muted">
              {estimate(model, table.bytes.to_write, trans)}
              {!!table.bytes.referenced &&
                ` ${trans.__(
                  '%1 of weights stay in the files from which they were loaded.',
                  size(table.bytes.referenced)
                )}`}
            </p>
          </>
        )}
      </div>
    );
  }

  private _refresh(): void {
    this.update();
  }
}

function isBusy(model: IGkewsModel, kernelId: string): boolean {
  const state = viewOf(model, kernelId)?.kernel.execution_state;
  return state === 'busy';
}

/** Whether an engine can freeze the kernel, also in the middle of a cell. */
function canFreeze(model: IGkewsModel, kernelId: string): boolean {
  return !!model.kernel(kernelId)?.engine;
}

/** Ask when to pause. The table is asked for while the dialog is open. */
export async function askToPause(
  model: IGkewsModel,
  kernelId: string,
  name: string,
  trans: TranslationBundle
): Promise<PauseAnswer> {
  const busy = isBusy(model, kernelId);
  const buttons = [Dialog.cancelButton({ label: trans.__('Cancel') })];
  if (busy) {
    buttons.push(
      Dialog.warnButton({
        label: trans.__('Interrupt and pause'),
        caption: trans.__('Interrupt the running cell once, then pause'),
        actions: ['interrupt']
      })
    );
    if (canFreeze(model, kernelId)) {
      buttons.push(
        Dialog.createButton({
          accept: true,
          displayType: 'default',
          className: 'jp-gkews-mod-other',
          label: trans.__('Freeze now'),
          caption: trans.__(
            'Freeze the process in the middle of the cell, which goes on after the resume'
          ),
          actions: ['now']
        })
      );
    }
    buttons.push(
      Dialog.okButton({
        label: trans.__('After this cell'),
        caption: trans.__('Wait until the running cell has ended, then pause'),
        actions: ['idle']
      })
    );
  } else {
    buttons.push(
      Dialog.okButton({ label: trans.__('Pause now'), actions: ['idle'] })
    );
  }
  const dialog = new Dialog({
    title: trans.__('Pause %1?', name),
    body: new PauseDialogBody(model, kernelId, trans),
    buttons,
    checkbox: {
      label: trans.__('Don’t ask again when nothing is lost'),
      caption: trans.__('Can be changed in the settings, Pause and Resume'),
      checked: false
    }
  });
  dialog.addClass('jp-gkews-Dialog');
  const { button, isChecked } = await dialog.launch();
  return {
    when: button.accept ? (button.actions[0] as PauseWhen) : null,
    dontAsk: !!isChecked && button.accept
  };
}

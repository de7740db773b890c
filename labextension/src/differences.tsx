/**
 * Before a checkpoint is loaded: what differs between where it was made and where it will be
 * loaded, if that may lose something. A difference is no reason to refuse; the user decides.
 */

import { Dialog, ReactWidget, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Difference, IGkewsModel } from './tokens';

/** Milliseconds that a load waits for the comparison; it is a help, not a condition. */
const COMPARE_WAIT = 5000;

/** Whether to load it; asks only where something may be lost. */
export async function confirmDifferences(
  model: IGkewsModel,
  checkpoint: string,
  kernelId: string | null,
  trans: TranslationBundle
): Promise<boolean> {
  const late = new Promise<Difference[]>(resolve =>
    setTimeout(() => resolve([]), COMPARE_WAIT)
  );
  const found = await Promise.race([
    // What is wrong with the checkpoint itself is said by the load.
    model.differences(checkpoint, kernelId).catch(() => []),
    late
  ]);
  const telling = found.filter(({ severity }) => severity !== 'note');
  if (telling.length === 0) {
    return true;
  }
  const { button } = await showDialog({
    title: trans.__('This kernel is another environment'),
    body: ReactWidget.create(
      <DifferenceList differences={telling} trans={trans} />
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Not now') }),
      Dialog.okButton({ label: trans.__('Load it all the same') })
    ]
  });
  return button.accept;
}

export function DifferenceList(props: {
  differences: Difference[];
  trans: TranslationBundle;
}): JSX.Element {
  const { differences, trans } = props;
  return (
    <div>
      <p>
        {trans.__(
          'The checkpoint was made with something else than what is here. What cannot be loaded is lost and named; everything else comes back, and the checkpoint stays as it is.'
        )}
      </p>
      <ul className="jp-gkews-Differences">
        {differences.map(({ what, made, here, means }) => (
          <li key={what}>
            <strong>{what}</strong>
            {` ${made ?? trans.__('none')} → ${here ?? trans.__('none')}`}
            <div className="jp-gkews-Muted">{means}</div>
          </li>
        ))}
      </ul>
    </div>
  );
}

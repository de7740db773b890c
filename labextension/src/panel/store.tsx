/**
 * The line of the panel that says how much the checkpoint store holds, and frees what is not
 * needed after asking. What a paused notebook needs never goes; that is the server's to see to.
 */

import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { size } from '../format';
import { showProblem } from '../problems';
import type { IGkewsModel } from '../tokens';

/** Checkpoints without a name that are older (days) may go with the rest, if the user says so. */
export const OLD_DAYS = 30;

export async function freeUp(
  model: IGkewsModel,
  trans: TranslationBundle
): Promise<void> {
  try {
    const unused = await model.collect(null, true);
    const old = await model.collect(OLD_DAYS, true);
    const many = old.checkpoints.length;
    if (!unused.bytes_freed && !many) {
      await showDialog({
        title: trans.__('Nothing to free'),
        body:
          unused.stays ??
          trans.__(
            'Everything in the store belongs to a checkpoint. Delete those that you do not need.'
          ),
        buttons: [Dialog.okButton({ label: trans.__('Close') })]
      });
      return;
    }
    const { button, isChecked } = await showDialog({
      title: trans.__('Free up space?'),
      body: trans.__(
        '%1 belong to no checkpoint and can go: nothing is lost by that.',
        size(unused.bytes_freed)
      ),
      checkbox: many
        ? {
            label: trans._n(
              'Also delete one checkpoint without a name that is older than %2 days (%3)',
              'Also delete %1 checkpoints without a name that are older than %2 days (%3)',
              many,
              OLD_DAYS,
              size(old.bytes_freed - unused.bytes_freed)
            ),
            caption: trans.__(
              'What they hold can then no longer be restored. Those of paused notebooks stay.'
            )
          }
        : null,
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.warnButton({ label: trans.__('Free up') })
      ]
    });
    if (button.accept) {
      const done = await model.collect(isChecked ? OLD_DAYS : null, false);
      const freed = trans.__('%1 freed.', size(done.bytes_freed));
      Notification.info(done.stays ? `${freed} ${done.stays}` : freed);
    }
  } catch (error) {
    showProblem(error);
  }
}

export function StoreLine(props: {
  model: IGkewsModel;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { model, trans } = props;
  const free = model.status?.store.free ?? null;
  const { store } = model;
  if (!store && free === null) {
    return null;
  }
  const facts: string[] = [];
  if (store) {
    facts.push(trans.__('%1 stored', size(store.bytes)));
  }
  if (free !== null) {
    facts.push(trans.__('%1 free on disk', size(free)));
  }
  return (
    <p
      className="jp-gkews-Muted jp-gkews-Store"
      title={model.status?.store.path}
    >
      {facts.join(' · ')}
      {store && store.bytes > 0 && (
        <button
          type="button"
          className="jp-gkews-Button jp-gkews-mod-quiet"
          title={trans.__('Remove from the disk what is not needed')}
          onClick={() => void freeUp(model, trans)}
        >
          {trans.__('Free up')}
        </button>
      )}
    </p>
  );
}

/**
 * The process snapshots in the panel: a line under the checkpoint that a resume without it would
 * load, and those that have none. Each can be deleted, after saying what remains; but not one that
 * is all there is of a paused notebook.
 */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import React from 'react';

import { ago, localTime, secondsSince, size } from '../format';
import { restoredIcon } from '../icons';
import { showProblem } from '../problems';
import { holdsText } from '../snapshots';
import type { Snapshot } from '../tokens';
import { sentences } from '../wording';
import type { ISectionProps } from './panel';

async function confirmDelete(
  props: ISectionProps,
  snapshot: Snapshot
): Promise<void> {
  const { model, trans } = props;
  const held = holdsText(snapshot.holds, trans);
  const gone = held
    ? trans.__('The frozen process is gone then, with %1.', held)
    : trans.__('The frozen process is gone then.');
  const remains = snapshot.in_cell
    ? trans.__(
        'The last checkpoint, of an earlier state, stays: the notebook stays paused, and a resume loads it into a new process. The cell that was running is lost.'
      )
    : trans.__(
        'The checkpoint of the same pause stays: the notebook stays paused, and a resume loads its variables into a new process.'
      );
  const body = snapshot.in_use
    ? `${gone} ${remains}`
    : trans.__('No paused notebook needs it. All checkpoints stay.');
  const { button } = await showDialog({
    title: trans.__(
      'Delete the process snapshot of %1?',
      localTime(snapshot.created)
    ),
    body,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({
        label: trans.__('Delete %1', size(snapshot.bytes))
      })
    ]
  });
  if (button.accept) {
    try {
      await model.deleteSnapshot(snapshot.id);
    } catch (error) {
      showProblem(error);
    }
  }
}

export function SnapshotLine(
  props: ISectionProps & { snapshot: Snapshot }
): JSX.Element {
  const { trans, snapshot } = props;
  const { id, created, bytes, environment, holds, in_use, problem, unneeded } =
    snapshot;
  const made = [
    environment.runsc ? `runsc ${environment.runsc}` : '',
    environment.python ? `Python ${environment.python}` : '',
    environment.machine ?? ''
  ].filter(part => part);
  const held = holdsText(holds, trans);
  // Frozen in a cell before any checkpoint was written.
  const onlyOne = in_use && !snapshot.checkpoint;
  return (
    <div className="jp-gkews-Snapshot" data-snapshot={id}>
      <restoredIcon.react tag="span" className="jp-gkews-Icon" />
      <div className="jp-gkews-Snapshot-body">
        <p>
          <strong>{trans.__('Process snapshot')}</strong>
          {` · ${size(bytes)} · `}
          <span title={created}>{ago(secondsSince(created), trans)}</span>
          {in_use && (
            <span className="jp-gkews-Tag">{trans.__('Resumes from it')}</span>
          )}
          {snapshot.in_cell && (
            <span className="jp-gkews-Tag">{trans.__('In a cell')}</span>
          )}
          {unneeded && (
            <span className="jp-gkews-Tag" title={unneeded}>
              {trans.__('Not needed')}
            </span>
          )}
        </p>
        {held && <p>{held}</p>}
        {made.length > 0 && (
          <p
            className="jp-gkews-Muted"
            title={trans.__(
              'It can be restored where these are the same, and the processor has the same features'
            )}
          >
            {made.join(' · ')}
          </p>
        )}
        {problem && <p className="jp-gkews-Reason">{sentences(problem)}</p>}
      </div>
      <button
        type="button"
        className="jp-gkews-Button jp-gkews-mod-quiet"
        disabled={onlyOne}
        title={
          onlyOne
            ? trans.__('It is all there is of a paused notebook')
            : in_use
              ? trans.__('Delete it; the checkpoint stays and resumes')
              : trans.__('Delete it from the disk')
        }
        aria-label={trans.__('Delete the process snapshot')}
        onClick={() => void confirmDelete(props, snapshot)}
      >
        {trans.__('Delete')}
      </button>
    </div>
  );
}

/** Those whose checkpoint is not listed: left by kernels that are gone. */
export function StraySnapshots(props: ISectionProps): JSX.Element | null {
  const { model, trans } = props;
  const listed = new Set(model.checkpoints.map(({ id }) => id));
  const stray = model.snapshots.filter(
    ({ checkpoint }) => !checkpoint || !listed.has(checkpoint)
  );
  if (stray.length === 0) {
    return null;
  }
  return (
    <>
      <p className="jp-gkews-Muted">
        {trans.__('Without a checkpoint; “Free up” removes what nobody needs:')}
      </p>
      {stray.map(snapshot => (
        <SnapshotLine {...props} key={snapshot.id} snapshot={snapshot} />
      ))}
    </>
  );
}

/**
 * Third section of the panel: the checkpoints in the store and the process snapshots beside them,
 * with what can be done with each.
 */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import React, { useState } from 'react';

import { ago, localTime, secondsSince, size } from '../format';
import { showProblem } from '../problems';
import { provedText, provedWord } from '../proved';
import type { Checkpoint } from '../tokens';
import { CommandIDs } from '../tokens';
import type { IView } from '../wording';
import { countsText, sentences } from '../wording';
import type { ISectionProps } from './panel';
import { SnapshotLine, StraySnapshots } from './snapshots';
import { StoreLine } from './store';

/** Whether a checkpoint is of the notebook at `path`; `notebook` may be absolute. */
export function isOf(checkpoint: Checkpoint, path: string | null): boolean {
  const { notebook } = checkpoint;
  return (
    !!path &&
    !!notebook &&
    (notebook === path || notebook.endsWith(`/${path.replace(/^\//, '')}`))
  );
}

async function confirmDelete(
  props: ISectionProps,
  checkpoint: Checkpoint
): Promise<void> {
  const { model, trans } = props;
  const { button } = await showDialog({
    title: trans.__('Delete this checkpoint?'),
    body: trans.__(
      'What it holds can then no longer be restored. The notebook and running kernels stay as they are.'
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Delete') })
    ]
  });
  if (button.accept) {
    try {
      await model.deleteCheckpoint(checkpoint.id);
    } catch (error) {
      showProblem(error);
    }
  }
}

function CheckpointRow(
  props: ISectionProps & { checkpoint: Checkpoint; view: IView | null }
): JSX.Element {
  const { commands, trans, checkpoint, view } = props;
  const { id, name, created, counts, bytes, error, in_use } = checkpoint;
  const time = created ? localTime(created) : trans.__('unknown time');
  const title = name ?? time;
  const facts: string[] = [];
  if (bytes) {
    facts.push(
      bytes.referenced
        ? trans.__(
            '%1, %2 of it in files of weights',
            size(bytes.total),
            size(bytes.referenced)
          )
        : size(bytes.total)
    );
  }
  if (created) {
    facts.push(ago(secondsSince(created), trans));
  }
  if (counts) {
    facts.push(countsText(counts, trans));
  }
  const restore = (kernelId: string | null) =>
    void commands.execute(CommandIDs.restore, { checkpoint: id, kernelId });
  const busy = !!view?.active;
  return (
    <li className="jp-gkews-Checkpoint">
      <div className="jp-gkews-Checkpoint-title">
        <strong title={created ?? undefined}>{title}</strong>
        {in_use && (
          <span
            className="jp-gkews-Tag"
            title={checkpoint.why_in_use ?? undefined}
          >
            {trans.__('In use')}
          </span>
        )}
      </div>
      <p className="jp-gkews-Muted">
        {checkpoint.notebook && (
          <span title={checkpoint.notebook}>
            {PathExt.basename(checkpoint.notebook)}
            {' · '}
          </span>
        )}
        {facts.join(' · ')}
        {checkpoint.proved && (
          <span
            className="jp-gkews-Proved"
            title={provedText(checkpoint.proved, trans)}
          >
            {` · ${provedWord(checkpoint.proved, trans)}`}
          </span>
        )}
      </p>
      {error && <p className="jp-gkews-Reason">{sentences(error)}</p>}
      {props.model.snapshots
        .filter(snapshot => snapshot.checkpoint === id)
        .map(snapshot => (
          <SnapshotLine {...props} key={snapshot.id} snapshot={snapshot} />
        ))}
      {checkpoint.files
        ?.filter(({ problem }) => problem)
        .map(({ path, problem }) => (
          <p className="jp-gkews-Reason" key={path}>
            {`${path}: ${problem}`}
          </p>
        ))}
      <div className="jp-gkews-Actions">
        {!error && (
          <>
            <button
              type="button"
              className="jp-gkews-Button"
              disabled={!view || busy}
              title={trans.__(
                'Load it into this notebook’s kernel; what that holds now is saved first'
              )}
              aria-label={trans.__('Restore %1 here', title)}
              onClick={() => restore(view?.kernel.id ?? null)}
            >
              {trans.__('Restore here')}
            </button>
            <button
              type="button"
              className="jp-gkews-Button"
              title={trans.__('Load it into a new kernel for its notebook')}
              aria-label={trans.__('Restore %1 in a new kernel', title)}
              onClick={() => restore(null)}
            >
              {trans.__('In a new kernel')}
            </button>
          </>
        )}
        <button
          type="button"
          className="jp-gkews-Button jp-gkews-mod-quiet"
          disabled={in_use}
          title={
            in_use
              ? (checkpoint.why_in_use ??
                trans.__('A paused notebook needs it'))
              : trans.__('Delete it from the disk')
          }
          aria-label={trans.__('Delete %1', title)}
          onClick={() => void confirmDelete(props, checkpoint)}
        >
          {trans.__('Delete')}
        </button>
      </div>
    </li>
  );
}

export function CheckpointsSection(
  props: ISectionProps & { view: IView | null; path: string | null }
): JSX.Element {
  const { model, trans, path } = props;
  const [all, setAll] = useState(false);
  const mine = model.checkpoints.filter(checkpoint => isOf(checkpoint, path));
  const others = model.checkpoints.length - mine.length;
  const shown = all || !path ? model.checkpoints : mine;
  return (
    <section className="jp-gkews-Section" aria-label={trans.__('Checkpoints')}>
      <div className="jp-gkews-Section-heading">
        <h3>{trans.__('Checkpoints')}</h3>
      </div>
      <StoreLine model={model} trans={trans} />
      {shown.length === 0 && (
        <p className="jp-gkews-Empty">
          {trans.__('None of this notebook yet. A pause writes one.')}
        </p>
      )}
      <ul className="jp-gkews-Checkpoints">
        {shown.map(checkpoint => (
          <CheckpointRow
            {...props}
            key={checkpoint.id}
            checkpoint={checkpoint}
          />
        ))}
      </ul>
      <StraySnapshots {...props} />
      {path && others > 0 && (
        <button
          type="button"
          className="jp-gkews-Button jp-gkews-mod-quiet"
          onClick={() => setAll(!all)}
        >
          {all
            ? trans.__('Show those of this notebook only')
            : trans._n(
                'Show one of another notebook',
                'Show %1 of other notebooks',
                others
              )}
        </button>
      )}
    </section>
  );
}

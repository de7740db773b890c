/**
 * What became of each notebook of a pause whose memory did not come back, as the server's list and
 * the kernels say it together. Pure functions of what they are given.
 */

import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { localTime, size } from '../format';
import { lostIcon, pauseIcon, warningIcon, workingIcon } from '../icons';
import type { IGkewsModel } from '../tokens';
import type { ILabel } from '../wording';
import {
  countsText,
  progressText,
  provenanceLabel,
  sentences,
  viewOf
} from '../wording';
import type { RecoveredKernel, Recovery } from './tokens';

/** One notebook of the pause. */
export type RecoveryRow = {
  kernel: string;
  name: string;
  /** `waiting` and `failed`: paused, to be resumed. `lost`: nothing is there to be resumed. */
  state: 'waiting' | 'working' | 'back' | 'failed' | 'lost';
  /** What is kept and lost, how far it is, or why it has failed; may be empty. */
  said: string;
  /** The checkpoint that the list still has, readable. */
  checkpoint: string | null;
};

export function recoveryRows(
  recovery: Recovery,
  model: IGkewsModel,
  trans: TranslationBundle
): RecoveryRow[] {
  return recovery.kernels.map(one => {
    const { kernel, path } = one;
    const listed = model.checkpoints.find(({ id }) => id === one.checkpoint);
    return {
      kernel,
      name: path ? PathExt.basename(path) : kernel,
      checkpoint: listed && !listed.error ? listed.id : null,
      ...stateOf(one, model, trans)
    };
  });
}

function stateOf(
  { kernel: id, checkpoint, state, why, taken }: RecoveredKernel,
  model: IGkewsModel,
  trans: TranslationBundle
): Pick<RecoveryRow, 'state' | 'said'> {
  const view = viewOf(model, id);
  if (state === 'lost') {
    return { state, said: why };
  }
  if (view?.active) {
    return { state: 'working', said: progressText(view.active, trans) };
  }
  if (state === 'recovering' || view?.kernel.state === 'resuming') {
    return { state: 'working', said: '' };
  }
  if (state === 'recovered' || view?.kernel.state === 'running') {
    const result = view?.ended?.kind === 'resume' ? view.ended.result : null;
    return {
      state: 'back',
      said: result
        ? countsText({ ...result, lost: result.lost.length }, trans)
        : ''
    };
  }
  if (!view) {
    return { state: 'lost', said: why }; // it was ended since
  }
  if (view.kernel.reason) {
    return { state: 'failed', said: sentences(view.kernel) };
  }
  if (state === 'failed') {
    return { state, said: why };
  }
  const kept = keptText(checkpoint, model, trans);
  const before = taken
    ? trans.__(
        'Its checkpoint is of %1, before the pause: what came later is not in it.',
        localTime(taken)
      )
    : '';
  return { state, said: [before, kept].filter(Boolean).join(' ') };
}

/** What its checkpoint has kept and lost, and its size; empty while that is not known. */
function keptText(
  checkpoint: string | null,
  { checkpoints }: IGkewsModel,
  trans: TranslationBundle
): string {
  const { counts, lost, bytes } =
    checkpoints.find(({ id }) => id === checkpoint) ?? {};
  const said = [];
  if (counts) {
    const names = (lost ?? []).slice(0, NAMES).map(({ name }) => name);
    const more = (lost ?? []).length > NAMES ? ['…'] : [];
    // What is lost is named last, and so are its names.
    const named = names.length ? ` (${[...names, ...more].join(', ')})` : '';
    said.push(`${countsText(counts, trans)}${named}`);
  }
  if (bytes) {
    said.push(size(bytes.total));
  }
  return said.join(' · ');
}

/** How many lost variables are named. */
const NAMES = 4;

/** Whether the user can say of it that it shall be resumed, or not. */
export function canBeResumed({ state }: RecoveryRow): boolean {
  return state === 'waiting' || state === 'failed';
}

export function recoveryLabel(
  { state }: RecoveryRow,
  trans: TranslationBundle
): ILabel {
  switch (state) {
    case 'waiting':
      return { word: trans.__('Paused'), icon: pauseIcon, tone: 'info' };
    case 'working':
      return { word: trans.__('Resuming'), icon: workingIcon, tone: 'work' };
    case 'back':
      return provenanceLabel('recovered', trans);
    case 'failed':
      return {
        word: trans.__('Paused, resume failed'),
        icon: warningIcon,
        tone: 'bad'
      };
    case 'lost':
      return {
        word: trans.__('Did not come back'),
        icon: lostIcon,
        tone: 'bad'
      };
  }
}

/** What can be done, and what came of it; may be empty. */
export function recoveryHint(
  rows: RecoveryRow[],
  trans: TranslationBundle
): string {
  const count = (...states: RecoveryRow['state'][]) =>
    rows.filter(({ state }) => states.includes(state)).length;
  const waiting = count('waiting', 'failed');
  const done = count('back');
  const lost = count('lost');
  const parts = [];
  if (waiting) {
    parts.push(
      trans._n(
        '%1 notebook waits with its checkpoint. Resumed, it has its variables again; threads, generators and open connections are gone.',
        '%1 notebooks wait with their checkpoints. Resumed, they have their variables again; threads, generators and open connections are gone.',
        waiting
      )
    );
  }
  if (done) {
    parts.push(
      trans._n(
        '%1 kernel has loaded its checkpoint.',
        '%1 kernels have loaded their checkpoints.',
        done
      )
    );
  }
  if (lost) {
    parts.push(
      trans._n('%1 did not come back.', '%1 did not come back.', lost)
    );
  }
  return parts.join(' ');
}

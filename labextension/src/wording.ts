/**
 * What states, phases, fates and provenances are called in the interface, in one place, so that
 * no two surfaces use different words. Pure functions of what they are given.
 */

import { PathExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { LabIcon } from '@jupyterlab/ui-components';

import { age, duration, secondsSince, size, sizeOf } from './format';
import {
  freshIcon,
  keptIcon,
  lostIcon,
  pauseIcon,
  rebuiltIcon,
  recoveredIcon,
  restoredIcon,
  runningIcon,
  warningIcon,
  workingIcon
} from './icons';
import type {
  Fate,
  GkewsProblem,
  IGkewsModel,
  KernelStatus,
  Operation,
  OperationResult,
  Progress,
  Provenance,
  Snapshot
} from './tokens';

/** A word with its icon and a tone that CSS colours. */
export interface ILabel {
  word: string;
  icon: LabIcon;
  tone: 'calm' | 'good' | 'info' | 'warn' | 'bad' | 'work';
}

/** A kernel and what runs on it now, if anything. */
export interface IView {
  kernel: KernelStatus;
  /** The operation that runs. */
  active: Operation | null;
  /** The last operation that ended. */
  ended: Operation | null;
  /** The process snapshot of a paused kernel, once it is listed. */
  snapshot?: Snapshot | null;
}

/** How the surfaces look at one kernel; null if the server does not list it. */
export function viewOf(
  model: IGkewsModel,
  kernelId: string | null
): IView | null {
  const kernel = model.kernel(kernelId);
  if (!kernel) {
    return null;
  }
  const last = model.operation(kernel.id);
  return {
    kernel,
    active: last && !last.finished ? last : null,
    ended: last?.finished ? last : kernel.last_operation,
    snapshot: model.snapshots.find(({ id }) => id === kernel.snapshot) ?? null
  };
}

/** What a kernel is called: its notebook, or else its kernelspec. */
export function nameOf(
  kernel: Pick<KernelStatus, 'path' | 'display_name'>
): string {
  return kernel.path ? PathExt.basename(kernel.path) : kernel.display_name;
}

/** What happened, and what is safe and what to do, in one line. */
export function sentences(
  problem: Pick<GkewsProblem, 'message' | 'hint'>
): string {
  return `${problem.message} ${problem.hint}`.trim();
}

export function fateLabel(fate: Fate, trans: TranslationBundle): ILabel {
  switch (fate) {
    case 'kept':
      return { word: trans.__('Kept'), icon: keptIcon, tone: 'good' };
    case 'rebuilt':
      return { word: trans.__('Rebuilt'), icon: rebuiltIcon, tone: 'info' };
    case 'lost':
      return { word: trans.__('Lost'), icon: lostIcon, tone: 'bad' };
  }
}

export function provenanceLabel(
  provenance: Provenance,
  trans: TranslationBundle
): ILabel {
  switch (provenance) {
    case 'restored':
      return { word: trans.__('Restored'), icon: restoredIcon, tone: 'good' };
    case 'recovered':
      return { word: trans.__('Recovered'), icon: recoveredIcon, tone: 'info' };
    case 'fresh':
      return { word: trans.__('Fresh'), icon: freshIcon, tone: 'warn' };
  }
}

/** What a provenance means, as a sentence. */
export function provenanceSentence(
  provenance: Provenance,
  trans: TranslationBundle
): string {
  switch (provenance) {
    case 'restored':
      return trans.__(
        'The process itself came back from a snapshot, with everything in it.'
      );
    case 'recovered':
      return trans.__(
        'A new process has loaded the checkpoint. What could not be kept is listed as lost.'
      );
    case 'fresh':
      return trans.__(
        'This kernel started empty. Nothing of an earlier pause is in it.'
      );
  }
}

/** What the operation does on the whole: `Pausing`. */
export function kindWord(
  kind: Operation['kind'],
  trans: TranslationBundle
): string {
  switch (kind) {
    case 'pause':
      return trans.__('Pausing');
    case 'resume':
      return trans.__('Resuming');
    case 'checkpoint':
      return trans.__('Checkpointing');
    case 'restore':
      return trans.__('Restoring');
  }
}

/** The same as a noun, for headings: `Pause`. */
export function kindNoun(
  kind: Operation['kind'],
  trans: TranslationBundle
): string {
  switch (kind) {
    case 'pause':
      return trans.__('Pause');
    case 'resume':
      return trans.__('Resume');
    case 'checkpoint':
      return trans.__('Checkpoint');
    case 'restore':
      return trans.__('Restore');
  }
}

/** The name of a phase in a table of phases. */
export function phaseName(phase: string, trans: TranslationBundle): string {
  switch (phase) {
    case 'waiting_for_idle':
      return trans.__('Waiting for the running cell');
    case 'checkpointing':
      return trans.__('Writing the checkpoint');
    case 'snapshotting':
      return trans.__('Taking the snapshot');
    case 'releasing':
      return trans.__('Giving memory back');
    case 'waiting_for_capacity':
      return trans.__('Waiting for capacity');
    case 'restoring':
      return trans.__('Bringing the kernel back');
    case 'verifying':
      return trans.__('Verifying');
    default:
      return phase;
  }
}

/** What happens now, finer than the phase where the kernel says so. */
export function activity(
  operation: Progress,
  trans: TranslationBundle
): string {
  switch (operation.step) {
    case 'graph':
      return trans.__('Looking through the variables');
    case 'writing':
      return trans.__('Writing the checkpoint');
    case 'verifying':
      return trans.__('Proving the checkpoint');
    case 'committing':
      return trans.__('Making the checkpoint durable');
    case 'importing':
      return trans.__('Starting and importing modules');
    case 'waiting_for_gpu':
      return trans.__('Waiting for a GPU with enough free memory');
    case 'reading':
      return trans.__('Reading the checkpoint');
    case 'rebuilding':
      return trans.__('Rebuilding variables');
    default:
      return phaseName(operation.phase, trans);
  }
}

/** How far a step is, 0 to 100; null while there is nothing to measure. */
export function percent(operation: Progress): number | null {
  if (operation.bytes_total <= 0) {
    return null;
  }
  const share = (100 * operation.bytes_done) / operation.bytes_total;
  return Math.min(100, Math.max(0, Math.floor(share)));
}

/** `62 %, 3.1 of 5.0 GB, 12 s left`, or the activity while there is nothing to measure. */
export function progressText(
  operation: Progress,
  trans: TranslationBundle
): string {
  const share = percent(operation);
  if (share === null) {
    return activity(operation, trans);
  }
  const bytes = sizeOf(operation.bytes_done, operation.bytes_total, trans);
  if (operation.eta_s === null) {
    return trans.__('%1 %, %2', share, bytes);
  }
  return trans.__(
    '%1 %, %2, %3 left',
    share,
    bytes,
    duration(Math.max(1, operation.eta_s), trans)
  );
}

/** `41 kept, 3 rebuilt, 2 lost`; what there is none of is left out, except kept. */
export function countsText(
  counts: Pick<OperationResult, 'kept' | 'rebuilt'> & { lost: number },
  trans: TranslationBundle
): string {
  const parts = [trans.__('%1 kept', counts.kept)];
  if (counts.rebuilt) {
    parts.push(trans.__('%1 rebuilt', counts.rebuilt));
  }
  if (counts.lost) {
    parts.push(trans.__('%1 lost', counts.lost));
  }
  return parts.join(', ');
}

/** The state in one word, with its icon. */
export function stateLabel(view: IView, trans: TranslationBundle): ILabel {
  const { kernel, active } = view;
  if (active) {
    return {
      word: kindWord(active.kind, trans),
      icon: workingIcon,
      tone: 'work'
    };
  }
  switch (kernel.state) {
    case 'pausing':
      return { word: trans.__('Pausing'), icon: workingIcon, tone: 'work' };
    case 'resuming':
      return { word: trans.__('Resuming'), icon: workingIcon, tone: 'work' };
    case 'paused':
      return kernel.reason
        ? {
            word: trans.__('Paused, resume failed'),
            icon: warningIcon,
            tone: 'bad'
          }
        : { word: trans.__('Paused'), icon: pauseIcon, tone: 'info' };
    case 'running':
      return kernel.provenance
        ? provenanceLabel(kernel.provenance, trans)
        : { word: trans.__('Running'), icon: runningIcon, tone: 'calm' };
  }
}

/** The state as a sentence; the server's own words only for what we have none for. */
export function stateSentence(view: IView, trans: TranslationBundle): string {
  const { kernel, active } = view;
  if (active) {
    return activity(active, trans);
  }
  if (kernel.reason === null) {
    if (kernel.state === 'paused' && kernel.snapshot) {
      return view.snapshot
        ? trans.__(
            'The process is frozen on disk (%1) and its memory is free; a resume brings the same process back.',
            size(view.snapshot.bytes)
          )
        : trans.__(
            'The process is frozen on disk and its memory is free; a resume brings the same process back.'
          );
    }
    if (kernel.state === 'paused') {
      return trans.__(
        'The process is stopped and its memory is free; the checkpoint is kept.'
      );
    }
    if (kernel.state === 'running' && kernel.provenance) {
      return provenanceSentence(kernel.provenance, trans);
    }
    if (kernel.state === 'running' && kernel.pausable && kernel.engine) {
      return trans.__(
        'A pause keeps its variables, freezes its process to disk, and gives its memory back.'
      );
    }
    if (kernel.state === 'running' && kernel.pausable) {
      return trans.__(
        'A pause keeps its variables on disk and gives its memory back.'
      );
    }
  }
  return kernel.message;
}

/** What can be done now; may be empty. */
export function stateHint(view: IView, trans: TranslationBundle): string {
  const { kernel, active } = view;
  if (active || kernel.reason !== null) {
    return kernel.hint;
  }
  if (kernel.state === 'paused') {
    return kernel.auto_resume
      ? trans.__('Resume it, or run a cell.')
      : trans.__('Resume it before you run a cell.');
  }
  return kernel.provenance === 'fresh' && kernel.checkpoint
    ? trans.__(
        'The last checkpoint is kept: it can be restored into this kernel.'
      )
    : kernel.hint;
}

/** The status bar's text: the state and the one number that matters now. */
export function statusLine(view: IView, trans: TranslationBundle): string {
  const { kernel, active, ended } = view;
  if (active) {
    const kind = kindWord(active.kind, trans);
    const progress = progressText(active, trans);
    return percent(active) === null
      ? trans.__('%1: %2', kind, progress)
      : trans.__('%1 %2', kind, progress);
  }
  const { word } = stateLabel(view, trans);
  if (kernel.state === 'paused' && !kernel.reason) {
    return trans.__('%1 %2', word, age(secondsSince(kernel.since), trans));
  }
  if (kernel.state === 'running') {
    if (kernel.reason) {
      return ended?.kind === 'checkpoint'
        ? trans.__('Checkpoint failed')
        : trans.__('Pause failed');
    }
    if (kernel.provenance === 'restored') {
      return trans.__('%1: the same process', word);
    }
    if (ended?.result?.provenance && kernel.provenance) {
      const { kept, rebuilt, lost } = ended.result;
      return trans.__(
        '%1: %2',
        word,
        countsText({ kept, rebuilt, lost: lost.length }, trans)
      );
    }
    if (!kernel.provenance && !kernel.pausable) {
      return trans.__('Cannot pause');
    }
  }
  return word;
}

/** Why a variable is not kept as it was, and which cell made it, as sentences. */
export function reasonText(
  item: { reason: string | null; cell: number | string | null },
  trans: TranslationBundle
): string {
  const { reason, cell } = item;
  const parts: string[] = [];
  if (reason) {
    const sentence = reason.charAt(0).toUpperCase() + reason.slice(1);
    parts.push(/[.!?]$/.test(sentence) ? sentence : `${sentence}.`);
  }
  if (cell !== null) {
    parts.push(trans.__('Made by cell [%1].', cell));
  }
  return parts.join(' ');
}

/**
 * What process snapshots are called in the interface: what they hold, and which errors are theirs.
 * Pure functions of what they are given.
 */

import type { TranslationBundle } from '@jupyterlab/translation';

import type { Holds, KernelStatus, Outlook } from './tokens';

/** Names that are listed in a count, at most. */
const NAMED = 3;

/** `1 thread (ticker), 2 generators (rows, batches), 1 open file`; empty if there is nothing. */
export function holdsText(
  holds: Holds | null,
  trans: TranslationBundle
): string {
  if (!holds) {
    return '';
  }
  const { threads = [], generators = [], children = [], files = [] } = holds;
  const parts: string[] = [];
  const add = (text: string, names: string[]) => {
    const more = names.length > NAMED ? ', …' : '';
    parts.push(`${text} (${names.slice(0, NAMED).join(', ')}${more})`);
  };
  if (threads.length) {
    const count = threads.length;
    add(trans._n('%1 thread', '%1 threads', count), threads);
  }
  if (generators.length) {
    const count = generators.length;
    add(trans._n('%1 generator', '%1 generators', count), generators);
  }
  if (children.length) {
    const count = children.length;
    add(trans._n('%1 child process', '%1 child processes', count), children);
  }
  if (files.length) {
    const names = files.map(path => path.slice(path.lastIndexOf('/') + 1));
    add(trans._n('%1 open file', '%1 open files', files.length), names);
  }
  return parts.join(', ');
}

/** What an engine says that it keeps, translated where it is known. */
export function keepsText(keeps: string, trans: TranslationBundle): string {
  switch (keeps) {
    case 'threads and what they are doing':
      return trans.__('threads and what they are doing');
    case 'half-consumed generators and running cells':
      return trans.__('half-consumed generators and running cells');
    case 'child processes, open files, sockets between them':
      return trans.__('child processes, open files, sockets between them');
    case 'the process itself: same pid, nothing is imported or loaded again':
      return trans.__(
        'the process itself: same pid, nothing is imported or loaded again'
      );
    default:
      return keeps;
  }
}

/** Whether a pause now would freeze the process too, as far as is known. */
export function wouldFreeze(outlook: Outlook | null | undefined): boolean {
  return outlook?.objections?.length === 0;
}

/** Whether an error is of a snapshot, so that the checkpoint is the other way. */
export function isOfSnapshot(reason: string | null | undefined): boolean {
  return reason === 'snapshot_failed' || reason === 'snapshot_incompatible';
}

/** Whether a paused kernel whose process could not be restored can be resumed by its checkpoint. */
export function hasOtherWay(kernel: KernelStatus): boolean {
  return (
    kernel.state === 'paused' &&
    !!kernel.snapshot &&
    !!kernel.checkpoint &&
    isOfSnapshot(kernel.reason)
  );
}

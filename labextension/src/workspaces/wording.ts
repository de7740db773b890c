/**
 * What the states of a workspace are called in the interface, in one place. Pure functions of what
 * they are given.
 */

import type { TranslationBundle } from '@jupyterlab/translation';

import { age, ago, localTime } from '../format';
import {
  lostIcon,
  pauseIcon,
  runningIcon,
  warningIcon,
  workingIcon
} from '../icons';
import type { WorkspaceFace, WorkspaceStatus } from './tokens';
import type { ILabel } from '../wording';
import { phaseName, provenanceLabel } from '../wording';

/** Seconds after which a wait for a node is longer than a cold node usually takes. */
const LONG_WAIT = 600;

function secondsOf(face: WorkspaceFace): number {
  return face.since === null ? 0 : (Date.now() - face.since) / 1000;
}

function sinceOf(face: WorkspaceFace): string {
  return localTime(new Date(face.since ?? 0).toISOString());
}

/** The state in a word that a toolbar has room for. */
export function briefWord(
  face: WorkspaceFace,
  trans: TranslationBundle
): string {
  switch (face.phase) {
    case 'waiting':
      return trans.__('Waiting');
    case 'away':
      return trans.__('No answer');
    default:
      return workspaceLabel(face, trans).word;
  }
}

/** The state in one word, with its icon. */
export function workspaceLabel(
  face: WorkspaceFace,
  trans: TranslationBundle
): ILabel {
  switch (face.phase) {
    case 'pausing':
      return { word: trans.__('Pausing'), icon: workingIcon, tone: 'work' };
    case 'paused':
      return { word: trans.__('Paused'), icon: pauseIcon, tone: 'info' };
    case 'waiting':
      return {
        word: trans.__('Waiting for capacity'),
        icon: workingIcon,
        tone: 'warn'
      };
    case 'restoring':
      return { word: trans.__('Restoring'), icon: workingIcon, tone: 'work' };
    case 'failed':
      return {
        word: trans.__('Cannot start'),
        icon: warningIcon,
        tone: 'bad'
      };
    case 'away':
      return {
        word: face.answers
          ? trans.__('Answers with an error')
          : trans.__('Does not answer'),
        icon: warningIcon,
        tone: 'warn'
      };
    case 'gone':
      return { word: trans.__('Gone'), icon: lostIcon, tone: 'bad' };
    case 'ready':
      return face.provenance
        ? provenanceLabel(face.provenance, trans)
        : { word: trans.__('Ready'), icon: runningIcon, tone: 'good' };
    default:
      return { word: trans.__('Running'), icon: runningIcon, tone: 'calm' };
  }
}

/** What is so, as one sentence. */
export function workspaceSentence(
  face: WorkspaceFace,
  trans: TranslationBundle
): string {
  switch (face.phase) {
    case 'pausing':
      if (face.operation) {
        return trans.__(
          'This workspace is being paused: %1.',
          phaseName(face.operation.phase, trans)
        );
      }
      return face.stateless === true
        ? trans.__('This workspace is being stopped; its memory is not kept.')
        : face.stateless === false
          ? trans.__(
              'This workspace is being paused: its memory is kept and its pod stopped.'
            )
          : trans.__('This workspace is being paused, and its pod stopped.');
    case 'paused':
      return trans.__(
        'This workspace is paused since %1 (%2).',
        sinceOf(face),
        ago(secondsOf(face), trans)
      );
    case 'waiting':
      return trans.__(
        'This workspace waits for capacity since %1 (%2).',
        sinceOf(face),
        age(secondsOf(face), trans)
      );
    case 'restoring':
      return face.stateless === false
        ? trans.__('This workspace is starting, and its memory comes back.')
        : trans.__('This workspace is starting.');
    case 'failed':
      return trans.__('This workspace cannot start.');
    case 'away':
      return face.answers
        ? trans.__(
            'The server of this workspace answers with an error since %1.',
            sinceOf(face)
          )
        : trans.__(
            'The server of this workspace does not answer since %1.',
            sinceOf(face)
          );
    case 'gone':
      return trans.__('This workspace does not exist any more.');
    case 'ready':
      switch (face.provenance) {
        case 'restored':
          return trans.__(
            'This workspace is back: the same processes go on, with all that was in them.'
          );
        case 'recovered':
          return trans.__(
            'This workspace is back: new processes have loaded the checkpoints.'
          );
        case 'fresh':
          return trans.__(
            'This workspace is back, but it has started fresh: its memory was not restored.'
          );
        default:
          return trans.__('This workspace is back.');
      }
    default:
      return '';
  }
}

/** What is safe, and what can be done; may be empty. */
export function workspaceHint(
  face: WorkspaceFace,
  hasBackend: boolean,
  trans: TranslationBundle
): string {
  if (face.problem) {
    return `${face.problem.message} ${face.problem.hint}`.trim();
  }
  switch (face.phase) {
    case 'pausing':
      if (face.operation?.phase === 'checkpointing') {
        return trans.__(
          'The connection will be cut when the checkpoints are written. This tab may be closed.'
        );
      }
      return hasBackend
        ? trans.__(
            'This tab may be closed. It can be resumed here, or on the Workspaces page of the cluster.'
          )
        : trans.__(
            'This tab may be closed. It can be resumed on the Workspaces page of the cluster.'
          );
    case 'paused':
      return pausedHint(face, trans);
    case 'waiting':
      return secondsOf(face) > LONG_WAIT
        ? trans.__(
            'A node is usually there within 10 minutes. Quota or stock may be short: who runs the cluster can tell. Nothing is lost by waiting.'
          )
        : trans.__(
            'A node that has to be added usually takes 5 to 10 minutes. Nothing has to be done; this tab may be closed.'
          );
    case 'restoring':
      return trans.__('This page goes on by itself when it is ready.');
    case 'failed':
      return trans.__(
        'Checkpoints and files are untouched. The Workspaces page of the cluster tells more.'
      );
    case 'away':
      return trans.__(
        'It is asked again by itself. What is unsaved in this tab stays here.'
      );
    case 'gone':
      return trans.__(
        'Somebody has deleted it. Copy what is unsaved out of this tab before you close it.'
      );
    case 'ready':
      return face.provenance === 'fresh'
        ? trans.__(
            'The checkpoints of its kernels can be restored from the panel.'
          )
        : '';
    default:
      return '';
  }
}

function pausedHint(
  { stateless, checkpointed }: WorkspaceFace,
  trans: TranslationBundle
): string {
  if (stateless === null) {
    return trans.__(
      'What became of its memory is told when it is back. What is unsaved in this tab stays here.'
    );
  }
  if (stateless) {
    return checkpointed
      ? trans.__(
          'Its memory was not kept; kernels come back from their checkpoints. What is unsaved in this tab stays here.'
        )
      : trans.__(
          'Its memory was not kept; kernels that have a checkpoint come back from it. What is unsaved in this tab stays here.'
        );
  }
  return checkpointed
    ? trans.__(
        'Its memory is in a snapshot, its checkpoints are on the home volume. What is unsaved in this tab stays here.'
      )
    : trans.__(
        'Its memory is in a snapshot. What is unsaved in this tab stays here.'
      );
}

/** The status bar's text: the word, and the one number that matters now. */
export function workspaceLine(
  face: WorkspaceFace,
  trans: TranslationBundle
): string {
  const { word } = workspaceLabel(face, trans);
  const timed = ['paused', 'waiting', 'away'].includes(face.phase);
  return timed && face.since !== null
    ? trans.__('Workspace: %1, %2', word, age(secondsOf(face), trans))
    : trans.__('Workspace: %1', word);
}

/** Until when the snapshot that was taken is kept; empty where that is not known. */
export function keepsText(
  { snapshot }: Pick<WorkspaceStatus, 'snapshot'>,
  trans: TranslationBundle
): string {
  return snapshot?.keeps_until
    ? trans.__(
        'The snapshot is kept until %1; after that it starts fresh.',
        localTime(snapshot.keeps_until)
      )
    : '';
}

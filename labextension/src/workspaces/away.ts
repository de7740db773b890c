/**
 * What the Workspaces backend's words mean for the user while the server does not answer. Pure
 * functions of what they are given; the order of the rules is that in which Kubeflow's controller
 * derives its state.
 */

import type { Listed } from './backend';
import type { IWorkspaceTab } from './tokens';

/** What is so with a workspace whose server does not answer. */
export type AwayPhase =
  /** Its memory is being kept, or its pod is being stopped. */
  | 'pausing'
  | 'paused'
  /** No node has room for it, or none of its kind is there. */
  | 'waiting'
  /** Its pod starts, and its memory comes back. */
  | 'restoring'
  /** It cannot start, in the platform's words. */
  | 'failed'
  /** It is there, says the backend, but its server does not answer. */
  | 'away'
  | 'gone';

/** What this page has seen in the time since the server answered last. */
export type Episode = {
  /** A pause was under way when it went, or is seen to be. */
  pausing: boolean;
  /** It was paused, or a start was seen or asked for. */
  starting: boolean;
};

const UNSCHEDULABLE = /unschedulable|insufficient|nodes are available/i;
/** Letters of the platform's words, at most. */
const WORDS = 180;

/**
 * Whether the workspace is away, so that nothing that is known of its kernels can be relied on, and
 * nothing be asked of them: every surface says of it what its card says.
 */
export function isAway(
  tab: Pick<IWorkspaceTab, 'face'> | null | undefined
): boolean {
  const { served, phase } = tab?.face ?? {};
  return served === false && phase !== 'here' && phase !== 'none';
}

export function awayPhase(
  listed: Listed | null,
  { pausing, starting }: Episode
): AwayPhase {
  if (!listed) {
    return 'gone';
  }
  const { paused, state, stateMessage } = listed;
  if (paused) {
    return state === 'Paused' ? 'paused' : 'pausing';
  }
  switch (state) {
    case 'Paused':
    case 'Pending':
      return 'restoring';
    case 'Terminating':
      return starting ? 'restoring' : 'pausing';
    case 'Error':
      if (UNSCHEDULABLE.test(stateMessage)) {
        return 'waiting';
      }
      // A warning event makes an error of a snapshot that is being taken, too.
      return pausing && !starting ? 'pausing' : 'failed';
    case 'Running':
      return starting ? 'restoring' : 'away';
    default:
      return starting ? 'restoring' : pausing ? 'pausing' : 'away';
  }
}

/** The platform's words without what says it twice, cut where it only goes on. */
export function shortened(words: string): string {
  const told = words
    .replace(/^.*?unschedulable:\s*/i, '')
    .replace(/\s*preemption:.*$/is, '')
    .replace(/\s+/g, ' ')
    .trim();
  return told.length > WORDS ? `${told.slice(0, WORDS - 1)}…` : told;
}

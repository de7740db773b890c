/**
 * What the server says of its workspace, made whole, and of its own life: by that is known what
 * became of the memory while it was away. Pure functions of what they are given.
 */

import type { Provenance, Status } from '../tokens';
import type { Recovery, WorkspaceStatus } from './tokens';

const NOTHING: WorkspaceStatus = {
  state: 'none',
  phase: null,
  since: null,
  provenance: null,
  reason: null,
  message: '',
  hint: '',
  namespace: null,
  name: null,
  node: null,
  operation: null,
  last_operation: null,
  pausable: false,
  why_not: null,
  stateless: null,
  checks: [],
  allowed: [],
  snapshot: null
};

/** Servers of earlier versions, and those in no workspace, leave most of it out. */
export function whole(said: Partial<WorkspaceStatus>): WorkspaceStatus {
  return { ...NOTHING, ...said };
}

/** When the server woke up, and when it started without the memory of a pause. */
export type Lives = { woke?: string; started?: string };

export function livesOf(status: Status | null): Lives {
  return { woke: status?.woke?.woke, started: status?.recovery?.started };
}

/** The start without a memory that is news since `before`. */
export function recoveryOf(
  status: Status | null,
  before: Lives
): Recovery | null {
  const recovery = status?.recovery ?? null;
  return recovery?.started === before.started ? null : recovery;
}

/** What became of the memory since `before`: in the server's words, or else in the cluster's. */
export function provenanceOf(
  status: Status | null,
  before: Lives
): Provenance | null {
  const { woke } = livesOf(status);
  return (
    recoveryOf(status, before)?.provenance ??
    status?.workspace?.provenance ??
    (woke && woke !== before.woke ? 'restored' : null)
  );
}

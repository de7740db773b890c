/**
 * Reads the events of our schema on the server's bus. Only the progress of an operation is taken
 * from them; everything else they say is read from the status, which cannot be missed.
 */

import type { Event } from '@jupyterlab/services';

import type { Operation } from './tokens';

/** What every event of ours is named by. */
const SCHEMA = /gkews\/lifecycle\/v\d+$/;

/** The part of `events/lifecycle/v1.yaml` that the frontend uses. */
export type LifecycleEvent = {
  action: 'state' | 'progress' | 'checkpoints';
  kernel: string | null;
  operation?: Pick<
    Operation,
    | 'id'
    | 'phase'
    | 'step'
    | 'bytes_done'
    | 'bytes_total'
    | 'eta_s'
    | 'cancellable'
  > | null;
};

/** The event, or null if it is of another schema. */
export function readEvent(event: Event.Emission): LifecycleEvent | null {
  return SCHEMA.test(event.schema_id)
    ? (event as unknown as LifecycleEvent)
    : null;
}

/** `before` with what the event says of its progress; null if it says nothing of that. */
export function progressOf(
  event: LifecycleEvent,
  before: Operation
): Operation | null {
  const { action, operation } = event;
  if (action !== 'progress' || operation?.id !== before.id || before.finished) {
    return null;
  }
  const { phase, step, bytes_done, bytes_total, eta_s, cancellable } =
    operation;
  return {
    ...before,
    phase,
    step,
    bytes_done,
    bytes_total,
    eta_s,
    cancellable
  };
}

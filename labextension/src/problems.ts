/**
 * Shows a refusal that no surface is waiting for as a notification that stays. Decides nothing.
 */

import { Notification } from '@jupyterlab/apputils';

import { toProblem } from './api';
import { sentences } from './wording';

/** Show `error`, what is safe and what to do, until the user closes it. */
export function showProblem(error: unknown): void {
  Notification.error(sentences(toProblem(error)), { autoClose: false });
}

/**
 * Shows a refusal that no surface is waiting for as a notification that stays. Decides nothing.
 */

import { Notification } from '@jupyterlab/apputils';

import { toProblem } from './api';

/** Show `error`, what is safe and what to do, until the user closes it. */
export function showProblem(error: unknown): void {
  const { message, hint } = toProblem(error);
  Notification.error(`${message} ${hint}`.trim(), { autoClose: false });
}

/**
 * A pause with the rights of the user, where the server's account has none: every kernel that can
 * writes its checkpoint, then the Workspaces backend is asked, once. Restores nothing.
 */

import type { TranslationBundle } from '@jupyterlab/translation';

import { toProblem } from '../api';
import { whenEnded } from '../ended';
import type {
  GkewsProblem,
  IGkewsModel,
  KernelStatus,
  Operation
} from '../tokens';
import type { IWorkspaceTab } from './tokens';

/** Whether the server may not pause its workspace, but this page can ask as the user. */
export function onlyAsUser({ hasBackend, status }: IWorkspaceTab): boolean {
  return hasBackend && status?.why_not?.reason === 'forbidden';
}

/** A kernel that has no checkpoint now, and why. */
export type Without = { kernel: KernelStatus; why: GkewsProblem };

/**
 * Write a checkpoint of every running kernel, one after the other; those that have none. One with
 * which something else is done just now is left to that.
 */
export async function checkpointAll(
  model: IGkewsModel,
  trans: TranslationBundle
): Promise<Without[]> {
  const without: Without[] = [];
  await model.refresh();
  for (const kernel of model.status?.kernels ?? []) {
    if (kernel.state === 'paused') {
      continue; // from its checkpoint it would be resumed in any case
    }
    if (kernel.state !== 'running') {
      without.push({
        kernel,
        why: {
          reason: 'operation_running',
          message: trans.__(
            'It is being paused or resumed just now, so that no checkpoint was written.'
          ),
          hint: trans.__('Wait for the end of that, then pause the workspace.')
        }
      });
      continue;
    }
    let why: GkewsProblem | null = kernel.why_not;
    if (kernel.pausable) {
      try {
        const operation = await model.takeCheckpoint(kernel.id);
        why = await whyFailed(model, operation, trans);
      } catch (error) {
        why = toProblem(error);
      }
    }
    if (why || !kernel.pausable) {
      without.push({
        kernel,
        why: why ?? {
          reason: 'not_pausable',
          message: trans.__('It cannot be paused.'),
          hint: ''
        }
      });
    }
  }
  return without;
}

/** Why it has failed, once it has ended; null if it has not failed. */
async function whyFailed(
  model: IGkewsModel,
  operation: Operation,
  trans: TranslationBundle
): Promise<GkewsProblem | null> {
  const ended = await whenEnded(model, operation);
  return 'operation' in ended
    ? ended.operation.error
    : {
        // The kernel went, the server was started anew, or it cannot be reached.
        reason: ended.unknown?.reason ?? 'operation_not_found',
        message: trans.__(
          'Whether its checkpoint was written to the end is not known.'
        ),
        hint: trans.__('The panel lists the checkpoints that there are.')
      };
}

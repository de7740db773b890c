/**
 * A pause with the rights of the user, where the server's account has none: every kernel that can
 * writes its checkpoint, then the Workspaces backend is asked, once. Restores nothing.
 */

import type { TranslationBundle } from '@jupyterlab/translation';

import { toProblem } from '../api';
import type {
  GkewsProblem,
  IGkewsModel,
  IWorkspaceTab,
  KernelStatus,
  Operation
} from '../tokens';

/** Whether the server may not pause its workspace, but this page can ask as the user. */
export function onlyAsUser({ hasBackend, status }: IWorkspaceTab): boolean {
  return hasBackend && status?.why_not?.reason === 'forbidden';
}

/** A kernel that has no checkpoint now, and why. */
export type Without = { kernel: KernelStatus; why: GkewsProblem };

/** Write a checkpoint of every running kernel, one after the other; those that have none. */
export async function checkpointAll(
  model: IGkewsModel,
  trans: TranslationBundle
): Promise<Without[]> {
  const without: Without[] = [];
  await model.refresh();
  for (const kernel of model.status?.kernels ?? []) {
    if (kernel.state !== 'running') {
      continue;
    }
    let why: GkewsProblem | null = kernel.why_not;
    if (kernel.pausable) {
      try {
        why = (await ended(model, await model.takeCheckpoint(kernel.id))).error;
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

/** The operation when it has ended. */
function ended(model: IGkewsModel, operation: Operation): Promise<Operation> {
  return new Promise(resolve => {
    const look = () => {
      const now = model.operation(operation.kernel);
      if (now?.id === operation.id && now.finished) {
        model.changed.disconnect(look);
        resolve(now);
      }
    };
    model.changed.connect(look);
    look();
  });
}

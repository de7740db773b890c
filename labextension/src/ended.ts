/**
 * Waits until an operation has ended, as the model sees it. Starts nothing.
 */

import type { GkewsProblem, IGkewsModel, Operation } from './tokens';

/** How it has ended, or why that is not known: the server went, or has forgotten it. */
export type Ended = { operation: Operation } | { unknown: GkewsProblem | null };

/**
 * Resolves once the operation has ended, or once its end cannot be seen any more: what waits for it
 * must not go on by itself an hour later, when the server is there again.
 */
export function whenEnded(
  model: IGkewsModel,
  { id, kernel }: Operation
): Promise<Ended> {
  return new Promise(resolve => {
    const look = () => {
      const now = model.operation(kernel);
      const gone = model.problem?.reason === 'server_unreachable';
      if (now?.id === id && !now.finished && !gone) {
        return;
      }
      model.changed.disconnect(look);
      resolve(
        now?.id === id && now.finished
          ? { operation: now }
          : { unknown: gone ? model.problem : null }
      );
    };
    model.changed.connect(look);
    look();
  });
}

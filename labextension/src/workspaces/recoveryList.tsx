/**
 * The notebooks of a pause whose memory did not come back, each with its state, and the buttons by
 * which the user says whether they shall be resumed. Draws rows and runs commands.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';

import { CommandIDs } from '../tokens';
import type { RecoveryRow } from './recovery';
import { canBeResumed, recoveryLabel } from './recovery';

interface IRecoveryProps {
  rows: RecoveryRow[];
  commands: CommandRegistry;
  trans: TranslationBundle;
}

/** `single`: with a button for each of them. */
export function RecoveryList(
  props: IRecoveryProps & { single?: boolean }
): JSX.Element {
  const { rows, commands, trans, single } = props;
  return (
    <ul
      className="jp-gkews-Recovery"
      tabIndex={0}
      aria-label={trans.__('Notebooks of the pause')}
    >
      {rows.map(row => {
        const { icon, tone, word } = recoveryLabel(row, trans);
        const { kernel, name, said, state, checkpoint } = row;
        return (
          <li key={kernel} className={`jp-gkews-mod-${tone}`}>
            <icon.react tag="span" className="jp-gkews-Icon" />
            <div>
              <p>
                <strong>{name}</strong> {word}
              </p>
              {said && <p className="jp-gkews-Muted">{said}</p>}
            </div>
            {single && canBeResumed(row) && (
              <button
                type="button"
                className="jp-gkews-Button"
                aria-label={trans.__('Resume %1', name)}
                onClick={() =>
                  void commands.execute(CommandIDs.resume, { kernelId: kernel })
                }
              >
                {state === 'failed'
                  ? trans.__('Try again')
                  : trans.__('Resume')}
              </button>
            )}
            {single && state === 'lost' && checkpoint && (
              <button
                type="button"
                className="jp-gkews-Button"
                title={trans.__('Load it into a new kernel for its notebook')}
                aria-label={trans.__('Restore %1 in a new kernel', name)}
                onClick={() =>
                  void commands.execute(CommandIDs.restore, { checkpoint })
                }
              >
                {trans.__('In a new kernel')}
              </button>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** Yes, and no; nothing once there is nothing to be said of. */
export function RecoveryButtons(props: IRecoveryProps): JSX.Element | null {
  const { rows, commands, trans } = props;
  const waiting = rows.filter(canBeResumed).length;
  if (!waiting) {
    return null;
  }
  return (
    <>
      <button
        type="button"
        className="jp-gkews-Button jp-gkews-mod-primary"
        disabled={!commands.isEnabled(CommandIDs.resumeAll)}
        onClick={() => void commands.execute(CommandIDs.resumeAll)}
      >
        {waiting === 1 ? trans.__('Resume') : trans.__('Resume all')}
      </button>
      <button
        type="button"
        className="jp-gkews-Button"
        disabled={!commands.isEnabled(CommandIDs.startFresh)}
        onClick={() => void commands.execute(CommandIDs.startFresh)}
      >
        {trans.__('Start fresh…')}
      </button>
    </>
  );
}

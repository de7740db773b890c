/**
 * The section of the panel about the last time that the server came back from a pause: with its
 * memory, or without and what became of the kernels then. Draws the model.
 */

import React from 'react';

import { duration, localTime } from '../format';
import { restoredIcon } from '../icons';
import type { ISectionProps } from '../panel/panel';
import type { Status } from '../tokens';
import { canBeResumed, recoveryHint, recoveryRows } from './recovery';
import { RecoveryButtons, RecoveryList } from './recoveryList';
import type { Recovery, WakeUp } from './tokens';

/** The later one of the two ways to come back. */
export function lastReturn(
  status: Status | null
): { woke: WakeUp } | { recovery: Recovery } | null {
  const { woke, recovery } = status ?? {};
  if (woke && (!recovery || woke.woke > recovery.started)) {
    return { woke };
  }
  return recovery ? { recovery } : null;
}

export function LastReturnSection(props: ISectionProps): JSX.Element | null {
  const { model, trans } = props;
  const last = lastReturn(model.status);
  if (!last) {
    return null;
  }
  const when = 'woke' in last ? last.woke.woke : last.recovery.started;
  return (
    <section
      className="jp-gkews-Section jp-gkews-LastReturn"
      aria-label={trans.__('Last return')}
    >
      <div className="jp-gkews-Section-heading">
        <h3>{trans.__('Last return')}</h3>
        <span className="jp-gkews-Muted" title={when}>
          {localTime(when)}
        </span>
      </div>
      {'woke' in last ? (
        <Woke {...props} woke={last.woke} />
      ) : (
        <Recovered {...props} recovery={last.recovery} />
      )}
    </section>
  );
}

function Woke(props: ISectionProps & { woke: WakeUp }): JSX.Element {
  const { model, trans, woke } = props;
  const { away_s, paused, changed_files, hooks_failed, trouble } = woke;
  const nameOfKernel = (id: string) => model.kernel(id)?.path ?? id;
  const troubles = [
    ...Object.values(trouble),
    ...Object.entries(hooks_failed).flatMap(([kernel, failed]) =>
      Object.entries(failed).map(([name, error]) =>
        trans.__(
          'on_resume function %1 of %2 has failed: %3',
          name,
          nameOfKernel(kernel),
          error
        )
      )
    ),
    ...changed_files.map(file =>
      trans.__('%1 was changed on the volume meanwhile', file)
    )
  ];
  return (
    <>
      <p className="jp-gkews-State-word jp-gkews-mod-good" title={paused}>
        <restoredIcon.react tag="span" className="jp-gkews-Icon" />
        <strong>{trans.__('Restored')}</strong>
        <span className="jp-gkews-Muted">
          {trans.__('after %1', duration(away_s, trans))}
        </span>
      </p>
      <p className="jp-gkews-State-sentence">
        {trans.__('The same processes go on, with all that was in them.')}
      </p>
      {troubles.length > 0 && (
        <ul className="jp-gkews-Met">
          {troubles.map(sentence => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
      )}
    </>
  );
}

function Recovered(props: ISectionProps & { recovery: Recovery }): JSX.Element {
  const { model, commands, trans, recovery } = props;
  const rows = recoveryRows(recovery, model, trans);
  const buttons = { rows, commands, trans };
  return (
    <>
      <p className="jp-gkews-State-sentence" title={recovery.paused}>
        {trans.__(
          'The memory of the pause at %1 did not come back: the server has started anew.',
          localTime(recovery.paused)
        )}{' '}
        {recoveryHint(rows, trans)}
      </p>
      <RecoveryList {...buttons} single />
      {rows.filter(canBeResumed).length > 0 && (
        <div className="jp-gkews-Actions">
          <RecoveryButtons {...buttons} />
        </div>
      )}
    </>
  );
}

/**
 * An error as the panel and the dialogs show it: what happened, then what is safe and what to do.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { warningIcon } from '../icons';
import type { GkewsProblem } from '../tokens';

export function Problem(props: {
  problem: Pick<GkewsProblem, 'message' | 'hint'>;
}): JSX.Element {
  const { message, hint } = props.problem;
  return (
    <div className="jp-gkews-Problem" role="alert">
      <warningIcon.react tag="span" className="jp-gkews-Icon" />
      <div>
        <p>{message}</p>
        {hint && <p className="jp-gkews-Muted">{hint}</p>}
      </div>
    </div>
  );
}

/**
 * Why a process could not be restored, and what each of the ways on means. `checkpoint`: whether
 * there is one, so that it is a way on.
 */
export function FailedRestoreBody(props: {
  problem: Pick<GkewsProblem, 'message' | 'hint'>;
  checkpoint: boolean;
  trans: TranslationBundle;
}): JSX.Element {
  const { problem, checkpoint, trans } = props;
  return (
    <div className="jp-gkews-FailedRestore">
      <Problem problem={problem} />
      <dl>
        <dt>{trans.__('Try again')}</dt>
        <dd>
          {trans.__(
            'once what is missing is back: the same process goes on, with all that is in it.'
          )}
        </dd>
        {checkpoint && (
          <>
            <dt>{trans.__('From the checkpoint')}</dt>
            <dd>
              {trans.__(
                'a new process loads the variables. Threads, generators and open connections are lost, and the snapshot is deleted once that has succeeded.'
              )}
            </dd>
          </>
        )}
      </dl>
    </div>
  );
}

/**
 * An error as the panel and the dialog show it: what happened, then what is safe and what to do.
 */

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

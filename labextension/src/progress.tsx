/**
 * A bar for a running operation: full width, with or without a measure. Draws only.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { Progress } from './tokens';
import { kindWord, percent, progressText } from './wording';

export function ProgressBar(props: {
  operation: Progress;
  trans: TranslationBundle;
}): JSX.Element {
  const { operation, trans } = props;
  const share = percent(operation);
  return (
    <div
      className={`jp-gkews-Progress${share === null ? ' jp-gkews-mod-unmeasured' : ''}`}
      role="progressbar"
      aria-label={kindWord(operation.kind, trans)}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={share ?? undefined}
      aria-valuetext={progressText(operation, trans)}
    >
      <div style={share === null ? undefined : { width: `${share}%` }} />
    </div>
  );
}

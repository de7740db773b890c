/**
 * What a process snapshot has that the checkpoint alone has not: before a pause with what it costs
 * or what stands in its way, and while a kernel is paused with what is frozen.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import { duration, size } from '../format';
import { restoredIcon, warningIcon } from '../icons';
import { holdsText, keepsText, wouldFreeze } from '../snapshots';
import type { Outlook } from '../tokens';

export function OutlookNote(props: {
  outlook: Outlook;
  trans: TranslationBundle;
}): JSX.Element {
  const { outlook, trans } = props;
  const { objections, estimate, taken } = outlook;
  if (objections && objections.length > 0) {
    return (
      <div className="jp-gkews-Outlook jp-gkews-mod-warn" role="note">
        <warningIcon.react tag="span" className="jp-gkews-Icon" />
        <div>
          <p>
            {trans.__(
              'The process itself cannot be frozen now. A pause rests on the checkpoint:'
            )}
          </p>
          <ul>
            {objections.map(({ what, reason, hint }) => (
              <li key={what}>
                <strong>{what}</strong>
                {`: ${reason}.`}
                <span className="jp-gkews-Muted">{` ${hint}`}</span>
              </li>
            ))}
          </ul>
        </div>
      </div>
    );
  }
  const held = holdsText(outlook.holds, trans);
  const keeps = outlook.keeps.map(text => keepsText(text, trans));
  return (
    <div className="jp-gkews-Outlook jp-gkews-mod-good" role="note">
      <restoredIcon.react tag="span" className="jp-gkews-Icon" />
      <div>
        <p>
          <strong>
            {taken
              ? trans.__('The process is frozen on disk.')
              : wouldFreeze(outlook)
                ? trans.__('The process itself is frozen, too.')
                : trans.__('The process itself is frozen, too, if it can be.')}
          </strong>{' '}
          {taken
            ? trans.__('A resume brings the same one back, with:')
            : trans.__('Beyond the checkpoint, a resume brings back:')}{' '}
          {`${keeps.join('; ')}.`}
        </p>
        {held && (
          <p>
            {taken
              ? trans.__('In it: %1.', held)
              : trans.__('In it now: %1.', held)}
          </p>
        )}
        {estimate && (
          <p className="jp-gkews-Muted">
            {trans.__(
              'About %1 on disk, %2 to freeze and %3 to bring back.',
              size(estimate.image_bytes),
              duration(estimate.seconds, trans),
              duration(estimate.restore_seconds, trans)
            )}
          </p>
        )}
      </div>
    </div>
  );
}

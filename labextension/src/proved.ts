/**
 * How a checkpoint was proved, in words. Pure functions of what they are given.
 */

import type { TranslationBundle } from '@jupyterlab/translation';

import { localTime } from './format';
import type { Proved } from './tokens';

/** How a checkpoint was proved, in one or two words. */
export function provedWord(proved: Proved, trans: TranslationBundle): string {
  switch (proved.how) {
    case 'scratch':
      return trans.__('proved');
    case 'read-back':
      return trans.__('read back');
    default:
      return trans.__('not proved');
  }
}

/** The same in full. */
export function provedText(proved: Proved, trans: TranslationBundle): string {
  const { how, why, by, when, partly } = proved;
  let text: string;
  if (how === 'scratch' && why && when) {
    text = trans.__(
      'Proved by the test load of %1 (%2): nothing has changed since.',
      by ?? '',
      localTime(when)
    );
  } else if (how === 'scratch') {
    text = trans.__('Proved: another process loaded it and found it equal.');
  } else if (how === 'read-back') {
    text = trans.__(
      'Its bytes were read back from the disk; whether it loads was not tried: %1.',
      why ?? ''
    );
  } else {
    text = trans.__('Not proved: %1.', why ?? '');
  }
  if (partly.length > 0) {
    text += ' ';
    text += trans.__(
      'Not all objects were compared of: %1.',
      partly.slice(0, 5).join(', ')
    );
  }
  return text;
}

/**
 * The section of the panel about the workspace: its state, what a pause would meet, and the one
 * action that makes sense now. Draws the tab.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';

import { Problem } from '../panel/problem';
import type { IWorkspaceTab } from './tokens';
import { CommandIDs } from '../tokens';
import { sentences } from '../wording';
import { onlyAsUser } from './asUser';
import {
  keepsText,
  workspaceHint,
  workspaceLabel,
  workspaceSentence
} from './wording';

export function WorkspaceSection(props: {
  tab: IWorkspaceTab;
  commands: CommandRegistry;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { tab, commands, trans } = props;
  const { face, status } = tab;
  if (face.phase === 'none') {
    return null;
  }
  const { icon, word, tone } = workspaceLabel(face, trans);
  const still = face.phase === 'here' || face.phase === 'ready';
  const met = (status?.checks ?? []).filter(({ passed }) => passed !== true);
  const denied = (status?.allowed ?? []).filter(({ allowed }) => !allowed);
  const failed = status?.last_operation?.error;
  return (
    <section
      className={`jp-gkews-State jp-gkews-Workspace jp-gkews-mod-${tone}`}
      aria-label={trans.__('Workspace')}
    >
      <div className="jp-gkews-State-word">
        <icon.react tag="span" className="jp-gkews-Icon" />
        <strong>{trans.__('Workspace: %1', word)}</strong>
        <span className="jp-gkews-Muted">
          {[tab.name, status?.node].filter(part => part).join(' · ')}
        </span>
      </div>
      {!still && (
        <p className="jp-gkews-State-sentence">
          {workspaceSentence(face, trans)} {face.why}
        </p>
      )}
      {!still && (
        <p className="jp-gkews-Muted">
          {workspaceHint(face, tab.hasBackend, trans)}
        </p>
      )}
      {face.phase === 'paused' && tab.hasBackend && !face.signedOut && (
        <div className="jp-gkews-Actions">
          <button
            type="button"
            className="jp-gkews-Button jp-gkews-mod-primary"
            disabled={!face.canResume}
            onClick={() => void commands.execute(CommandIDs.resumeWorkspace)}
          >
            {trans.__('Resume Workspace')}
          </button>
        </div>
      )}
      {still && failed && failed.reason !== 'cancelled' && (
        <Problem problem={failed} />
      )}
      {still && status?.why_not && <Problem problem={status.why_not} />}
      {still && status?.pausable && (
        <p className="jp-gkews-State-sentence">
          {status.stateless === true
            ? trans.__(
                'A pause would lose its memory; kernels come back from their checkpoints.'
              )
            : status.stateless === false
              ? trans.__(
                  'A pause keeps the memory of all its processes and gives the accelerator back.'
                )
              : trans.__(
                  'Whether a pause would keep its memory is not known.'
                )}{' '}
          {keepsText(status, trans)}
        </p>
      )}
      {still && met.length + denied.length > 0 && (
        <details className="jp-gkews-Process">
          <summary>
            {trans.__(
              'What a pause would meet (%1)',
              met.length + denied.length
            )}
          </summary>
          <ul className="jp-gkews-Met">
            {met.map(check => (
              <li key={check.id}>{sentences(check)}</li>
            ))}
            {denied.map(({ id, without }) => (
              <li key={`may-${id}`}>{without}</li>
            ))}
          </ul>
        </details>
      )}
      {still && (status?.pausable || onlyAsUser(tab)) && (
        <div className="jp-gkews-Actions">
          <button
            type="button"
            className="jp-gkews-Button"
            onClick={() => void commands.execute(CommandIDs.pauseWorkspace)}
          >
            {trans.__('Pause Workspace…')}
          </button>
        </div>
      )}
    </section>
  );
}

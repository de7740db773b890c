/**
 * The dialogs before the workspace goes away: what will happen to it, to its memory and to each
 * kernel, and what to do tomorrow. Ask and answer; nothing is started here.
 */

import { Dialog, ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { GkewsProblem, KernelStatus } from '../tokens';
import type { WorkspacePauseHow, WorkspaceStatus } from './tokens';
import { nameOf, sentences } from '../wording';
import { keepsText } from './wording';

/** Whether the page can ask the backend, and whether only the page can. */
export interface IPageRights {
  hasBackend: boolean;
  asUser: boolean;
}

/** What a pause would meet, told before it is asked for. */
function Outlook(props: {
  status: WorkspaceStatus;
  kernels: KernelStatus[];
  page: IPageRights;
  trans: TranslationBundle;
}): JSX.Element {
  const { status, kernels, page, trans } = props;
  const { hasBackend, asUser } = page;
  const { stateless, checks } = status;
  const running = kernels.filter(({ state }) => state === 'running');
  const without = running.filter(({ pausable }) => !pausable);
  const busy = running.filter(
    ({ execution_state }) => execution_state === 'busy'
  );
  const costly = checks.filter(
    ({ costs, passed }) => costs === 'memory' && passed === false
  );
  const risks = checks.filter(
    ({ costs, passed }) => costs === 'risk' && passed === false
  );
  const unknown = checks.filter(({ passed }) => passed === null);
  return (
    <div className="jp-gkews-WorkspaceDialog">
      <p>
        {trans._n(
          'A checkpoint of %1 running kernel is written to the home volume. Then the whole workspace stops, and its accelerator goes back to the pool.',
          'Checkpoints of %1 running kernels are written to the home volume. Then the whole workspace stops, and its accelerator goes back to the pool.',
          running.length
        )}
      </p>
      {stateless === true && (
        <div className="jp-gkews-Note jp-gkews-mod-bad" role="alert">
          <p>
            <strong>{trans.__('The memory will be lost.')}</strong>{' '}
            {trans.__(
              'No snapshot of the workspace can be taken. Tomorrow the kernels are started anew and load their checkpoints: variables come back; threads, generators, open connections and terminals do not.'
            )}
          </p>
          <Sentences items={costly} />
        </div>
      )}
      {stateless === false && (
        <p>
          {trans.__(
            'Its memory is kept in a snapshot: tomorrow the same processes go on, with what is in the GPU. If the snapshot cannot be restored, the kernels come back from their checkpoints.'
          )}
        </p>
      )}
      {stateless === null && (
        <p className="jp-gkews-Note">
          {asUser
            ? trans.__(
                'Whether a snapshot can be taken is not known. If none can, the memory is lost.'
              )
            : trans.__(
                'Whether a snapshot can be taken is not known. If none can, the pause is not carried out, and everything goes on.'
              )}
        </p>
      )}
      {asUser && (
        <p className="jp-gkews-Note">
          {trans.__(
            'The account of this server may not pause the workspace: the Workspaces backend is asked in your name. If the memory does not come back, restore the checkpoints from the panel.'
          )}
        </p>
      )}
      {busy.length > 0 && (
        <p className="jp-gkews-Note">
          {trans._n(
            'In %1 notebook a cell is running; the pause waits for its end, unless you interrupt it.',
            'In %1 notebooks cells are running; the pause waits for their end, unless you interrupt them.',
            busy.length
          )}{' '}
          {busy.map(nameOf).join(', ')}
        </p>
      )}
      {without.length > 0 && (
        <div className="jp-gkews-Note">
          <p>{trans.__('Of these no checkpoint can be written:')}</p>
          <ul>
            {without.map(kernel => (
              <li key={kernel.id}>
                <strong>{nameOf(kernel)}</strong>
                {kernel.why_not && `: ${kernel.why_not.message}`}
              </li>
            ))}
          </ul>
        </div>
      )}
      <Sentences
        title={trans.__('This may make the snapshot fail or useless:')}
        items={risks}
      />
      <Sentences
        title={trans.__('This is not known, for want of rights:')}
        items={unknown}
        quiet
      />
      <p className="jp-gkews-Muted">
        {trans.__(
          'The connection of this page is cut meanwhile. You may close the tab.'
        )}{' '}
        {hasBackend
          ? trans.__(
              'Tomorrow: Resume, in this tab if it is still open, or on the Workspaces page of the cluster.'
            )
          : trans.__('Tomorrow: resume it on the Workspaces page.')}{' '}
        {keepsText(status, trans)}
      </p>
    </div>
  );
}

function Sentences(props: {
  items: { id: string; message: string; hint: string }[];
  title?: string;
  quiet?: boolean;
}): JSX.Element | null {
  const { items, title, quiet } = props;
  return items.length ? (
    <div className={quiet ? 'jp-gkews-Muted' : undefined}>
      {title && <p>{title}</p>}
      <ul>
        {items.map(item => (
          <li key={item.id}>{sentences(item)}</li>
        ))}
      </ul>
    </div>
  ) : null;
}

/** Ask whether to pause the workspace, and how; null if not. */
export async function askToPauseWorkspace(
  status: WorkspaceStatus,
  kernels: KernelStatus[],
  page: IPageRights,
  trans: TranslationBundle
): Promise<WorkspacePauseHow | null> {
  const stateless = status.stateless === true;
  const busy = kernels.some(
    ({ state, execution_state }) =>
      state === 'running' && execution_state === 'busy'
  );
  const buttons = [Dialog.cancelButton({ label: trans.__('Cancel') })];
  if (busy && !page.asUser) {
    buttons.push(
      Dialog.warnButton({
        label: trans.__('Interrupt and pause'),
        caption: trans.__('Interrupt the running cells once, then pause'),
        actions: ['interrupt']
      })
    );
  }
  const last = {
    label: stateless
      ? trans.__('Pause without the memory')
      : trans.__('Pause Workspace'),
    actions: ['idle']
  };
  buttons.push(stateless ? Dialog.warnButton(last) : Dialog.okButton(last));
  const { button } = await launch(
    trans.__('Pause the workspace %1?', status.name ?? ''),
    <Outlook status={status} kernels={kernels} page={page} trans={trans} />,
    buttons
  );
  return button.accept
    ? { when: button.actions[0] as 'idle' | 'interrupt', stateless }
    : null;
}

/** Ask whether to go on although some kernels have no checkpoint. */
export async function askWithoutCheckpoint(
  without: { kernel: string; name: string; why: GkewsProblem }[],
  trans: TranslationBundle
): Promise<boolean> {
  const { button } = await launch(
    trans.__('Pause although checkpoints are missing?'),
    <div className="jp-gkews-WorkspaceDialog">
      <p>
        {trans.__(
          'The workspace runs on; nothing was asked of the cluster. These kernels have no checkpoint, so that they are lost if the snapshot cannot be restored:'
        )}
      </p>
      <ul>
        {without.map(({ kernel, name, why }) => (
          <li key={kernel}>
            <strong>{name}</strong>: {sentences(why)}
          </li>
        ))}
      </ul>
    </div>,
    [
      Dialog.cancelButton({ label: trans.__('Not now') }),
      Dialog.warnButton({ label: trans.__('Pause all the same') })
    ]
  );
  return button.accept;
}

function launch(
  title: string,
  body: JSX.Element,
  buttons: Dialog.IButton[]
): Promise<Dialog.IResult<unknown>> {
  const dialog = new Dialog({
    title,
    body: ReactWidget.create(body),
    buttons
  });
  dialog.addClass('jp-gkews-Dialog');
  return dialog.launch();
}

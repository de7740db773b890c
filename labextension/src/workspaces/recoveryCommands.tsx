/**
 * The answers to a cold start: resume every notebook of the pause from its checkpoint, or start
 * fresh. Deletes no checkpoint, whatever the answer is.
 */

import { Dialog, ReactWidget } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';

import { whenEnded } from '../ended';
import { resumeIcon } from '../icons';
import { showProblem } from '../problems';
import type { IGkewsModel } from '../tokens';
import { CommandIDs } from '../tokens';
import { isAway } from './away';
import type { RecoveryRow } from './recovery';
import { canBeResumed, recoveryRows } from './recovery';
import type { IWorkspaceTab } from './tokens';

export interface IRecoveryCommandOptions {
  commands: CommandRegistry;
  model: IGkewsModel;
  tab: IWorkspaceTab;
  kernels: Pick<Kernel.IManager, 'shutdown'>;
  trans: TranslationBundle;
}

export function addRecoveryCommands(options: IRecoveryCommandOptions): void {
  const { commands, model, tab, trans } = options;
  const waiting = (): RecoveryRow[] => {
    const recovery = model.status?.recovery;
    return recovery
      ? recoveryRows(recovery, model, trans).filter(canBeResumed)
      : [];
  };
  let works = false;
  const isEnabled = () => !works && !isAway(tab) && waiting().length > 0;
  const isVisible = () => !!model.status?.recovery;
  const doing = (work: () => Promise<void>) => async (): Promise<void> => {
    if (!isEnabled()) {
      return;
    }
    works = true;
    try {
      await work();
    } catch (error) {
      showProblem(error);
    } finally {
      works = false;
      await model.refresh(); // what is drawn looks at `works`, too
    }
  };

  commands.addCommand(CommandIDs.resumeAll, {
    label: trans.__('Resume the Notebooks of the Pause'),
    caption: trans.__(
      'Load the checkpoint of each, one after another, into a new process'
    ),
    icon: resumeIcon,
    isVisible,
    isEnabled,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: doing(() => resumeAll(options, waiting()))
  });

  commands.addCommand(CommandIDs.startFresh, {
    label: trans.__('Start Fresh After the Pause…'),
    caption: trans.__('End the kernels that wait; their checkpoints stay'),
    isVisible,
    isEnabled,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: doing(async () => {
      if (await askToStartFresh(waiting(), trans)) {
        await startFresh(options, waiting());
      }
    })
  });
}

/** One after another: together they might need more memory than there is. */
async function resumeAll(
  { commands, model, tab }: IRecoveryCommandOptions,
  rows: RecoveryRow[]
): Promise<void> {
  for (const { kernel } of rows) {
    if (isAway(tab) || model.problem) {
      return;
    }
    if (model.kernel(kernel)?.state !== 'paused') {
      continue; // a click, a cell or another tab was faster
    }
    // It asks first where the environment is another one, and tells a refusal itself.
    await commands.execute(CommandIDs.resume, { kernelId: kernel });
    const operation = model.operation(kernel);
    if (operation && !operation.finished) {
      await whenEnded(model, operation);
    }
  }
}

async function startFresh(
  { kernels, model }: IRecoveryCommandOptions,
  rows: RecoveryRow[]
): Promise<void> {
  await model.refresh();
  for (const { kernel } of rows) {
    // One that was resumed while the question stood there is in use.
    if (model.kernel(kernel)?.state === 'paused') {
      await kernels.shutdown(kernel);
    }
  }
  void model.loadCheckpoints();
}

async function askToStartFresh(
  rows: RecoveryRow[],
  trans: TranslationBundle
): Promise<boolean> {
  const dialog = new Dialog({
    title: trans.__('Start fresh, without the variables?'),
    body: ReactWidget.create(
      <div className="jp-gkews-WorkspaceDialog">
        <p>
          {trans.__(
            'The kernels of these notebooks are ended, and each starts empty when you choose a kernel for it:'
          )}
        </p>
        <ul>
          {rows.map(({ kernel, name, said }) => (
            <li key={kernel}>
              <strong>{name}</strong>
              {said && `: ${said}`}
            </li>
          ))}
        </ul>
        <p>
          {trans.__(
            'Nothing is deleted: the checkpoints stay in the panel, and can be restored into a kernel from there. The notebook files stay as they are.'
          )}
        </p>
      </div>
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Start fresh') })
    ],
    defaultButton: 0 // what waits is not ended by an Enter too many
  });
  dialog.addClass('jp-gkews-Dialog');
  const { button } = await dialog.launch();
  return button.accept;
}

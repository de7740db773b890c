/**
 * The commands of the workspace: pause it, after saying what will happen, and resume it. They ask
 * the user where the user has to be asked, and hand the work to the tab.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';

import { GkewsError } from '../api';
import { pauseIcon, resumeIcon } from '../icons';
import { showProblem } from '../problems';
import type { IGkewsModel } from '../tokens';
import type {
  IWorkspaceTab,
  WorkspaceOperation,
  WorkspacePauseHow
} from './tokens';
import { CommandIDs } from '../tokens';
import { nameOf } from '../wording';
import { checkpointAll, onlyAsUser } from './asUser';
import { askToPauseWorkspace, askWithoutCheckpoint } from './pauseDialog';

export interface IWorkspaceCommandOptions {
  commands: CommandRegistry;
  tab: IWorkspaceTab;
  model: IGkewsModel;
  trans: TranslationBundle;
}

export function addWorkspaceCommands(options: IWorkspaceCommandOptions): void {
  const { commands, tab, model, trans } = options;
  /** How the last pause of this page was asked for. */
  let asked: WorkspacePauseHow = {};

  const askAsUser = async (): Promise<void> => {
    if (!(await tab.pauseAsUser())) {
      throw new GkewsError(
        {
          reason: 'not_pausable',
          message: trans.__(
            'The workspace was not paused from here: it does not run, or somebody else was first.'
          ),
          hint: trans.__(
            'The checkpoints that were written stay. The Workspaces page of the cluster tells what is so.'
          )
        },
        409
      );
    }
  };

  const pause = async (): Promise<void> => {
    // What stood in the way an hour ago may be gone, and the other way round.
    const [status] = await Promise.all([tab.judge(), model.refresh()]);
    const asUser = onlyAsUser(tab);
    if (!status.pausable && !asUser) {
      throw new GkewsError(
        status.why_not ?? {
          reason: 'not_pausable',
          message: trans.__('The workspace cannot be paused now.'),
          hint: ''
        },
        409
      );
    }
    const how = await askToPauseWorkspace(
      status,
      model.status?.kernels ?? [],
      { hasBackend: tab.hasBackend, asUser },
      trans
    );
    if (how && asUser) {
      const without = await checkpointAll(model, trans);
      const lost = without.map(({ kernel, why }) => ({
        kernel: kernel.id,
        name: nameOf(kernel),
        why
      }));
      if (!lost.length || (await askWithoutCheckpoint(lost, trans))) {
        await askAsUser();
      }
    } else if (how) {
      asked = how;
      await tab.pause(how);
    }
  };

  commands.addCommand(CommandIDs.pauseWorkspace, {
    label: trans.__('Pause Workspace…'),
    caption: () =>
      tab.status?.why_not?.message ??
      trans.__('Keep everything, stop the pod and give its accelerator back'),
    icon: pauseIcon,
    isVisible: () => tab.face.phase !== 'none',
    isEnabled: () =>
      tab.face.served &&
      (tab.face.phase === 'here' || tab.face.phase === 'ready') &&
      (!!tab.status?.pausable || onlyAsUser(tab)),
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => pause().catch((error: unknown) => showProblem(error))
  });

  commands.addCommand(CommandIDs.resumeWorkspace, {
    label: trans.__('Resume Workspace'),
    caption: trans.__('Start its pod again; this page goes on by itself'),
    icon: resumeIcon,
    isVisible: () => tab.face.phase !== 'none',
    isEnabled: () => tab.face.canResume,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => tab.resume().catch((error: unknown) => showProblem(error))
  });

  tab.failed.connect((_, operation) => {
    void (async () => {
      if (lacksCheckpoints(operation)) {
        const lost = operation.kernels.flatMap(
          ({ kernel, path, name, why_not }) =>
            why_not
              ? [
                  {
                    kernel,
                    name: nameOf({ path, display_name: name }),
                    why: why_not
                  }
                ]
              : []
        );
        if (await askWithoutCheckpoint(lost, trans)) {
          asked = { ...asked, when: 'idle', withoutCheckpoint: true };
          await tab.pause(asked);
        }
      } else if (operation.error?.reason !== 'cancelled') {
        showProblem(new GkewsError(operation.error!, 0));
      }
    })().catch((error: unknown) => showProblem(error));
  });

  tab.changed.connect(() => commands.notifyCommandChanged());
}

/** Whether it has failed before anything was asked, for kernels without a checkpoint. */
function lacksCheckpoints({
  kernels,
  error,
  phase
}: WorkspaceOperation): boolean {
  return (
    error?.reason !== 'cancelled' &&
    phase === 'checkpointing' &&
    kernels.some(({ why_not }) => why_not)
  );
}

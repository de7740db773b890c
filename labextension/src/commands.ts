/**
 * The commands: pause, resume, checkpoint, restore, what survives, open the panel. They ask the
 * user where the user has to be asked, and hand the work to the model.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { askToPause } from './dialog';
import { confirmDifferences } from './differences';
import { pauseIcon, resumeIcon } from './icons';
import { showProblem } from './problems';
import type { Settings } from './settings';
import type { ICurrentNotebook, IGkewsModel, PauseWhen } from './tokens';
import { CommandIDs } from './tokens';
import type { IView } from './wording';
import type { MissingWeights } from './weights';
import { nameOf, sentences, viewOf } from './wording';
import { isAway } from './workspaces/away';
import type { IWorkspaceTab } from './workspaces/tokens';

/** Milliseconds that the dialog waits for the table of fates before it opens without. */
const TABLE_WAIT = 700;

const KERNEL_ARGS = {
  type: 'object',
  properties: {
    kernelId: {
      type: 'string',
      description:
        'The id of the kernel; that of the current notebook if left out.'
    }
  }
} as const;

export interface ICommandOptions {
  commands: CommandRegistry;
  model: IGkewsModel;
  current: ICurrentNotebook | null;
  settings: Settings;
  workspace?: IWorkspaceTab;
  trans: TranslationBundle;
  openPanel: (survives: boolean) => void;
  /** Restores, and asks what to do if files of weights are missing. */
  weights: MissingWeights;
}

export function addCommands(options: ICommandOptions): void {
  const { commands, model, current, settings, trans, openPanel } = options;

  const idOf = (args: ReadonlyPartialJSONObject): string | null =>
    typeof args['kernelId'] === 'string'
      ? args['kernelId']
      : (current?.kernelId ?? null);
  /** As it was last seen; null if there is none, or while nothing can be asked of it. */
  const view = (args: ReadonlyPartialJSONObject): IView | null =>
    isAway(options.workspace) ? null : viewOf(model, idOf(args));
  const canPause = (args: ReadonlyPartialJSONObject): boolean => {
    const seen = view(args);
    return (
      !!seen &&
      !seen.active &&
      seen.kernel.state === 'running' &&
      seen.kernel.pausable
    );
  };
  /** Run `work` for the kernel of `args`; a refusal becomes a notification. */
  const withKernel =
    (
      work: (kernelId: string, args: ReadonlyPartialJSONObject) => Promise<void>
    ) =>
    async (args: ReadonlyPartialJSONObject): Promise<void> => {
      const kernelId = idOf(args);
      if (kernelId === null) {
        return;
      }
      try {
        await work(kernelId, args);
      } catch (error) {
        showProblem(error);
      }
    };
  const pauseCaption = (args: ReadonlyPartialJSONObject): string => {
    const why = view(args)?.kernel.why_not;
    return why
      ? sentences(why)
      : trans.__('Keep the variables on disk and give the memory back');
  };

  commands.addCommand(CommandIDs.pause, {
    label: trans.__('Pause Kernel…'),
    caption: pauseCaption,
    icon: pauseIcon,
    isEnabled: canPause,
    describedBy: {
      args: {
        type: 'object',
        properties: {
          ...KERNEL_ARGS.properties,
          confirm: {
            type: 'boolean',
            description:
              'Whether to show what will survive first. Default, true.'
          }
        }
      }
    },
    execute: withKernel(async (kernelId, args) => {
      const when = await whenToPause(
        options,
        kernelId,
        args['confirm'] !== false
      );
      if (when) {
        await model.pause(kernelId, when);
      }
    })
  });

  commands.addCommand(CommandIDs.resume, {
    label: trans.__('Resume Kernel'),
    caption: args =>
      view(args)?.kernel.snapshot
        ? trans.__('Bring the frozen process back and go on')
        : trans.__('Load the variables of the paused kernel and go on'),
    icon: resumeIcon,
    isEnabled: args => {
      const seen = view(args);
      return !!seen && !seen.active && seen.kernel.state === 'paused';
    },
    describedBy: {
      args: {
        type: 'object',
        properties: {
          ...KERNEL_ARGS.properties,
          snapshot: {
            type: 'boolean',
            description:
              'False loads the checkpoint although there is a process snapshot.'
          }
        }
      }
    },
    execute: withKernel(async (kernelId, args) => {
      const kernel = model.kernel(kernelId);
      const snapshot = args['snapshot'] === false ? false : undefined;
      const loaded =
        kernel?.snapshot && snapshot === undefined ? null : kernel?.checkpoint;
      if (
        !loaded ||
        (await confirmDifferences(model, loaded, kernelId, trans))
      ) {
        await model.resume(kernelId, { snapshot });
      }
    })
  });

  commands.addCommand(CommandIDs.checkpoint, {
    label: trans.__('Checkpoint Now'),
    caption: trans.__('Write a checkpoint and let the kernel go on'),
    isEnabled: canPause,
    describedBy: { args: KERNEL_ARGS },
    execute: withKernel(async kernelId => {
      await model.takeCheckpoint(kernelId);
    })
  });

  commands.addCommand(CommandIDs.survives, {
    label: trans.__('What Survives?'),
    caption: trans.__('Show what a pause would keep, rebuild and lose'),
    isEnabled: args => viewOf(model, idOf(args)) !== null,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => openPanel(true)
  });

  commands.addCommand(CommandIDs.openPanel, {
    label: trans.__('Show Pause and Resume'),
    caption: trans.__('Open the side panel of paused and running kernels'),
    icon: pauseIcon,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => openPanel(false)
  });

  commands.addCommand(CommandIDs.restore, {
    label: trans.__('Restore a Checkpoint'),
    describedBy: {
      args: {
        type: 'object',
        required: ['checkpoint'],
        properties: {
          checkpoint: {
            type: 'string',
            description: 'The id of the checkpoint.'
          },
          kernelId: {
            type: ['string', 'null'],
            description: 'The kernel to load it into; null for a new one.'
          }
        }
      }
    },
    execute: async args => {
      const kernelId = (args['kernelId'] as string | undefined) ?? null;
      const checkpoint = String(args['checkpoint']);
      try {
        if (await confirmDifferences(model, checkpoint, kernelId, trans)) {
          await options.weights.restore(checkpoint, kernelId);
        }
      } catch (error) {
        showProblem(error);
      }
    }
  });

  const refresh = () => commands.notifyCommandChanged();
  model.changed.connect(refresh);
  current?.changed.connect(refresh);
  settings.changed.connect(refresh);
}

/** When to pause, from the user or from the settings; null if not at all. */
async function whenToPause(
  options: ICommandOptions,
  kernelId: string,
  confirm: boolean
): Promise<PauseWhen | null> {
  const { model, settings, trans } = options;
  if (!confirm) {
    return 'idle';
  }
  // Whether a cell runs decides what there is to choose from.
  await model.refresh();
  const asked = model.loadSurvives(kernelId).catch(() => null);
  if (settings.skipDialogWhenNothingLost) {
    const table = await asked;
    const sure = table && !table.stale;
    if (sure && !table.variables.some(({ fate }) => fate === 'lost')) {
      return 'idle';
    }
  }
  // A table that comes at once is there before the dialog, which then need not change its size
  // under the pointer.
  await Promise.race([
    asked,
    new Promise(resolve => setTimeout(resolve, TABLE_WAIT))
  ]);
  const kernel = model.kernel(kernelId);
  const name = kernel ? nameOf(kernel) : trans.__('this kernel');
  const { when, dontAsk } = await askToPause(model, kernelId, name, trans);
  if (dontAsk) {
    await settings.skipDialog();
  }
  return when;
}

/**
 * After a kernel has come back: let the notebook that is open on `path` use it, if it uses
 * another one (`always`, a checkpoint was restored into a new kernel) or none (its session went
 * with an earlier server). `contexts` are those of all open notebooks.
 */
export async function connectNotebook(
  contexts: ISessionContext[],
  path: string,
  kernelId: string,
  always: boolean
): Promise<void> {
  for (const context of contexts) {
    const here = context.session?.path ?? context.path;
    const used = context.session?.kernel?.id ?? null;
    if (here === path && used !== kernelId && (always || used === null)) {
      await context.changeKernel({ id: kernelId });
    }
  }
}

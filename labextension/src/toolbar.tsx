/**
 * The one button in a notebook's toolbar: Pause or Resume, the phase while it works, and in its
 * tooltip the reason when it is disabled. Draws the model and runs commands; decides nothing.
 */

import type { ISessionContext } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { LabIcon } from '@jupyterlab/ui-components';
import { ToolbarButtonComponent } from '@jupyterlab/ui-components';
import type { CommandRegistry } from '@lumino/commands';
import React from 'react';

import { kernelIdOf } from './current';
import { localTime } from './format';
import { pauseIcon, resumeIcon, workingIcon } from './icons';
import type { IGkewsModel } from './tokens';
import { CommandIDs } from './tokens';
import {
  activity,
  kindWord,
  percent,
  progressText,
  sentences,
  viewOf
} from './wording';
import { isAway } from './workspaces/away';
import type { IWorkspaceTab } from './workspaces/tokens';
import {
  briefWord,
  workspaceLabel,
  workspaceSentence
} from './workspaces/wording';

/** What the button shows and does. */
export type ButtonFace = {
  label: string;
  icon: LabIcon;
  tooltip: string;
  enabled: boolean;
  /** What a click runs; null if it is disabled. */
  command: string | null;
  mode: 'pause' | 'resume' | 'working';
};

/** The button's face for a kernel, or for a notebook without one, or while its workspace is away. */
export function buttonFace(
  model: IGkewsModel,
  kernelId: string | null,
  trans: TranslationBundle,
  workspace?: Pick<IWorkspaceTab, 'face'>
): ButtonFace {
  const disabled = (tooltip: string): ButtonFace => ({
    label: trans.__('Pause'),
    icon: pauseIcon,
    tooltip,
    enabled: false,
    command: null,
    mode: 'pause'
  });
  if (workspace && isAway(workspace)) {
    const { face } = workspace;
    return {
      ...disabled(workspaceSentence(face, trans)),
      label: briefWord(face, trans),
      icon: workspaceLabel(face, trans).icon
    };
  }
  const view = viewOf(model, kernelId);
  if (!view) {
    if (model.problem) {
      return disabled(sentences(model.problem));
    }
    return disabled(
      kernelId
        ? trans.__('The kernel is starting.')
        : trans.__('This notebook has no kernel.')
    );
  }
  const { kernel, active } = view;
  if (active) {
    const share = percent(active);
    const word = kindWord(active.kind, trans);
    return {
      label: share === null ? word : trans.__('%1 %2 %', word, share),
      icon: workingIcon,
      tooltip: trans.__(
        '%1: %2. Click for details.',
        activity(active, trans),
        progressText(active, trans)
      ),
      enabled: true,
      command: CommandIDs.openPanel,
      mode: 'working'
    };
  }
  if (kernel.state === 'paused') {
    const since = trans.__('Paused since %1.', localTime(kernel.since));
    return {
      label: trans.__('Resume'),
      icon: resumeIcon,
      tooltip: kernel.reason
        ? `${since} ${sentences(kernel)}`
        : kernel.snapshot
          ? trans.__('%1 Bring its process back and go on.', since)
          : trans.__('%1 Load its variables and go on.', since),
      enabled: true,
      command: CommandIDs.resume,
      mode: 'resume'
    };
  }
  if (!kernel.pausable) {
    return disabled(
      kernel.why_not ? sentences(kernel.why_not) : kernel.message
    );
  }
  return {
    label: trans.__('Pause'),
    icon: pauseIcon,
    tooltip: kernel.engine
      ? trans.__(
          'Pause this kernel: keep its variables and freeze its process to disk, and give its memory back.'
        )
      : trans.__(
          'Pause this kernel: keep its variables on disk and give its memory back.'
        ),
    enabled: true,
    command: CommandIDs.pause,
    mode: 'pause'
  };
}

export class PauseButton extends ReactWidget {
  constructor(private readonly _options: PauseButton.IOptions) {
    super();
    this.addClass('jp-gkews-ToolbarButton');
    this.addClass('jp-ToolbarButton');
    _options.model.changed.connect(this._refresh, this);
    _options.context.kernelChanged.connect(this._refresh, this);
    _options.workspace?.changed.connect(this._refresh, this);
  }

  dispose(): void {
    if (!this.isDisposed) {
      this._options.model.changed.disconnect(this._refresh, this);
      this._options.context.kernelChanged.disconnect(this._refresh, this);
      this._options.workspace?.changed.disconnect(this._refresh, this);
    }
    super.dispose();
  }

  protected render(): JSX.Element {
    const { model, context, commands, trans, workspace } = this._options;
    const kernelId = kernelIdOf(context, model);
    const face = buttonFace(model, kernelId, trans, workspace);
    return (
      <ToolbarButtonComponent
        className={`jp-gkews-mod-${face.mode}`}
        icon={face.icon}
        label={face.label}
        tooltip={face.tooltip}
        enabled={face.enabled}
        onClick={() => {
          if (face.command) {
            void commands.execute(face.command, { kernelId });
          }
        }}
      />
    );
  }

  private _refresh(): void {
    this.update();
  }
}

export namespace PauseButton {
  export interface IOptions {
    model: IGkewsModel;
    context: ISessionContext;
    workspace?: IWorkspaceTab;
    commands: CommandRegistry;
    trans: TranslationBundle;
  }
}

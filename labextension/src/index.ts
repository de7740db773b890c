/**
 * The plugins: wires the model to the server, and each surface to the model. No logic here.
 */

import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { IRunningSessionManagers } from '@jupyterlab/running';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { GkewsApi } from './api';
import { addCommands, connectNotebook } from './commands';
import { CurrentNotebook } from './current';
import { GkewsModel } from './model';
import { PausedOverlay } from './overlay';
import { GkewsPanel } from './panel/panel';
import { PausedNotebooks } from './running';
import { Settings } from './settings';
import { StatusItem } from './statusbar';
import { FailedRestores } from './thawing';
import { Toasts } from './toasts';
import {
  CommandIDs,
  DOMAIN,
  ICurrentNotebook,
  IGkewsModel,
  SETTINGS_ID
} from './tokens';
import { IWorkspaceTab } from './workspaces/tokens';
import { PauseButton } from './toolbar';
import { MissingWeights } from './weights';
import { workspacePlugins } from './workspaces/plugins';

/** The state, read again whenever something may have been missed. */
const model: JupyterFrontEndPlugin<IGkewsModel> = {
  id: 'jupyter_gkews:model',
  description: 'Holds the state of paused and running kernels.',
  autoStart: true,
  provides: IGkewsModel,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null) => {
    const { serviceManager } = app;
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const state = new GkewsModel({
      api: new GkewsApi(serviceManager.serverSettings, trans),
      events: serviceManager.events
    });
    const refresh = () => void state.refresh();
    // Missed events are not replayed, so every sign of a gap makes us look again.
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible') {
        refresh();
      }
    });
    serviceManager.connectionFailure.connect(refresh);
    serviceManager.sessions.runningChanged.connect(refresh);
    refresh();
    return state;
  }
};

const current: JupyterFrontEndPlugin<ICurrentNotebook> = {
  id: 'jupyter_gkews:current',
  description: 'Knows which notebook the user looks at.',
  autoStart: true,
  provides: ICurrentNotebook,
  requires: [INotebookTracker, IGkewsModel],
  activate: (
    _: JupyterFrontEnd,
    tracker: INotebookTracker,
    state: IGkewsModel
  ) => new CurrentNotebook(tracker, state)
};

/** Settings, commands, panel and notifications. */
const main: JupyterFrontEndPlugin<void> = {
  id: SETTINGS_ID,
  description: 'Commands, side panel and notifications of pause and resume.',
  autoStart: true,
  requires: [IGkewsModel, ICurrentNotebook, INotebookTracker, IWorkspaceTab],
  optional: [ISettingRegistry, ICommandPalette, ILayoutRestorer, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    state: IGkewsModel,
    notebook: ICurrentNotebook,
    tracker: INotebookTracker,
    workspace: IWorkspaceTab,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null
  ) => {
    const { commands, shell, serviceManager } = app;
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const settings = new Settings(
      registry,
      (translator ?? nullTranslator).languageCode
    );
    let told: boolean | null = null;
    settings.changed.connect(() => {
      workspace.configure(settings.workspacesApi);
      // Unset, the server's own default holds, until this page has said otherwise.
      if (settings.resumeOnRunIsSet || told !== null) {
        if (told !== settings.resumeOnRun) {
          told = settings.resumeOnRun;
          state.setResumeOnRun(told);
        }
      }
    });
    settings.load().catch((error: unknown) => {
      console.warn('jupyter_gkews: the settings could not be loaded', error);
    });

    const panel = new GkewsPanel({
      model: state,
      current: notebook,
      workspace,
      commands,
      trans
    });
    shell.add(panel, 'right', { rank: 850, type: 'Pause and Resume' });
    restorer?.add(panel, panel.id);
    const openPanel = (survives: boolean) => {
      shell.activateById(panel.id);
      if (survives) {
        panel.revealSurvives();
      }
    };

    addCommands({
      commands,
      model: state,
      current: notebook,
      settings,
      workspace,
      trans,
      openPanel,
      weights: new MissingWeights(state, trans)
    });
    new FailedRestores(state, trans);
    new Toasts({ model: state, settings, trans, open: () => openPanel(false) });
    state.operationChanged.connect((_, { kind, kernel, result }) => {
      if (!result || (kind !== 'restore' && kind !== 'resume')) {
        return;
      }
      void (async () => {
        await state.refresh();
        await serviceManager.sessions.refreshRunning();
        const path = state.kernel(kernel)?.path;
        if (path) {
          const contexts: NotebookPanel['sessionContext'][] = [];
          tracker.forEach(({ sessionContext }) =>
            contexts.push(sessionContext)
          );
          await connectNotebook(contexts, path, kernel, kind === 'restore');
        }
      })();
    });

    for (const command of [
      CommandIDs.pause,
      CommandIDs.resume,
      CommandIDs.checkpoint,
      CommandIDs.survives,
      CommandIDs.openPanel
    ]) {
      palette?.addItem({ command, category: trans.__('Kernel Operations') });
    }
  }
};

const toolbar: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_gkews:toolbar',
  description: 'The Pause or Resume button of a notebook.',
  autoStart: true,
  requires: [IGkewsModel, IToolbarWidgetRegistry, IWorkspaceTab],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    state: IGkewsModel,
    toolbars: IToolbarWidgetRegistry,
    workspace: IWorkspaceTab,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    toolbars.addFactory<NotebookPanel>(
      'Notebook',
      'gkews-pause',
      ({ sessionContext }) =>
        new PauseButton({
          model: state,
          context: sessionContext,
          workspace,
          commands: app.commands,
          trans
        })
    );
  }
};

const overlay: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_gkews:overlay',
  description: 'The card over a paused notebook.',
  autoStart: true,
  requires: [IGkewsModel, INotebookTracker, IWorkspaceTab],
  optional: [ITranslator],
  activate: (
    { commands }: JupyterFrontEnd,
    state: IGkewsModel,
    tracker: INotebookTracker,
    workspace: IWorkspaceTab,
    translator: ITranslator | null
  ) => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const cover = (panel: NotebookPanel) =>
      new PausedOverlay({ panel, model: state, workspace, commands, trans });
    tracker.forEach(cover);
    tracker.widgetAdded.connect((_, panel) => cover(panel));
  }
};

const statusbar: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_gkews:statusbar',
  description: 'The state of the current kernel in the status bar.',
  autoStart: true,
  requires: [IGkewsModel, ICurrentNotebook, IWorkspaceTab],
  optional: [IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    state: IGkewsModel,
    notebook: ICurrentNotebook,
    workspace: IWorkspaceTab,
    bar: IStatusBar | null,
    translator: ITranslator | null
  ) => {
    if (!bar) {
      return; // Notebook 7 has none
    }
    const item = new StatusItem({
      model: state,
      current: notebook,
      workspace,
      trans: (translator ?? nullTranslator).load(DOMAIN),
      open: () => void app.commands.execute(CommandIDs.openPanel)
    });
    bar.registerStatusItem('jupyter_gkews:statusbar', {
      item,
      align: 'left',
      rank: 3,
      isActive: () => item.isActive,
      activeStateChanged: item.activeChanged
    });
  }
};

const running: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_gkews:running',
  description: 'The paused notebooks in the Running panel.',
  autoStart: true,
  requires: [IGkewsModel],
  optional: [IRunningSessionManagers, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    state: IGkewsModel,
    managers: IRunningSessionManagers | null,
    translator: ITranslator | null
  ) => {
    managers?.add(
      new PausedNotebooks({
        model: state,
        kernels: app.serviceManager.kernels,
        commands: app.commands,
        trans: (translator ?? nullTranslator).load(DOMAIN)
      })
    );
  }
};

export { ICurrentNotebook, IGkewsModel } from './tokens';
export { IWorkspaceTab } from './workspaces/tokens';
export default [
  model,
  current,
  main,
  toolbar,
  overlay,
  statusbar,
  running,
  ...workspacePlugins
];

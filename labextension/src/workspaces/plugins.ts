/**
 * The plugins of the workspace: wires the tab to server and backend, and each surface to the tab.
 * No logic here.
 */

import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { GkewsApi } from '../api';
import { CommandIDs, DOMAIN, IGkewsModel } from '../tokens';
import { IWorkspaceTab } from './tokens';
import { WorkspaceBanner } from './banner';
import { addWorkspaceCommands } from './commands';
import { addRecoveryCommands } from './recoveryCommands';
import { hushConnectionDialogs, openContexts, reconnectAll } from './reconnect';
import { WorkspaceItem } from './statusItem';
import { WorkspaceTab } from './tab';

/** Under which, with its address, the browser keeps of which pause of a workspace the user was told. */
const TOLD = 'jupyter_gkews:told-of-pause:';

/** The workspace, followed also while its server is away. */
const tab: JupyterFrontEndPlugin<IWorkspaceTab> = {
  id: 'jupyter_gkews:workspace',
  description: 'Knows the workspace that the page belongs to.',
  autoStart: true,
  provides: IWorkspaceTab,
  requires: [IGkewsModel],
  optional: [ITranslator],
  activate: (
    { serviceManager }: JupyterFrontEnd,
    model: IGkewsModel,
    translator: ITranslator | null
  ) => {
    const { serverSettings } = serviceManager;
    // All workspaces of a cluster are of one origin.
    const told = TOLD + serverSettings.baseUrl;
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const workspace = new WorkspaceTab({
      model,
      api: new GkewsApi(serverSettings, trans),
      baseUrl: serverSettings.baseUrl,
      trans,
      isVisible: () => document.visibilityState === 'visible',
      told: {
        get: () => localStorage.getItem(told),
        set: pause => localStorage.setItem(told, pause)
      }
    });
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible' && !workspace.face.served) {
        void workspace.look();
      }
    });
    return workspace;
  }
};

const surfaces: JupyterFrontEndPlugin<void> = {
  id: 'jupyter_gkews:workspace-surfaces',
  description: 'Commands, card and status item of the workspace.',
  autoStart: true,
  requires: [IWorkspaceTab, IGkewsModel],
  optional: [ICommandPalette, IStatusBar, ITranslator],
  activate: (
    { commands, shell, serviceManager }: JupyterFrontEnd,
    workspace: IWorkspaceTab,
    model: IGkewsModel,
    palette: ICommandPalette | null,
    bar: IStatusBar | null,
    translator: ITranslator | null
  ) => {
    const translators = translator ?? nullTranslator;
    const trans = translators.load(DOMAIN);
    addWorkspaceCommands({ commands, tab: workspace, model, trans });
    addRecoveryCommands({
      commands,
      tab: workspace,
      model,
      kernels: serviceManager.kernels,
      trans
    });
    for (const command of [
      CommandIDs.pauseWorkspace,
      CommandIDs.resumeWorkspace,
      CommandIDs.resumeAll,
      CommandIDs.startFresh
    ]) {
      palette?.addItem({ command, category: trans.__('Kernel Operations') });
    }
    new WorkspaceBanner({ tab: workspace, model, commands, trans });
    hushConnectionDialogs(workspace, translators.load('jupyterlab'));
    workspace.cameBack.connect(() => {
      void reconnectAll(serviceManager, openContexts(shell), model);
    });
    if (bar) {
      const item = new WorkspaceItem({
        tab: workspace,
        trans,
        open: () => void commands.execute(CommandIDs.openPanel)
      });
      bar.registerStatusItem('jupyter_gkews:workspace', {
        item,
        align: 'left',
        rank: 2.9,
        isActive: () => item.isActive,
        activeStateChanged: item.activeChanged
      });
    }
  }
};

export const workspacePlugins = [tab, surfaces];

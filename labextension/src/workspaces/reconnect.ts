/**
 * After the workspace has come back: every kernel that the page uses is connected anew, and what
 * JupyterLab would say modally in the meantime is not said. Starts no kernel.
 */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { Dialog } from '@jupyterlab/apputils';
import type { ServiceManager } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import { connectNotebook } from '../commands';
import type { IGkewsModel } from '../tokens';
import type { IWorkspaceTab } from './tokens';

/** The session contexts of all that is open: notebooks, consoles and whatever else has one. */
export function openContexts(shell: JupyterFrontEnd.IShell): ISessionContext[] {
  const contexts = new Set<ISessionContext>();
  for (const widget of shell.widgets('main')) {
    const { sessionContext } = widget as { sessionContext?: ISessionContext };
    if (sessionContext && !sessionContext.isDisposed) {
      contexts.add(sessionContext);
    }
  }
  return [...contexts];
}

/**
 * Connect every open kernel anew: the sockets to the pod that went lead nowhere, also where they
 * still look open. A notebook whose session is not there any more gets the kernel that the server
 * has made for it from its checkpoint.
 */
export async function reconnectAll(
  services: ServiceManager.IManager,
  contexts: ISessionContext[],
  model: IGkewsModel
): Promise<void> {
  const begun = new Set<unknown>();
  const reconnect = (isWanted: (id: string) => boolean) => {
    for (const context of contexts) {
      const kernel = context.session?.kernel;
      if (
        kernel &&
        !kernel.isDisposed &&
        !begun.has(kernel) &&
        isWanted(kernel.id)
      ) {
        begun.add(kernel);
        // It tries on by itself, and tells by its own status.
        kernel.reconnect().catch(() => undefined);
      }
    }
  };
  // The server has just said which kernels it has: those are used again before anything is asked.
  reconnect(id => model.kernel(id) !== null);
  // What is not there any more is disposed of by this; what is there keeps its identity.
  await Promise.all([
    services.sessions.refreshRunning().catch(() => undefined),
    services.kernels.refreshRunning().catch(() => undefined),
    model.refresh()
  ]);
  reconnect(() => true);
  for (const { id, path } of model.status?.kernels ?? []) {
    if (path) {
      await connectNotebook(contexts, path, id, false).catch(() => undefined);
    }
  }
}

/**
 * While the workspace is away, JupyterLab's own dialogs of a lost connection and of an autosave that
 * failed are closed as they open: the card says it, and what is unsaved stays in the page.
 */
export function hushConnectionDialogs(
  tab: IWorkspaceTab,
  jupyterlab: TranslationBundle
): void {
  // Of JupyterLab's own catalogue, so none of ours.
  const theirs = jupyterlab.__.bind(jupyterlab);
  const titles = [
    theirs('Server Connection Error'),
    // It stands for itself, so that the parts around it are known.
    theirs('File Save Error for %1', '%1')
  ];
  const hush = () => {
    const { phase, served, answers } = tab.face;
    // A server that answers may have refused a save for a reason that the user has to see.
    if (served || answers || phase === 'none' || phase === 'here') {
      return;
    }
    Dialog.tracker.forEach(dialog => {
      // The label begins with the title, which itself is drawn only later.
      const label = dialog.node.ariaLabel ?? '';
      if (titles.some(title => startsWithTitle(label, title))) {
        dialog.reject();
      }
    });
  };
  // Once whoever has just made it has launched it, and before it is drawn.
  Dialog.tracker.widgetAdded.connect(() => void Promise.resolve().then(hush));
  // One that was there before the page knew why.
  tab.changed.connect(hush);
}

/** Whether it begins with the title, whatever stands there for `%1`, and wherever in the title. */
function startsWithTitle(label: string, title: string): boolean {
  const [first, ...others] = title.split('%1');
  let end = first.length;
  if (!title.replace('%1', '').trim() || !label.startsWith(first)) {
    return false;
  }
  return others.every(part => {
    const at = label.indexOf(part, end);
    end = at + part.length;
    return at >= 0;
  });
}

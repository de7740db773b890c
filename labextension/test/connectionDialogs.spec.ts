import { Dialog, showDialog } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import type { IWorkspaceTab } from '../src/tokens';
import { hushConnectionDialogs } from '../src/workspaces/reconnect';

const LOST = 'Server Connection Error';
const LONG_ENOUGH = 300;

/** As much of a tab as the dialogs look at. */
function makeTab() {
  const tab = { face: { served: true, phase: 'here' } };
  const changed = new Signal<typeof tab, void>(tab);
  return Object.assign(tab, { changed });
}

function open(title: string): { closed: () => boolean } {
  let closed = false;
  void showDialog({ title, body: 'Check your network connection.' }).then(
    () => (closed = true)
  );
  return { closed: () => closed };
}

const later = () => new Promise(resolve => setTimeout(resolve, LONG_ENOUGH));

describe("JupyterLab's dialogs of a lost connection", () => {
  const tab = makeTab();

  beforeAll(() => {
    hushConnectionDialogs(
      tab as unknown as IWorkspaceTab,
      nullTranslator.load('jupyterlab')
    );
  });

  afterEach(async () => {
    Dialog.tracker.forEach(dialog => dialog.reject());
    await later();
  });

  it('stay while the workspace is there', async () => {
    tab.face = { served: true, phase: 'here' };
    const dialog = open(LOST);
    await later();
    expect(dialog.closed()).toBe(false);
  });

  it('are closed as they open while it is away', async () => {
    tab.face = { served: false, phase: 'paused' };
    const dialog = open(LOST);
    await later();
    expect(dialog.closed()).toBe(true);
  });

  it('are closed when the tab learns later than JupyterLab that it is away', async () => {
    tab.face = { served: true, phase: 'here' };
    const dialog = open(LOST);
    await later();
    expect(dialog.closed()).toBe(false);
    tab.face = { served: false, phase: 'pausing' };
    tab.changed.emit();
    await later();
    expect(dialog.closed()).toBe(true);
  });

  it('are left alone if they say something else', async () => {
    tab.face = { served: false, phase: 'paused' };
    const dialog = open('Close the notebook?');
    await later();
    expect(dialog.closed()).toBe(false);
  });
});

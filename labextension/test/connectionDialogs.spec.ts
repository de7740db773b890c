import { Dialog } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';

import { hushConnectionDialogs } from '../src/workspaces/reconnect';

const LOST = 'Server Connection Error';
const UNSAVED = 'File Save Error for demo.ipynb';

/** As much of a tab as the dialogs look at. */
function makeTab() {
  const tab = { face: { served: true, phase: 'here' } };
  const changed = new Signal<typeof tab, void>(tab);
  return Object.assign(tab, { changed });
}

/** A dialog of JupyterLab as it opens: what became of it before the user could answer. */
async function open(title: string): Promise<Dialog<unknown>> {
  const dialog = new Dialog({ title, body: 'Check your network connection.' });
  const closed = dialog.launch();
  const drawn = new Promise<void>(resolve => {
    const observer = new MutationObserver(() => {
      if (dialog.isAttached) {
        observer.disconnect();
        resolve();
      }
    });
    observer.observe(document.body, { childList: true });
  });
  await Promise.race([closed, drawn]);
  // All that was due when it was drawn has been done by the next turn.
  await new Promise(resolve => setTimeout(resolve, 0));
  return dialog;
}

describe("JupyterLab's dialogs of a lost connection", () => {
  const tab = makeTab();
  const korean = makeTab();
  const nameless = makeTab();

  beforeAll(() => {
    const trans = nullTranslator.load('jupyterlab');
    const titled = (unsaved: string): typeof trans =>
      Object.assign(Object.create(trans), {
        // As gettext does, also with what it was not given.
        __: (text: string, file?: string) =>
          (text.includes('%1') ? unsaved : text).replace('%1', `${file}`)
      });
    const hush = hushConnectionDialogs as (
      one: unknown,
      jupyterlab: typeof trans
    ) => void;
    hush(tab, trans);
    hush(korean, titled('%1 파일 저장 오류'));
    hush(nameless, titled('%1'));
  });

  beforeEach(() => {
    for (const one of [tab, korean, nameless]) {
      one.face = { served: true, phase: 'here' };
    }
  });

  afterEach(() => {
    Dialog.tracker.forEach(dialog => dialog.reject());
  });

  it('stay while the workspace is there', async () => {
    const dialog = await open(LOST);
    expect(dialog.isDisposed).toBe(false);
  });

  it.each([LOST, UNSAVED])(
    'are closed as they open while it is away: %s',
    async title => {
      tab.face = { served: false, phase: 'paused' };
      const dialog = await open(title);
      expect(dialog.isDisposed).toBe(true);
    }
  );

  it('stay while a server that is being paused still answers', async () => {
    tab.face = { served: true, phase: 'pausing' };
    const dialog = await open(UNSAVED);
    tab.changed.emit();
    expect(dialog.isDisposed).toBe(false);
  });

  it('are closed when the tab learns later than JupyterLab that it is away', async () => {
    const dialog = await open(LOST);
    expect(dialog.isDisposed).toBe(false);
    tab.face = { served: false, phase: 'pausing' };
    tab.changed.emit();
    expect(dialog.isDisposed).toBe(true);
  });

  it('are known also in a language that names the file first', async () => {
    korean.face = { served: false, phase: 'paused' };
    const [unsaved, other] = [
      await open('demo.ipynb 파일 저장 오류'),
      new Dialog({ title: 'demo.ipynb 파일 삭제' })
    ];
    expect(unsaved.isDisposed).toBe(true);
    korean.changed.emit();
    expect(other.isDisposed).toBe(false);
    other.dispose();
  });

  it('are left alone if they say something else, also where a title says nothing', async () => {
    tab.face = nameless.face = { served: false, phase: 'paused' };
    const dialog = await open('Close the notebook?');
    expect(dialog.isDisposed).toBe(false);
  });
});

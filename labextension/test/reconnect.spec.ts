import type { ISessionContext } from '@jupyterlab/apputils';
import type { ServiceManager } from '@jupyterlab/services';

import type { IGkewsModel } from '../src/tokens';
import { reconnectAll } from '../src/workspaces/reconnect';
import { kernel } from './shapes';

/** An open notebook with a kernel that notes how often it was connected anew. */
function notebook(id: string) {
  const used = { id, isDisposed: false, reconnect: jest.fn(async () => {}) };
  const changeKernel = jest.fn(async () => {});
  const context = { path: `${id}.ipynb`, changeKernel };
  return Object.assign(context, {
    session: { path: context.path, kernel: used }
  });
}

describe('kernels after a return', () => {
  /** The server tells its lists of sessions and kernels. */
  let list: () => void;
  let services: ServiceManager.IManager;

  beforeEach(() => {
    const listed = new Promise<void>(resolve => (list = resolve));
    const refreshRunning = () => listed;
    services = {
      sessions: { refreshRunning },
      kernels: { refreshRunning }
    } as unknown as ServiceManager.IManager;
  });

  const reconnect = (
    notebooks: ReturnType<typeof notebook>[],
    ...there: string[]
  ) => {
    const kernels = there.map(id => kernel({ id, path: `${id}.ipynb` }));
    const model = {
      status: { kernels },
      kernel: (id: string) => kernels.find(one => one.id === id) ?? null,
      refresh: async () => {}
    };
    return reconnectAll(
      services,
      notebooks as unknown as ISessionContext[],
      model as unknown as IGkewsModel
    );
  };

  it('are connected before anything is asked, once each, where the server has them', async () => {
    const [one, two] = [notebook('one'), notebook('two')];
    const all = reconnect([one, two], 'one', 'two');
    for (const { session } of [one, two]) {
      expect(session.kernel.reconnect).toHaveBeenCalledTimes(1);
    }
    list();
    await all;
    for (const { session } of [one, two]) {
      expect(session.kernel.reconnect).toHaveBeenCalledTimes(1);
    }
  });

  it('are left where the server has them no more, and another one takes their place', async () => {
    const gone = notebook('gone');
    const { kernel: before } = gone.session;
    const all = reconnect([gone], 'one');
    expect(before.reconnect).not.toHaveBeenCalled();
    before.isDisposed = true; // JupyterLab does, when it has the list
    list();
    await all;
    expect(before.reconnect).not.toHaveBeenCalled();
  });

  it('are connected after the lists where only these name them', async () => {
    const other = notebook('other');
    const all = reconnect([other]);
    expect(other.session.kernel.reconnect).not.toHaveBeenCalled();
    list();
    await all;
    expect(other.session.kernel.reconnect).toHaveBeenCalledTimes(1);
  });

  it('do not hinder each other', async () => {
    const [broken, whole] = [notebook('broken'), notebook('whole')];
    broken.session.kernel.reconnect.mockRejectedValue(new Error('no'));
    const all = reconnect([broken, whole], 'broken', 'whole');
    list();
    await all;
    expect(whole.session.kernel.reconnect).toHaveBeenCalledTimes(1);
  });
});

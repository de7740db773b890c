/** A workspace that is back: how soon a page sees it, and what it says of its memory. */

import type { Cluster } from './cluster';
import { Pages } from './pages';
import { recovery, wakeUp } from './shapes';

describe('a workspace that is back', () => {
  let cluster: Cluster;
  let pages: Pages;

  beforeEach(async () => {
    pages = await Pages.start();
    cluster = pages.cluster;
  });

  afterEach(() => pages.stop());

  it('is found as soon as its server answers, whatever the list still says', async () => {
    const page = await pages.openPaused();
    await page.tab.resume();
    pages.serves({ provenance: 'restored' });
    cluster.is('Pending', '', true);
    await page.phase('ready');
    expect(page.tab.face).toMatchObject({
      served: true,
      provenance: 'restored'
    });
    expect(cluster.workspace.state).toBe('Pending');
  });

  it('says that it started fresh until the user has seen it', async () => {
    const timers = jest.spyOn(globalThis, 'setTimeout');
    const page = await pages.openPaused({ told: 54_321 });
    await page.tab.resume();
    pages.serves({ provenance: 'fresh' });
    cluster.is('Running');
    await page.phase('ready');
    expect(page.tab.face.provenance).toBe('fresh');
    await page.model.refresh();
    // Nothing is set that would end it, as it is for a full return.
    const delays = timers.mock.calls.map(([, delay]) => delay);
    timers.mockRestore();
    expect(delays).toContain(20);
    expect(delays).not.toContain(54_321);
    expect(page.tab.face.phase).toBe('ready');
    page.tab.dismiss();
    expect(page.tab.face.phase).toBe('here');
    await page.model.refresh();
    expect(page.tab.face.phase).toBe('here');
  });

  it('says for a while only that it is back with everything, also while news come', async () => {
    const timers = jest.spyOn(globalThis, 'setTimeout');
    const page = await pages.openPaused({ told: 201 });
    pages.serves({ provenance: 'restored' });
    cluster.is('Running');
    await page.phase('ready');
    await page.model.refresh();
    await page.model.refresh();
    const ends = timers.mock.calls.filter(([, delay]) => delay === 201);
    timers.mockRestore();
    // News do not put the end off.
    expect(ends).toHaveLength(1);
    await page.phase('here');
  });

  it('tells what became of the kernels where the memory did not come back', async () => {
    const page = await pages.openPaused();
    await page.tab.resume();
    cluster.status.recovery = recovery();
    cluster.is('Running');
    await page.phase('ready');
    const { face } = page.tab;
    expect(face.provenance).toBe('fresh');
    expect(face.recovery?.kernels.map(({ why }) => why)).toEqual([
      '',
      'Its notebook is gone.'
    ]);
  });

  it('does not take the start before for one after the pause', async () => {
    cluster.status.recovery = recovery();
    cluster.status.woke = wakeUp({ woke: 'before' });
    const page = await pages.open();
    page.tab.dismiss();
    cluster.is('Paused');
    await page.notices('paused');
    cluster.is('Running');
    await page.phase('ready');
    expect(page.tab.face).toMatchObject({ provenance: null, recovery: null });
  });

  it('believes the server that it woke up', async () => {
    const page = await pages.openPaused();
    cluster.status.woke = wakeUp();
    cluster.is('Running');
    await page.phase('ready');
    expect(page.tab.face.provenance).toBe('restored');
  });

  it('tells a page that is opened after such a start, once', async () => {
    cluster.status.recovery = recovery();
    const first = await pages.open();
    expect(first.tab.face).toMatchObject({
      phase: 'ready',
      provenance: 'fresh'
    });
    first.tab.dismiss();
    expect(first.tab.face.phase).toBe('here');
    expect((await pages.open()).tab.face.phase).toBe('here');
  });

  it('remembers of which start the user was told also when a full return is closed', async () => {
    pages.told = 'p-0';
    const page = await pages.openPaused();
    pages.serves({ provenance: 'restored' });
    cluster.is('Running');
    await page.phase('ready');
    page.tab.dismiss();
    expect(pages.told).toBe('p-0');
  });
});

import { GkewsApi } from '../src/api';
import { Shelf } from '../src/shelf';
import { checkpoint, json, snapshot, trans, Wire } from './shapes';

const REFUSED = { reason: 'internal', message: 'No.', hint: '' };

function put(wire: Wire, checkpoints: string[], snapshots: string[]): void {
  wire
    .on('GET checkpoints', { checkpoints: checkpoints.map(named(checkpoint)) })
    .on('GET snapshots', { snapshots: snapshots.map(named(snapshot)) })
    .on('GET store', { bytes: checkpoints.length, checkpoints: 0, unused: 0 });
}

function named<T>(make: (fields: { id: string }) => T): (id: string) => T {
  return id => make({ id });
}

describe('what lies in the store', () => {
  let wire: Wire;
  let shelf: Shelf;
  let changed: jest.Mock;
  let failed: jest.Mock;

  beforeEach(() => {
    wire = new Wire();
    changed = jest.fn();
    failed = jest.fn();
    shelf = new Shelf(new GkewsApi(wire.settings, trans), changed, failed);
  });

  const ids = () => ({
    checkpoints: shelf.checkpoints.map(({ id }) => id),
    snapshots: shelf.snapshots.map(({ id }) => id),
    bytes: shelf.store?.bytes ?? null
  });

  it('is shown at once when all of it was read', async () => {
    put(wire, ['c-1'], ['s-1']);
    await shelf.load();
    expect(ids()).toEqual({
      checkpoints: ['c-1'],
      snapshots: ['s-1'],
      bytes: 1
    });
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it('stays as it was listed where a part cannot be read now', async () => {
    put(wire, ['c-1'], ['s-1']);
    await shelf.load();
    put(wire, ['c-1', 'c-2'], []);
    wire.on('GET snapshots', REFUSED, 500).on('GET store', REFUSED, 500);
    await shelf.load();
    expect(ids()).toEqual({
      checkpoints: ['c-1', 'c-2'],
      snapshots: ['s-1'],
      bytes: 1
    });
    expect(failed).not.toHaveBeenCalled();
  });

  it('stays as it was listed where nothing can be read now, which is told', async () => {
    put(wire, ['c-1'], ['s-1']);
    await shelf.load();
    put(wire, [], []);
    wire.on('GET checkpoints', REFUSED, 500);
    await shelf.load();
    expect(ids()).toMatchObject({ checkpoints: ['c-1'], snapshots: ['s-1'] });
    expect(failed).toHaveBeenCalledTimes(1);
  });

  it('is what was asked for last, whichever answer comes first', async () => {
    put(wire, ['old'], ['old']);
    let release = () => {};
    const late = new Promise<void>(resolve => (release = resolve));
    wire.answers.set('GET snapshots', async () => {
      await late;
      return json({ snapshots: [snapshot({ id: 'old' })] });
    });
    const first = shelf.load();
    put(wire, ['new'], ['new']);
    await shelf.load();
    release();
    await first;
    expect(ids()).toMatchObject({ checkpoints: ['new'], snapshots: ['new'] });
  });

  it('is not said to be out of reach by a request that is out of date', async () => {
    let fail = () => {};
    const late = new Promise<void>(resolve => (fail = resolve));
    put(wire, [], []);
    wire.answers.set('GET checkpoints', async () => {
      await late;
      return json(REFUSED, 500);
    });
    const first = shelf.load();
    put(wire, ['new'], []);
    await shelf.load();
    fail();
    await first;
    expect(failed).not.toHaveBeenCalled();
    expect(ids()).toMatchObject({ checkpoints: ['new'] });
  });

  describe('with a snapshot that is expected', () => {
    const times = () =>
      wire.asked.filter(({ path }) => path === 'snapshots').length;

    async function expectOnce(): Promise<void> {
      shelf.expect(['s-1', null, undefined]);
      await new Promise(resolve => setTimeout(resolve, 20));
    }

    it('is asked once for one that the server does not list', async () => {
      put(wire, [], []);
      await expectOnce();
      await expectOnce();
      expect(times()).toBe(1);
    });

    it.each(['GET snapshots', 'GET checkpoints'])(
      'is asked again after %s has failed',
      async route => {
        put(wire, [], ['s-1']);
        wire.on(route, REFUSED, 500);
        await expectOnce();
        expect(ids().snapshots).toEqual([]);
        put(wire, [], ['s-1']);
        await expectOnce();
        expect(ids().snapshots).toEqual(['s-1']);
        await expectOnce();
        expect(times()).toBe(2);
      }
    );
  });
});

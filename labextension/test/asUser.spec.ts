import { GkewsApi } from '../src/api';
import { GkewsModel } from '../src/model';
import { checkpointAll } from '../src/workspaces/asUser';
import {
  checkpoint,
  json,
  kernel,
  operation,
  status,
  trans,
  until,
  Wire
} from './shapes';

const TAKING = operation({ kind: 'checkpoint' });
const ENDED = { ...TAKING, finished: '2026-11-30T18:00:02.000Z' };

describe('the checkpoints before a pause as the user', () => {
  let wire: Wire;
  let model: GkewsModel;

  beforeEach(() => {
    wire = new Wire()
      .on('GET status', status(kernel()))
      .on('GET checkpoints', { checkpoints: [checkpoint()] })
      .on('POST kernels/k-1/checkpoint', TAKING, 202);
    model = new GkewsModel({
      api: new GkewsApi(wire.settings, trans),
      followInterval: 1
    });
  });

  afterEach(() => {
    model.dispose();
  });

  const reasons = async () =>
    (await checkpointAll(model, trans)).map(({ kernel, why }) => [
      kernel.id,
      why.reason
    ]);

  it('are waited for, and leave nothing to tell where they are written', async () => {
    wire.on('GET operations/op-1', ENDED);
    expect(await reasons()).toEqual([]);
  });

  it('are told where they have failed, with the reason', async () => {
    const error = { reason: 'disk_full', message: 'No room.', hint: '' };
    wire.on('GET operations/op-1', { ...ENDED, error });
    expect(await reasons()).toEqual([['k-1', 'disk_full']]);
  });

  it('are told as not known where the server has forgotten that it wrote them', async () => {
    wire.on(
      'GET operations/op-1',
      { reason: 'operation_not_found', message: 'Gone.', hint: '' },
      404
    );
    expect(await reasons()).toEqual([['k-1', 'operation_not_found']]);
  });

  it('are waited for no longer once the server cannot be reached', async () => {
    // A pause that goes on by itself when it is there again would be asked for by nobody.
    wire.on('GET operations/op-1', TAKING);
    const asked = reasons();
    await until(model, () => model.operation('k-1') !== null);
    wire.answers.set('GET status', () => json({}, 503));
    await model.refresh();
    expect(await asked).toEqual([['k-1', 'server_unreachable']]);
  });

  it('are told of kernels with which something else is done, and not of paused ones', async () => {
    wire.on(
      'GET status',
      status(
        kernel({ state: 'resuming' }),
        kernel({ id: 'k-2', state: 'pausing' }),
        kernel({ id: 'k-3', state: 'paused', checkpoint: 'c-1' })
      )
    );
    expect(await reasons()).toEqual([
      ['k-1', 'operation_running'],
      ['k-2', 'operation_running']
    ]);
    expect(wire.asked.some(({ method }) => method === 'POST')).toBe(false);
  });
});

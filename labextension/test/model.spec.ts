import type { Event } from '@jupyterlab/services';
import { Stream } from '@lumino/signaling';

import { GkewsApi, GkewsError } from '../src/api';
import { GkewsModel } from '../src/model';
import type { Operation } from '../src/tokens';
import {
  checkpoint,
  json,
  kernel,
  operation,
  result,
  status,
  survives,
  trans,
  until,
  variable,
  Wire
} from './shapes';

const SCHEMA = 'https://events.jupyter.org/jupyter_gkews/lifecycle/v1';

describe('the model', () => {
  let wire: Wire;
  let bus: Stream<Event.IManager, Event.Emission>;
  let model: GkewsModel;

  beforeEach(() => {
    wire = new Wire()
      .on('GET status', status(kernel()))
      .on('GET checkpoints', { checkpoints: [checkpoint()] });
    bus = new Stream<Event.IManager, Event.Emission>({} as Event.IManager);
    model = new GkewsModel({
      api: new GkewsApi(wire.settings, trans),
      events: { stream: bus },
      followInterval: 1
    });
  });

  afterEach(() => {
    model.dispose();
  });

  const statusRequests = () =>
    wire.asked.filter(({ path }) => path === 'status').length;

  it('asks nothing by itself while nothing happens', async () => {
    await model.refresh();
    await new Promise(resolve => setTimeout(resolve, 30));
    expect(wire.asked).toHaveLength(1);
  });

  it('reads the status again on an event of its schema, and on no other', async () => {
    await model.refresh();
    bus.emit({ schema_id: 'https://events.jupyter.org/other/v1' });
    await Promise.resolve();
    expect(statusRequests()).toBe(1);
    wire.on('GET status', status(kernel({ state: 'paused' })));
    bus.emit({ schema_id: SCHEMA, action: 'state', kernel: 'k-1' });
    await until(model, () => model.kernel('k-1')?.state === 'paused');
    expect(statusRequests()).toBe(2);
  });

  it('looks once more when asked while an answer is under way', async () => {
    const first = model.refresh();
    const second = model.refresh();
    await Promise.all([first, second]);
    expect(statusRequests()).toBe(2);
  });

  it('follows a pause to its end and says so once', async () => {
    await model.refresh();
    const seen: string[] = [];
    model.operationChanged.connect((_, { finished }) => {
      seen.push(finished ? 'ended' : 'began');
    });
    const ended = operation({
      finished: '2026-11-30T18:00:02.000Z',
      result: result()
    });
    wire
      .on('POST kernels/k-1/pause', operation(), 202)
      .on(
        'GET status',
        status(kernel({ state: 'pausing', operation: operation() }))
      )
      .on('GET operations/op-1', operation({ bytes_done: 5, bytes_total: 10 }));
    await model.pause('k-1');
    await until(model, () => model.operation('k-1')?.bytes_done === 5);
    wire
      .on('GET operations/op-1', ended)
      .on(
        'GET status',
        status(kernel({ state: 'paused', last_operation: ended }))
      );
    await until(model, () => model.kernel('k-1')?.state === 'paused');
    expect(model.operation('k-1')?.result?.kept).toBe(41);
    expect(seen).toEqual(['began', 'ended']);
  });

  it('takes the progress from the event without asking', async () => {
    wire
      .on('GET operations/op-1', operation())
      .on(
        'GET status',
        status(kernel({ state: 'pausing', operation: operation() }))
      );
    model.dispose();
    model = new GkewsModel({
      api: new GkewsApi(wire.settings, trans),
      events: { stream: bus },
      followInterval: 1e6
    });
    await model.refresh();
    const { phase, step, eta_s, cancellable } = operation();
    bus.emit({
      schema_id: SCHEMA,
      action: 'progress',
      kernel: 'k-1',
      operation: {
        id: 'op-1',
        phase,
        step,
        eta_s,
        cancellable,
        bytes_done: 7,
        bytes_total: 10
      }
    });
    expect(model.operation('k-1')?.bytes_done).toBe(7);
    expect(statusRequests()).toBe(1);
  });

  it('does not announce an operation again whose last answer comes late', async () => {
    const finished = '2026-11-30T18:00:09.000Z';
    const pause = operation({ finished, result: result() });
    const resume = operation({
      id: 'op-2',
      kind: 'resume',
      started: '2026-11-30T18:00:05.000Z',
      finished,
      result: result()
    });
    await model.refresh();
    const seen: string[] = [];
    model.operationChanged.connect((_, { id }) => seen.push(id));
    for (const last_operation of [pause, resume, pause, resume]) {
      wire.on('GET status', status(kernel({ last_operation })));
      await model.refresh();
    }
    expect(seen).toEqual(['op-1', 'op-2']);
    expect(model.operation('k-1')?.id).toBe('op-2');
  });

  it('does not announce what ended before the page was opened', async () => {
    const seen: Operation[] = [];
    model.operationChanged.connect((_, op) => seen.push(op));
    wire.on(
      'GET status',
      status(
        kernel({
          state: 'paused',
          last_operation: operation({ finished: '2026-11-30T18:00:02.000Z' })
        })
      )
    );
    await model.refresh();
    expect(seen).toEqual([]);
    expect(model.operation('k-1')?.id).toBe('op-1');
  });

  it('forgets an operation that a restarted server does not know', async () => {
    wire.on(
      'GET status',
      status(kernel({ state: 'pausing', operation: operation() }))
    );
    await model.refresh();
    wire.on('GET status', status(kernel()));
    wire.on(
      'GET operations/op-1',
      { reason: 'operation_not_found', message: 'Gone.', hint: '' },
      404
    );
    await until(model, () => model.operation('k-1') === null);
  });

  it('shows what is true after a refusal', async () => {
    await model.refresh();
    wire
      .on('GET status', status(kernel({ state: 'paused' })))
      .on(
        'POST kernels/k-1/pause',
        { reason: 'already_paused', message: 'Paused already.', hint: '' },
        409
      );
    await expect(model.pause('k-1')).rejects.toBeInstanceOf(GkewsError);
    await until(model, () => model.kernel('k-1')?.state === 'paused');
  });

  it('keeps what it knew while the server cannot be reached', async () => {
    await model.refresh();
    wire.answers.set('GET status', () =>
      Promise.reject(new TypeError('Failed to fetch'))
    );
    await model.refresh();
    expect(model.problem?.reason).toBe('server_unreachable');
    expect(model.kernel('k-1')?.state).toBe('running');
    wire.on('GET status', status(kernel({ state: 'paused' })));
    await model.refresh();
    expect(model.problem).toBeNull();
    expect(model.kernel('k-1')?.state).toBe('paused');
  });

  it('looks again at a server that has come back, which may be taking kernels over', async () => {
    await model.refresh();
    wire.answers.set('GET status', () =>
      Promise.reject(new TypeError('Failed to fetch'))
    );
    await model.refresh();
    wire.on('GET status', status());
    await model.refresh();
    expect(model.kernel('k-1')).toBeNull();
    wire.on('GET status', status(kernel({ state: 'paused' })));
    await until(model, () => model.kernel('k-1')?.state === 'paused');
  });

  it('keeps the reason when the table of fates cannot be had', async () => {
    await model.refresh();
    wire.on(
      'GET kernels/k-1/survives',
      { reason: 'kernel_busy', message: 'A cell runs.', hint: '' },
      409
    );
    await expect(model.loadSurvives('k-1')).rejects.toBeInstanceOf(GkewsError);
    expect(model.survivesProblem('k-1')?.reason).toBe('kernel_busy');
    wire.on('GET kernels/k-1/survives', survives([variable()]));
    await model.loadSurvives('k-1');
    expect(model.survivesProblem('k-1')).toBeNull();
    expect(model.survives('k-1')?.variables).toHaveLength(1);
  });

  it('asks once for a table that two surfaces want', async () => {
    wire.on('GET kernels/k-1/survives', survives([variable()]));
    await Promise.all([model.loadSurvives('k-1'), model.loadSurvives('k-1')]);
    expect(wire.asked).toHaveLength(1);
  });

  it('lists the checkpoints anew after a refused delete', async () => {
    await model.loadCheckpoints();
    wire
      .on('GET checkpoints', { checkpoints: [checkpoint({ in_use: true })] })
      .on(
        'DELETE checkpoints/c-1',
        { reason: 'checkpoint_in_use', message: 'In use.', hint: '' },
        409
      );
    await expect(model.deleteCheckpoint('c-1')).rejects.toBeInstanceOf(
      GkewsError
    );
    expect(model.checkpoints[0].in_use).toBe(true);
  });

  it('tells the server the setting once for each kernel that differs', async () => {
    const patches = () => wire.asked.filter(({ method }) => method === 'PATCH');
    wire
      .on('GET status', status(kernel(), kernel({ id: 'k-2' })))
      .on('PATCH kernels/k-1', kernel())
      .on('PATCH kernels/k-2', kernel());
    wire.answers.set('PATCH kernels/k-2', () => json(kernel()));
    await model.refresh();
    expect(patches()).toHaveLength(0);
    model.setResumeOnRun(false);
    await model.refresh();
    await model.refresh();
    expect(patches().map(({ body }) => body)).toEqual([
      { auto_resume: false },
      { auto_resume: false }
    ]);
  });
});

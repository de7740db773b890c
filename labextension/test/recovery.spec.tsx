import { Dialog } from '@jupyterlab/apputils';
import { CommandRegistry } from '@lumino/commands';
import { render, screen } from '@testing-library/react';
import React from 'react';

import { GkewsApi } from '../src/api';
import { addCommands } from '../src/commands';
import { localTime } from '../src/format';
import { GkewsModel } from '../src/model';
import { Settings } from '../src/settings';
import { CommandIDs } from '../src/tokens';
import type { KernelStatus, Status } from '../src/tokens';
import { MissingWeights } from '../src/weights';
import { LastReturnSection } from '../src/workspaces/lastReturn';
import { recoveryHint, recoveryRows } from '../src/workspaces/recovery';
import { addRecoveryCommands } from '../src/workspaces/recoveryCommands';
import type { IWorkspaceTab, Recovery } from '../src/workspaces/tokens';
import {
  checkpoint,
  json,
  kernel,
  operation,
  recovery,
  result,
  status,
  trans,
  until,
  wakeUp,
  Wire
} from './shapes';

const RESUMING = operation({ kind: 'resume', phase: 'restoring' });
const FINISHED = '2026-11-30T19:00:02.000Z';

function waits(id: string): KernelStatus {
  return kernel({
    id,
    path: `${id}.ipynb`,
    state: 'paused',
    checkpoint: 'c-1'
  });
}

/** A start after which these wait, and `k-9` could not come back. */
function waiting(...ids: string[]): Recovery {
  const [, lost] = recovery().kernels;
  return recovery({
    kernels: [
      ...ids.map(id => ({
        kernel: id,
        path: `${id}.ipynb`,
        checkpoint: 'c-1',
        state: 'waiting' as const,
        why: ''
      })),
      { ...lost, kernel: 'k-9' }
    ]
  });
}

describe('the notebooks of a pause whose memory did not come back', () => {
  let wire: Wire;
  let model: GkewsModel;
  let commands: CommandRegistry;
  let ended: string[];
  let tab: { face: { served: boolean; phase: string } };

  /** What the server says from now on. */
  const serves = (kernels: KernelStatus[], found: Recovery | null): Status => {
    const said = { ...status(...kernels), recovery: found };
    wire.on('GET status', said);
    return said;
  };
  const rows = () => recoveryRows(model.status!.recovery!, model, trans);
  const resumed = () =>
    wire.asked
      .filter(({ method, path }) => method === 'POST' && /resume$/.test(path))
      .map(({ path }) => path);
  /** Answer the question that stands on the page: yes, or with Enter. */
  const answer = async (accept: boolean): Promise<void> => {
    await screen.findByText(/^Nothing is deleted/, undefined, {
      timeout: 30_000
    });
    // Without the number of a button it is what Enter does.
    Dialog.tracker.forEach(dialog => dialog.resolve(accept ? 1 : undefined));
  };

  beforeEach(async () => {
    wire = new Wire()
      .on('GET checkpoints', {
        checkpoints: [
          checkpoint({ lost: [{ name: 'gen', reason: null, cell: 1 }] })
        ]
      })
      .on('GET checkpoints/c-1', { differences: [] })
      .on('GET snapshots', { snapshots: [] })
      .on('GET store', {});
    model = new GkewsModel({
      api: new GkewsApi(wire.settings, trans),
      followInterval: 1
    });
    commands = new CommandRegistry();
    ended = [];
    tab = { face: { served: true, phase: 'ready' } };
    addCommands({
      commands,
      model,
      current: null,
      settings: new Settings(null, 'en'),
      trans,
      openPanel: () => undefined,
      weights: new MissingWeights(model, trans)
    });
    addRecoveryCommands({
      commands,
      model,
      tab: tab as unknown as IWorkspaceTab,
      kernels: {
        shutdown: async id => {
          ended.push(id);
        }
      },
      trans
    });
    serves([waits('k-1'), waits('k-2')], waiting('k-1', 'k-2'));
    await model.refresh();
    await model.loadCheckpoints();
  });

  afterEach(() => {
    Dialog.flush();
    model.dispose();
  });

  it('say what is kept and lost, and why one did not come back', () => {
    expect(rows()).toMatchObject([
      { name: 'k-1.ipynb', state: 'waiting', checkpoint: 'c-1' },
      { name: 'k-2.ipynb', state: 'waiting' },
      { name: 'gone.ipynb', state: 'lost', said: 'Its notebook is gone.' }
    ]);
    expect(rows()[0].said).toBe('41 kept, 2 lost (gen) · 6.00 GB');
    expect(recoveryHint(rows(), trans)).toMatch(
      /^2 notebooks wait with their checkpoints.*1 did not come back\.$/
    );
  });

  it('say so where the checkpoint is of before a pause that others had asked for', async () => {
    const taken = '2026-11-30T14:02:00.000Z';
    const found = waiting('k-1', 'k-2');
    found.kernels[0].taken = taken;
    serves([waits('k-1'), waits('k-2')], found);
    await model.refresh();
    const [first, second] = rows();
    expect(first.said).toBe(
      `Its checkpoint is of ${localTime(taken)}, before the pause: what came later is not in it. ` +
        second.said
    );
    expect(second.said).toBe('41 kept, 2 lost (gen) · 6.00 GB');
  });

  it('say what came of each: loaded, failed, or ended since', async () => {
    const done = operation({
      kind: 'resume',
      kernel: 'k-1',
      finished: FINISHED,
      result: result({ kept: 40, provenance: 'recovered' })
    });
    serves(
      [
        kernel({ id: 'k-1', provenance: 'recovered', last_operation: done }),
        {
          ...waits('k-2'),
          reason: 'checkpoint_damaged',
          message: 'It is damaged.',
          hint: 'Nothing was changed.'
        }
      ],
      waiting('k-1', 'k-2', 'k-3')
    );
    await model.refresh();
    expect(rows().map(({ state, said }) => [state, said])).toEqual([
      ['back', '40 kept'],
      ['failed', 'It is damaged. Nothing was changed.'],
      ['lost', ''],
      ['lost', 'Its notebook is gone.']
    ]);
  });

  it('are resumed by one click, one after another', async () => {
    wire
      .on('POST kernels/k-1/resume', { ...RESUMING, kernel: 'k-1' }, 202)
      .on('GET operations/op-1', { ...RESUMING, kernel: 'k-1' })
      .on(
        'POST kernels/k-2/resume',
        { ...RESUMING, id: 'op-2', kernel: 'k-2' },
        202
      )
      .on('GET operations/op-2', {
        ...RESUMING,
        id: 'op-2',
        kernel: 'k-2',
        finished: FINISHED
      });
    const all = commands.execute(CommandIDs.resumeAll);
    await until(model, () => model.operation('k-1'));
    expect(rows()[0].state).toBe('working');
    expect(commands.isEnabled(CommandIDs.resumeAll)).toBe(false);
    expect(resumed()).toEqual(['kernels/k-1/resume']);
    wire.on('GET operations/op-1', {
      ...RESUMING,
      kernel: 'k-1',
      finished: FINISHED
    });
    await all;
    expect(resumed()).toEqual(['kernels/k-1/resume', 'kernels/k-2/resume']);
  });

  it('are resumed no further once the server cannot be reached', async () => {
    wire
      .on('POST kernels/k-1/resume', { ...RESUMING, kernel: 'k-1' }, 202)
      .on('GET operations/op-1', { ...RESUMING, kernel: 'k-1' });
    const all = commands.execute(CommandIDs.resumeAll);
    await until(model, () => model.operation('k-1'));
    wire.answers.set('GET status', () => json({}, 503));
    await model.refresh();
    await all;
    expect(resumed()).toEqual(['kernels/k-1/resume']);
  });

  it('are left alone while the workspace is away', async () => {
    tab.face = { served: false, phase: 'paused' };
    expect(commands.isEnabled(CommandIDs.resumeAll)).toBe(false);
    await commands.execute(CommandIDs.resumeAll);
    await commands.execute(CommandIDs.startFresh);
    expect(resumed()).toEqual([]);
    expect(ended).toEqual([]);
  });

  it('are ended where the user wants to start fresh, but none that was resumed meanwhile', async () => {
    const fresh = commands.execute(CommandIDs.startFresh);
    serves([waits('k-1'), kernel({ id: 'k-2' })], waiting('k-1', 'k-2'));
    await answer(true);
    await fresh;
    expect(ended).toEqual(['k-1']);
    expect(wire.asked.some(({ method }) => method === 'DELETE')).toBe(false);
  });

  it('stay as they are where the user only presses Enter', async () => {
    const fresh = commands.execute(CommandIDs.startFresh);
    await answer(false);
    await fresh;
    expect(ended).toEqual([]);
    expect(commands.isEnabled(CommandIDs.startFresh)).toBe(true);
  });

  it('stand in the panel, each with its button', () => {
    render(
      <LastReturnSection model={model} commands={commands} trans={trans} />
    );
    expect(screen.getByText(/did not come back: the server/)).toBeTruthy();
    for (const name of ['Resume k-1.ipynb', 'Resume k-2.ipynb', 'Resume all']) {
      expect(screen.getByRole('button', { name })).toBeTruthy();
    }
    expect(screen.getByRole('button', { name: 'Start fresh…' })).toHaveProperty(
      'disabled',
      false
    );
  });

  it('give way in the panel to a later return with everything', async () => {
    const woke = wakeUp({
      woke: '2026-11-30T20:00:00.000Z',
      changed_files: ['data.csv'],
      hooks_failed: { 'k-1': { reconnect: 'OSError: no route' } }
    });
    wire.on('GET status', { ...serves([waits('k-1')], recovery()), woke });
    await model.refresh();
    render(
      <LastReturnSection model={model} commands={commands} trans={trans} />
    );
    expect(screen.getByText('after 3 h')).toBeTruthy();
    expect(screen.getByText(/data\.csv was changed/)).toBeTruthy();
    expect(screen.getByText(/reconnect of k-1\.ipynb has failed/)).toBeTruthy();
    expect(screen.queryByRole('button')).toBeNull();
  });

  it('are not spoken of by a server that never came back from a pause', async () => {
    serves([waits('k-1')], null);
    await model.refresh();
    const { container } = render(
      <LastReturnSection model={model} commands={commands} trans={trans} />
    );
    expect(container.innerHTML).toBe('');
    expect(commands.isVisible(CommandIDs.resumeAll)).toBe(false);
  });
});

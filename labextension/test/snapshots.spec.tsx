import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { fireEvent, render, screen, waitFor } from '@testing-library/react';
import React from 'react';

import { GkewsApi } from '../src/api';
import { GkewsModel } from '../src/model';
import { CheckpointsSection } from '../src/panel/checkpoints';
import { OutlookNote } from '../src/panel/outlook';
import { StateSection } from '../src/panel/state';
import { SurvivesSection } from '../src/panel/survives';
import { FailedRestores } from '../src/thawing';
import { endText } from '../src/toasts';
import { CommandIDs } from '../src/tokens';
import type { IGkewsModel, KernelStatus, Operation } from '../src/tokens';
import type { Snapshot } from '../src/tokens';
import { statusLine, stateSentence, viewOf } from '../src/wording';
import {
  checkpoint,
  kernel,
  operation,
  outlook,
  result,
  snapshot,
  status,
  survives,
  trans,
  variable,
  Wire
} from './shapes';

const PAUSED: Partial<KernelStatus> = {
  state: 'paused',
  engine: 'gvisor',
  snapshot: 's-1',
  checkpoint: 'c-1'
};

async function modelOf(fields: Partial<KernelStatus>, ...found: Snapshot[]) {
  const wire = new Wire()
    .on('GET status', status(kernel(fields)))
    .on('GET checkpoints', { checkpoints: [checkpoint({ in_use: true })] })
    .on('GET snapshots', { snapshots: found })
    .on('GET store', { bytes: 1e9, checkpoints: 1, snapshots: 1, unused: 0 })
    .on('DELETE snapshots/s-1', { bytes_freed: 24e6 })
    .on('GET kernels/k-1/survives', survives([variable()]));
  const model = new GkewsModel({ api: new GkewsApi(wire.settings, trans) });
  await model.refresh();
  return { model, wire };
}

function dialog(): Element | null {
  return document.querySelector('.jp-Dialog');
}

function press(label: string): void {
  const buttons =
    document.querySelectorAll<HTMLButtonElement>('.jp-Dialog button');
  const found = [...buttons].find(({ textContent }) => textContent === label);
  found!.click();
}

describe('what a pause would freeze', () => {
  it('is told with what is in it and what it costs', () => {
    render(<OutlookNote outlook={outlook()} trans={trans} />);
    expect(screen.getByText('The process itself is frozen, too.')).toBeTruthy();
    expect(
      screen.getByText(/brings back: threads and what they are doing\./)
    ).toBeTruthy();
    expect(
      screen.getByText('In it now: 1 thread (ticker), 1 generator (rows).')
    ).toBeTruthy();
    expect(
      screen.getByText(
        'About 24.0 MB on disk, 1.4 s to freeze and 0.8 s to bring back.'
      )
    ).toBeTruthy();
  });

  it('is told with what stands in its way, as sentences', () => {
    const objections = [
      { what: '/tmp/a', reason: 'it was deleted', hint: 'Close it.' }
    ];
    const { container } = render(
      <OutlookNote outlook={outlook({ objections })} trans={trans} />
    );
    expect(container.textContent).toContain('rests on the checkpoint:');
    expect(container.textContent).toContain(
      '/tmp/a: it was deleted. Close it.'
    );
  });

  it('is not promised where the kernel could not be asked', () => {
    const unknown = { holds: null, estimate: null, objections: null };
    const { container } = render(
      <OutlookNote outlook={outlook(unknown)} trans={trans} />
    );
    expect(container.textContent).toContain('if it can be');
  });

  it.each([
    [[], 'Snapshot only'],
    [[{ what: 'a', reason: 'b', hint: 'c' }], 'Lost']
  ])('decides what is said of a lost variable', async (objections, said) => {
    const { model, wire } = await modelOf({ engine: 'gvisor' });
    const lost = variable({
      name: 'rows',
      fate: 'lost',
      reason: 'a generator'
    });
    wire.on(
      'GET kernels/k-1/survives',
      survives([lost], { snapshot: outlook({ objections }) })
    );
    await model.loadSurvives('k-1');
    const { container } = render(
      <SurvivesSection
        model={model}
        commands={new CommandRegistry()}
        trans={trans}
        view={viewOf(model, 'k-1')!}
        reload={() => undefined}
      />
    );
    const row = container.querySelector('tr[data-fate="lost"]');
    expect(row?.textContent).toContain(said);
  });
});

describe('a process snapshot in the panel', () => {
  async function show(...found: Snapshot[]) {
    const { model, wire } = await modelOf(PAUSED, ...found);
    await model.loadCheckpoints();
    render(
      <CheckpointsSection
        model={model}
        commands={new CommandRegistry()}
        trans={trans}
        view={viewOf(model, 'k-1')}
        path="work/demo.ipynb"
      />
    );
    return wire;
  }

  it('stands under its checkpoint, with what it is tied to', async () => {
    await show(snapshot());
    const line = document.querySelector('.jp-gkews-Checkpoint [data-snapshot]');
    expect(line?.textContent).toContain('Process snapshot · 24.0 MB');
    expect(line?.textContent).toContain('Resumes from it');
    expect(line?.textContent).toContain(
      '1 thread (ticker), 1 open file (notes.txt)'
    );
    expect(line?.textContent).toContain('runsc 0.0~20221219.0 · Python 3.11.2');
  });

  it('says why it could not be restored', async () => {
    const problem = {
      reason: 'x',
      message: 'Another runsc.',
      hint: 'Go back.'
    };
    await show(snapshot({ problem }));
    expect(screen.getByText('Another runsc. Go back.')).toBeTruthy();
  });

  it('is listed without a checkpoint, too', async () => {
    await show(snapshot({ checkpoint: 'gone', in_use: false, unneeded: 'w' }));
    expect(screen.getByText('Not needed').title).toBe('w');
  });

  it('cannot be deleted where it is all there is', async () => {
    const wire = await show(snapshot({ checkpoint: null, in_cell: true }));
    const button = screen.getByLabelText<HTMLButtonElement>(
      'Delete the process snapshot'
    );
    expect(button.disabled).toBe(true);
    expect(button.title).toBe('It is all there is of a paused notebook');
    fireEvent.click(button);
    expect(dialog()).toBeNull();
    expect(wire.asked.map(({ method }) => method)).not.toContain('DELETE');
  });

  it('can be deleted without a checkpoint where nobody needs it', async () => {
    await show(snapshot({ checkpoint: null, in_use: false, unneeded: 'w' }));
    const button = screen.getByLabelText<HTMLButtonElement>(
      'Delete the process snapshot'
    );
    expect(button.disabled).toBe(false);
    expect(button.title).toBe('Delete it from the disk');
  });

  it('says that an earlier state remains of one taken in a cell', async () => {
    await show(snapshot({ in_cell: true }));
    fireEvent.click(screen.getByLabelText('Delete the process snapshot'));
    await waitFor(() =>
      expect(dialog()?.textContent).toContain('of an earlier state, stays')
    );
    press('Cancel');
    await waitFor(() => expect(dialog()).toBeNull());
  });

  it('is deleted after it was said what remains', async () => {
    const wire = await show(snapshot());
    fireEvent.click(screen.getByLabelText('Delete the process snapshot'));
    await waitFor(() =>
      expect(dialog()?.textContent).toContain('with 1 thread (ticker)')
    );
    expect(dialog()?.textContent).toContain(
      'The checkpoint of the same pause stays'
    );
    press('Delete 24.0 MB');
    await waitFor(() =>
      expect(wire.asked).toContainEqual({
        method: 'DELETE',
        path: 'snapshots/s-1',
        body: {}
      })
    );
  });
});

describe('the state of a frozen kernel', () => {
  it('names the size of the image, which is asked for by itself', async () => {
    const { model } = await modelOf(PAUSED, snapshot());
    await waitFor(() => expect(model.snapshots).toHaveLength(1));
    const view = viewOf(model, 'k-1')!;
    expect(stateSentence(view, trans)).toContain('frozen on disk (24.0 MB)');
  });

  it('is asked for once, where a snapshot is not listed', async () => {
    const { model, wire } = await modelOf(PAUSED);
    await model.refresh();
    await model.refresh();
    const asked = wire.asked.filter(({ path }) => path === 'snapshots');
    expect(asked.length).toBeLessThanOrEqual(1);
  });

  it('is the same process after a restore, and says so', async () => {
    const { model } = await modelOf({ provenance: 'restored' });
    const view = viewOf(model, 'k-1')!;
    expect(statusLine(view, trans)).toBe('Restored: the same process');
  });

  it('offers the checkpoint after a failed restore', async () => {
    const { model } = await modelOf({ ...PAUSED, reason: 'snapshot_failed' });
    const commands = new CommandRegistry();
    const run: unknown[] = [];
    commands.addCommand(CommandIDs.resume, { execute: args => run.push(args) });
    const view = viewOf(model, 'k-1')!;
    const props = { model, commands, trans, view };
    render(<StateSection {...props} />);
    fireEvent.click(screen.getByText('From the checkpoint'));
    fireEvent.click(screen.getByText('Try again'));
    expect(run).toEqual([
      { kernelId: 'k-1', snapshot: false },
      { kernelId: 'k-1' }
    ]);
  });
});

describe('the end of a pause', () => {
  const paused = operation({ finished: '2026-11-30T18:00:02.000Z' });

  it('says that the process is frozen', () => {
    const ended = { ...paused, result: result({ snapshot: 's-1' }) };
    expect(endText(ended, 'a.ipynb', trans)).toContain('the process is frozen');
  });

  it('says why it is not', () => {
    const ended = { ...paused, result: result({ note: 'No snapshot: x.' }) };
    expect(endText(ended, 'a.ipynb', trans)).toContain('No snapshot: x.');
  });
});

describe('a process that could not be brought back', () => {
  class Model {
    readonly operationChanged = new Signal<this, Operation>(this);
    readonly asked: unknown[] = [];
    constructor(readonly fields: Partial<KernelStatus> = PAUSED) {}

    kernel(): KernelStatus {
      return kernel(this.fields);
    }

    resume(...args: unknown[]): Promise<Operation> {
      this.asked.push(args);
      return Promise.resolve(operation({ kind: 'resume' }));
    }

    fail(reason: string): void {
      this.operationChanged.emit(
        operation({
          kind: 'resume',
          finished: '2026-11-30T18:00:04.000Z',
          error: { reason, message: 'A file is gone.', hint: 'Kept.' }
        })
      );
    }
  }

  async function ask(model: Model, reason = 'snapshot_failed') {
    new FailedRestores(model as unknown as IGkewsModel, trans);
    model.fail(reason);
    // The dialog stands before React has drawn what is in it.
    await waitFor(() =>
      expect(dialog()?.textContent).toContain('A file is gone.')
    );
  }

  it.each([
    ['From the checkpoint', { snapshot: false }],
    ['Try again', { snapshot: true }]
  ])('goes on as the user says: %s', async (label, how) => {
    const model = new Model();
    await ask(model);
    press(label);
    await waitFor(() => expect(model.asked).toEqual([['k-1', how]]));
  });

  it('is told what each way on means', async () => {
    await ask(new Model());
    const ways = [...document.querySelectorAll('.jp-Dialog dt')].map(
      ({ textContent }) => textContent
    );
    expect(ways).toEqual(['Try again', 'From the checkpoint']);
    press('Not now');
    await waitFor(() => expect(dialog()).toBeNull());
  });

  it('is named by its kernel where it has no notebook', async () => {
    await ask(new Model({ ...PAUSED, path: null, display_name: 'Py' }));
    expect(dialog()?.textContent).toContain('The process of Py could not');
    press('Not now');
    await waitFor(() => expect(dialog()).toBeNull());
  });

  it('stays paused if the user says so', async () => {
    const model = new Model();
    await ask(model, 'snapshot_incompatible');
    press('Not now');
    await waitFor(() => expect(dialog()).toBeNull());
    expect(model.asked).toEqual([]);
  });

  it('has no checkpoint to offer where there is none', async () => {
    await ask(new Model({ ...PAUSED, checkpoint: null }));
    const labels = [...document.querySelectorAll('.jp-Dialog button')].map(
      ({ textContent }) => textContent
    );
    expect(labels).not.toContain('From the checkpoint');
    expect(dialog()?.textContent).toContain('once what is missing is back');
    expect(dialog()?.textContent).not.toContain('From the checkpoint');
    expect(dialog()?.textContent).not.toContain('loads the variables');
    press('Not now');
    await waitFor(() => expect(dialog()).toBeNull());
  });

  it('is nobody’s to ask of another failure', async () => {
    const model = new Model();
    new FailedRestores(model as unknown as IGkewsModel, trans);
    model.fail('checkpoint_damaged');
    await new Promise(resolve => setTimeout(resolve));
    expect(dialog()).toBeNull();
  });
});

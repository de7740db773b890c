import { Signal } from '@lumino/signaling';

import type { IGkewsModel, Operation } from '../src/tokens';
import { MissingWeights } from '../src/weights';
import { operation, trans } from './shapes';

const MISSING = {
  reason: 'weights_missing',
  message: '/hub/model.safetensors: it is not there any more.',
  hint: 'hf download acme/tiny'
};

class Model {
  readonly operationChanged = new Signal<this, Operation>(this);
  readonly asked: unknown[][] = [];
  started = operation({ kind: 'restore', id: 'op-2', phase: 'restoring' });

  resume(...args: unknown[]): Promise<Operation> {
    this.asked.push(['resume', ...args]);
    return Promise.resolve(operation({ kind: 'resume' }));
  }

  restore(...args: unknown[]): Promise<Operation> {
    this.asked.push(['restore', ...args]);
    return Promise.resolve(this.started);
  }

  end(fields: Partial<Operation>): void {
    const finished = '2026-11-30T18:00:04.000Z';
    this.operationChanged.emit(operation({ finished, ...fields }));
  }
}

async function shown(): Promise<Element | null> {
  await new Promise(resolve => setTimeout(resolve));
  return document.querySelector('.jp-Dialog');
}

async function press(label: string): Promise<void> {
  const buttons =
    document.querySelectorAll<HTMLButtonElement>('.jp-Dialog button');
  [...buttons].find(({ textContent }) => textContent === label)!.click();
  await new Promise(resolve => setTimeout(resolve));
}

describe('a resume whose files of weights are missing', () => {
  let model: Model;
  let weights: MissingWeights;

  beforeEach(() => {
    model = new Model();
    weights = new MissingWeights(model as unknown as IGkewsModel, trans);
  });

  it('is asked about, and goes on without them if the user says so', async () => {
    model.end({ kind: 'resume', error: MISSING });
    expect((await shown())?.textContent).toContain('it is not there any more');
    await press('Resume without them');
    expect(model.asked).toEqual([['resume', 'k-1', { acceptMissing: true }]]);
  });

  it('is left alone if the user says not now', async () => {
    model.end({ kind: 'resume', error: MISSING });
    expect(await shown()).not.toBeNull();
    await press('Not now');
    expect(model.asked).toEqual([]);
  });

  it('is not asked about for any other error', async () => {
    model.end({
      kind: 'resume',
      error: { reason: 'restore_failed', message: 'No.', hint: '' }
    });
    expect(await shown()).toBeNull();
  });

  it('is repeated with its checkpoint where it was a restore of this page', async () => {
    await weights.restore('c-1', null);
    model.end({ kind: 'restore', id: 'op-2', error: MISSING });
    expect(await shown()).not.toBeNull();
    await press('Resume without them');
    expect(model.asked).toEqual([
      ['restore', 'c-1', null],
      ['restore', 'c-1', null, true]
    ]);
  });

  it('is left to the page that asked for it', async () => {
    model.end({ kind: 'restore', id: 'op-9', error: MISSING });
    expect(await shown()).toBeNull();
  });
});

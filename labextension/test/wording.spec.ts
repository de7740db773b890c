import type { KernelStatus, Operation, Proved } from '../src/tokens';
import type { IView } from '../src/wording';
import { provedText, provedWord } from '../src/proved';
import {
  nameOf,
  progressText,
  provenanceLabel,
  reasonText,
  sentences,
  stateHint,
  stateLabel,
  stateSentence,
  statusLine
} from '../src/wording';
import { kernel, operation, result, trans } from './shapes';

function view(
  fields: Partial<KernelStatus>,
  active: Operation | null = null,
  ended: Operation | null = null
): IView {
  return { kernel: kernel(fields), active, ended };
}

const HOURS_AGO = new Date(Date.now() - 2 * 3600 * 1000 - 1000).toISOString();

describe('how a checkpoint was proved', () => {
  const loaded: Proved = {
    how: 'scratch',
    why: null,
    by: 'c2',
    when: HOURS_AGO,
    partly: []
  };

  it('tells a test load of its own from one that still holds', () => {
    expect(provedWord(loaded, trans)).toBe('proved');
    expect(provedText(loaded, trans)).toContain('another process loaded it');
    const carried = { ...loaded, why: 'nothing has changed', by: 'c1' };
    expect(provedText(carried, trans)).toContain('the test load of c1');
  });

  it('never calls less than a test load proved', () => {
    const why = 'memory is short';
    const readBack: Proved = { ...loaded, how: 'read-back', by: null, why };
    expect(provedWord(readBack, trans)).toBe('read back');
    expect(provedText(readBack, trans)).toContain(`was not tried: ${why}`);
    const off: Proved = { ...readBack, how: 'off', why: 'it was asked for' };
    expect(provedWord(off, trans)).toBe('not proved');
    expect(provedText(off, trans)).toBe('Not proved: it was asked for.');
  });

  it('says of which names not everything was compared', () => {
    const text = provedText({ ...loaded, partly: ['big', 'huge'] }, trans);
    expect(text).toContain('big, huge');
  });
});

describe('the names and sentences that all surfaces share', () => {
  it('call a kernel by its notebook, or else by its kernelspec', () => {
    expect(nameOf(kernel({ path: 'a/b/c.ipynb' }))).toBe('c.ipynb');
    expect(nameOf(kernel({ path: null, display_name: 'Py' }))).toBe('Py');
  });

  it('leave no blank where there is no hint', () => {
    expect(sentences({ message: 'A.', hint: 'B.' })).toBe('A. B.');
    expect(sentences({ message: 'A.', hint: '' })).toBe('A.');
  });
});

describe('the status line', () => {
  it('shows share, bytes and time left of a pause', () => {
    const active = operation({
      bytes_done: 3_100_000_000,
      bytes_total: 5_000_000_000,
      eta_s: 12
    });
    expect(statusLine(view({ state: 'pausing' }, active), trans)).toBe(
      'Pausing 62 %, 3.1 of 5.0 GB, 12 s left'
    );
  });

  it('says what happens while there is nothing to measure', () => {
    const active = operation({ phase: 'waiting_for_idle' });
    expect(statusLine(view({ state: 'pausing' }, active), trans)).toBe(
      'Pausing: Waiting for the running cell'
    );
  });

  it('shows the age of a pause', () => {
    expect(statusLine(view({ state: 'paused', since: HOURS_AGO }), trans)).toBe(
      'Paused 2 h'
    );
  });

  it('counts what came back', () => {
    const ended = operation({
      kind: 'resume',
      result: result({
        provenance: 'recovered',
        lost: [
          { name: 'a', reason: null, cell: 1 },
          { name: 'b', reason: null, cell: 2 }
        ]
      })
    });
    expect(
      statusLine(view({ provenance: 'recovered' }, null, ended), trans)
    ).toBe('Recovered: 41 kept, 2 lost');
  });

  it('says that a pause has failed, not that all is well', () => {
    const fields = { reason: 'disk_full' };
    expect(statusLine(view(fields, null, operation()), trans)).toBe(
      'Pause failed'
    );
  });

  it('says that a resume has failed while it is still paused', () => {
    const fields = { state: 'paused' as const, reason: 'restore_failed' };
    expect(statusLine(view(fields), trans)).toMatch(/resume failed/);
  });

  it('says when there is no pause for this kernel', () => {
    expect(statusLine(view({ pausable: false }), trans)).toBe('Cannot pause');
  });
});

it('tells the three ends of a resume apart by word, icon and tone', () => {
  const labels = (['restored', 'recovered', 'fresh'] as const).map(end =>
    provenanceLabel(end, trans)
  );
  for (const key of ['word', 'tone'] as const) {
    expect(new Set(labels.map(label => label[key])).size).toBe(3);
  }
  expect(new Set(labels.map(({ icon }) => icon.name)).size).toBe(3);
});

it('shows fresh as fresh, also in the state', () => {
  expect(stateLabel(view({ provenance: 'fresh' }), trans).word).toBe('Fresh');
});

describe('the state as a sentence', () => {
  it('is ours while nothing went wrong', () => {
    const paused = view({ state: 'paused', message: 'As the server says.' });
    expect(stateSentence(paused, trans)).toMatch(/the checkpoint is kept/);
    const active = operation({ step: 'reading' });
    expect(stateSentence(view({ state: 'resuming' }, active), trans)).toBe(
      'Reading the checkpoint'
    );
  });

  it('is what the server says after a failure, with what it advises', () => {
    const failed = view({
      state: 'paused',
      reason: 'restore_failed',
      message: 'It did not succeed.',
      hint: 'Try this.'
    });
    expect(stateSentence(failed, trans)).toBe('It did not succeed.');
    expect(stateHint(failed, trans)).toBe('Try this.');
  });

  it('advises to run a cell only where that resumes', () => {
    const paused = (auto_resume: boolean) =>
      stateHint(view({ state: 'paused', auto_resume }), trans);
    expect(paused(true)).toMatch(/or run a cell/);
    expect(paused(false)).toMatch(/before you run a cell/);
  });
});

it('never shows more than all of it', () => {
  const text = progressText(
    operation({ bytes_done: 12, bytes_total: 10 }),
    trans
  );
  expect(text).toMatch(/^100 %/);
});

it('names the cell that made what is lost', () => {
  expect(
    reasonText({ reason: 'a generator: it could not be kept', cell: 12 }, trans)
  ).toBe('A generator: it could not be kept. Made by cell [12].');
});

import { cardFace } from '../src/overlay';
import { kernel, operation, trans } from './shapes';

function face(fields: Parameters<typeof kernel>[0], active = false) {
  return cardFace(
    {
      kernel: kernel(fields),
      active: active ? operation({ kind: 'resume', phase: 'restoring' }) : null,
      ended: null
    },
    trans
  );
}

describe('the card over a notebook', () => {
  it('is not there while the kernel runs or pauses', () => {
    expect(face({ state: 'running' })).toBeNull();
    expect(face({ state: 'pausing' })).toBeNull();
    expect(cardFace(null, trans)).toBeNull();
  });

  it('says that running a cell resumes, if it does', () => {
    expect(face({ state: 'paused' })?.sentence).toMatch(/run a cell or resume/);
    expect(face({ state: 'paused', auto_resume: false })?.sentence).toMatch(
      /resume before you run a cell/
    );
  });

  it('offers nothing to click while it resumes', () => {
    const card = face({ state: 'resuming' }, true);
    expect(card?.action).toBeNull();
    expect(card?.sentence).toMatch(/Resuming: Bringing the kernel back/);
  });

  it('says why a resume failed and what to do', () => {
    const card = face({
      state: 'paused',
      reason: 'checkpoint_damaged',
      message: 'The checkpoint is damaged.',
      hint: 'Restore an older one.'
    });
    expect(card).toMatchObject({
      mode: 'failed',
      sentence: 'The checkpoint is damaged.',
      hint: 'Restore an older one.',
      action: 'Try again',
      other: null
    });
  });

  it('offers the checkpoint where a process could not be brought back', () => {
    const failed = {
      state: 'paused' as const,
      reason: 'snapshot_incompatible',
      snapshot: 's-1'
    };
    expect(face({ ...failed, checkpoint: 'c-1' })?.other).toBe(
      'From the checkpoint'
    );
    // Paused in the middle of the first cell: there is none.
    expect(face({ ...failed, checkpoint: null })?.other).toBeNull();
  });
});

import { Absence } from '../src/workspaces/absence';
import type { Listed } from '../src/workspaces/backend';
import { PACE } from '../src/workspaces/pace';

function listed(state: string, fields: Partial<Listed> = {}): Listed {
  return {
    name: 'ws',
    namespace: 'team',
    paused: state === 'Paused',
    pausedTime: 0,
    state,
    stateMessage: '',
    ...fields
  };
}

/** One that was paused and whose start was asked for, as the backend lists it now. */
function starting(now: Listed): Absence {
  const absence = new Absence(true, PACE);
  absence.take(listed('Paused'));
  absence.asked();
  absence.take(now);
  return absence;
}

const NO_ROOM = { stateMessage: 'Workspace Pod is unschedulable: no room' };

describe('the time without a server', () => {
  it.each([
    ['Pending', {}, 500, 1000],
    ['Running', {}, 500, 1000],
    ['Error', NO_ROOM, 1000, 1000],
    ['Error', { stateMessage: 'no such image' }, 5000, 30000]
  ])(
    'is looked at more often, the sooner the pod may be ready: %s %j',
    (state, fields, seen, unseen) => {
      const absence = starting(listed(state, fields));
      expect(absence.delay(true)).toBe(seen);
      expect(absence.delay(false)).toBe(unseen);
    }
  );

  it('is looked at seldom while it is paused', () => {
    const absence = new Absence(true, PACE);
    absence.take(listed('Paused'));
    expect([absence.delay(true), absence.delay(false)]).toEqual([5000, 30000]);
  });

  it('is looked at less often each time nobody answers', () => {
    const absence = starting(listed('Pending'));
    const delays = Array.from({ length: 6 }, () => {
      absence.failed(new Error('no'));
      return absence.delay(true);
    });
    expect(delays).toEqual([2000, 4000, 8000, 16000, 30000, 30000]);
    absence.answered();
    expect(absence.delay(true)).toBe(500);
  });

  it.each([
    ['Paused', true],
    ['Pending', true],
    ['Unknown', true],
    ['Running', true],
    ['Terminating', false],
    ['Error', false]
  ])(
    'may be over before the backend knows it, once a start was asked for: %s',
    (state, may) => {
      expect(starting(listed(state, NO_ROOM)).mayServe).toBe(may);
    }
  );

  it.each(['Paused', 'Terminating', 'Unknown', 'Running'])(
    'is not taken to be over before a start: %s',
    state => {
      const absence = new Absence(true, PACE);
      absence.take(listed(state));
      expect(absence.mayServe).toBe(false);
    }
  );
});

import { GkewsError } from '../src/api';
import { Following } from '../src/following';
import type { Operation } from '../src/tokens';
import { operation } from './shapes';

describe('following an operation', () => {
  let answers: () => Promise<Operation>;
  let asked: number;
  let seen: Operation[];
  let over: [string, boolean][];
  let following: Following;

  const runs = () => Promise.resolve(operation());
  const fails = (status: number) => () =>
    Promise.reject(
      new GkewsError(
        { reason: 'server_unreachable', message: '', hint: '' },
        status
      )
    );

  beforeEach(() => {
    jest.useFakeTimers();
    [answers, asked, seen, over] = [runs, 0, [], []];
    following = new Following(
      {
        operation: () => {
          asked += 1;
          return answers();
        }
      },
      {
        seen: one => seen.push(one),
        over: ({ id }, known) => over.push([id, known])
      }
    );
  });

  afterEach(() => {
    following.dispose();
    jest.useRealTimers();
  });

  const seconds = (count: number) =>
    jest.advanceTimersByTimeAsync(1000 * count);

  it('looks once a second, until it has ended', async () => {
    following.begin(operation());
    following.begin(operation());
    await seconds(3);
    expect([asked, seen.length]).toEqual([3, 3]);
    answers = () => Promise.resolve(operation({ finished: 'now' }));
    await seconds(60);
    expect(asked).toBe(4);
    expect(over).toEqual([[operation().id, true]]);
  });

  it('looks less often while the server is away, and as before once it is back', async () => {
    following.begin(operation());
    answers = fails(503);
    await seconds(1 + 2 + 4 + 8 + 16);
    expect(asked).toBe(5);
    await seconds(600);
    expect(asked).toBe(25); // every 30 s
    answers = runs;
    following.hurry(operation());
    await seconds(3);
    expect(asked).toBe(28);
    expect(over).toEqual([]);
  });

  it('does not look twice at a time when the server is back in the middle of a look', async () => {
    let fail = () => {};
    following.begin(operation());
    answers = fails(503);
    await seconds(1);
    answers = () =>
      new Promise((_, reject) => (fail = () => reject(new Error('late'))));
    await seconds(2);
    following.hurry(operation());
    answers = runs;
    fail();
    await seconds(3);
    expect(asked).toBe(2 + 3);
  });

  it('is over when a server that was started anew does not know it', async () => {
    following.begin(operation());
    answers = fails(404);
    await seconds(60);
    expect(asked).toBe(1);
    expect(over).toEqual([[operation().id, false]]);
  });

  it('ends with the page', async () => {
    following.begin(operation());
    following.dispose();
    following.begin(operation());
    await seconds(60);
    expect(asked).toBe(0);
  });
});

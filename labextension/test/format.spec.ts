import {
  age,
  duration,
  localTime,
  secondsSince,
  size,
  sizeOf
} from '../src/format';
import { trans } from './shapes';

describe('numbers as the user reads them', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1500, '1.5 kB'],
    [48_000_000, '48.0 MB'],
    [999_600_000, '1.00 GB'],
    [6_171_000_000, '6.17 GB'],
    [123_400_000_000, '123 GB']
  ])('%d bytes are %s', (bytes, text) => {
    expect(size(bytes)).toBe(text);
  });

  it('puts two sizes in the unit of the larger one', () => {
    expect(sizeOf(3_100_000_000, 5_000_000_000, trans)).toBe('3.1 of 5.0 GB');
    expect(sizeOf(20_000_000, 5_000_000_000, trans)).toBe('0.0 of 5.0 GB');
  });

  it.each([
    [0.42, '0.4 s'],
    [12.2, '12 s'],
    [200, '3 min 20 s'],
    [1800, '30 min'],
    [7500, '2 h 5 min']
  ])('%d seconds last %s', (seconds, text) => {
    expect(duration(seconds, trans)).toBe(text);
  });

  it.each([
    [10, 'just now'],
    [300, '5 min'],
    [7300, '2 h'],
    [3 * 86400, '3 d']
  ])('an age of %d seconds is %s', (seconds, text) => {
    expect(age(seconds, trans)).toBe(text);
  });

  it('never counts an age backwards when clocks differ', () => {
    const now = Date.parse('2026-11-30T18:00:00Z');
    expect(secondsSince('2026-11-30T18:00:05Z', now)).toBe(0);
  });

  it('shows the date only for another day', () => {
    const now = new Date(2026, 10, 30, 20, 0).getTime();
    const today = localTime(new Date(2026, 10, 30, 18, 4).toISOString(), now);
    const before = localTime(new Date(2026, 10, 28, 18, 4).toISOString(), now);
    expect(today).not.toMatch(/28|Nov/);
    expect(before).toMatch(/28/);
  });
});

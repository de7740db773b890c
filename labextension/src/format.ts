/**
 * Numbers and times as the user reads them. Every number gets its unit; sizes count in powers of
 * 1000, as file managers do (1 GB = 1,000,000,000 bytes). Never looks at any state.
 */

import type { TranslationBundle } from '@jupyterlab/translation';

const SIZE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

function scale(bytes: number): { value: number; unit: number } {
  let value = Math.max(0, bytes);
  let unit = 0;
  // 999.5 and more would be printed as 1000 of the smaller unit.
  while (value >= 999.5 && unit < SIZE_UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return { value, unit };
}

function digits(value: number, unit: number): string {
  if (unit === 0 || value >= 99.95) {
    return value.toFixed(0);
  }
  return value >= 9.995 || unit === 1 ? value.toFixed(1) : value.toFixed(2);
}

/** `bytes` with one unit: `3.12 GB`, `48.0 MB`, `512 B`. */
export function size(bytes: number): string {
  const { value, unit } = scale(bytes);
  return `${digits(value, unit)} ${SIZE_UNITS[unit]}`;
}

/** Two sizes in the unit of the second: `3.1 of 5.0 GB`. */
export function sizeOf(
  done: number,
  total: number,
  trans: TranslationBundle
): string {
  const { unit } = scale(total);
  const in_unit = (bytes: number) =>
    (Math.max(0, bytes) / 1000 ** unit).toFixed(unit < 2 ? 0 : 1);
  return trans.__(
    '%1 of %2 %3',
    in_unit(done),
    in_unit(total),
    SIZE_UNITS[unit]
  );
}

/** `seconds` as a length of work: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(seconds: number, trans: TranslationBundle): string {
  const s = Math.max(0, seconds);
  if (s < 9.95) {
    return trans.__('%1 s', s.toFixed(1));
  }
  const whole = Math.round(s);
  if (whole < 60) {
    return trans.__('%1 s', whole);
  }
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) {
    const rest = whole % 60;
    return rest && minutes < 10
      ? trans.__('%1 min %2 s', minutes, rest)
      : trans.__('%1 min', minutes);
  }
  const hours = Math.floor(minutes / 60);
  return minutes % 60
    ? trans.__('%1 h %2 min', hours, minutes % 60)
    : trans.__('%1 h', hours);
}

/** `seconds` as an age, in its largest unit alone: `just now`, `5 min`, `2 h`, `3 d`. */
export function age(seconds: number, trans: TranslationBundle): string {
  const s = Math.max(0, seconds);
  if (s < 60) {
    return trans.__('just now');
  }
  if (s < 3600) {
    return trans.__('%1 min', Math.floor(s / 60));
  }
  if (s < 48 * 3600) {
    return trans.__('%1 h', Math.floor(s / 3600));
  }
  return trans.__('%1 d', Math.floor(s / 86400));
}

/** When something was, seen from now: `just now`, `5 min ago`. */
export function ago(seconds: number, trans: TranslationBundle): string {
  const text = age(seconds, trans);
  return seconds < 60 ? text : trans.__('%1 ago', text);
}

/** Seconds from the ISO 8601 time `iso` until `now` (milliseconds since the epoch). */
export function secondsSince(iso: string, now: number = Date.now()): number {
  const then = Date.parse(iso);
  return Number.isNaN(then) ? 0 : Math.max(0, (now - then) / 1000);
}

/** The local time of `iso`: the hour today, with the date before today. */
export function localTime(iso: string, now: number = Date.now()): string {
  const then = new Date(iso);
  if (Number.isNaN(then.getTime())) {
    return iso;
  }
  const hour: Intl.DateTimeFormatOptions = {
    hour: '2-digit',
    minute: '2-digit'
  };
  const sameDay = then.toDateString() === new Date(now).toDateString();
  return sameDay
    ? then.toLocaleTimeString(undefined, hour)
    : then.toLocaleString(undefined, {
        day: 'numeric',
        month: 'short',
        ...hour
      });
}

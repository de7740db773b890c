/**
 * How often the workspace is looked at while its server is away, and how long things are told.
 */

/** Milliseconds between two looks, and what else is waited for. */
export type Pace = {
  /** While its pod starts, and the user looks on. */
  quick: number;
  /** While something else happens. */
  busy: number;
  /** While it is paused, or cannot start. */
  calm: number;
  /** The longest, while the backend does not answer or the page is not looked at. */
  slow: number;
  /** Until a server that does not answer is told of, if the backend says that it runs. */
  hiccup: number;
  /** For which a start that was asked for is not asked for again, whatever a cache still says. */
  asked: number;
  /** For which a full return stays told of. */
  told: number;
};

export const PACE: Pace = {
  quick: 500,
  busy: 1000,
  calm: 5000,
  slow: 30000,
  hiccup: 4000,
  asked: 20000,
  told: 30000
};

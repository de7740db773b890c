/**
 * One time for which the workspace's server does not answer: what the backend has said of it since,
 * what was asked of it, and what that means. Asks nobody itself; thrown away when the server is back.
 */

import type { AwayPhase, Episode } from './away';
import { awayPhase } from './away';
import type { Listed } from './backend';
import type { Pace } from './pace';

export class Absence {
  /** `pausing`: whether a pause was under way when the server went. */
  constructor(
    pausing: boolean,
    private readonly _pace: Pace
  ) {
    this._episode = { pausing, starting: false };
  }

  /** What the backend said last; undefined before it has answered. */
  get listed(): Listed | null | undefined {
    return this._listed;
  }

  /** Why the backend could not be asked at the last look. */
  get error(): unknown {
    return this._error;
  }

  /** Whether a pause was seen in this time, or was under way when it began. */
  get isPausing(): boolean {
    return this._episode.pausing;
  }

  /** The phase; `here` for as long as it may be one answer that has failed. */
  get phase(): AwayPhase | 'here' {
    const phase =
      this._listed !== undefined
        ? awayPhase(this._listed, this._episode)
        : this._episode.pausing
          ? 'pausing'
          : 'away'; // the backend has not answered yet
    if (phase === 'paused' && this._isAsked()) {
      return 'restoring';
    }
    if (phase === 'away' && Date.now() - this._began < this._pace.hiccup) {
      return 'here';
    }
    return phase;
  }

  /**
   * Whether a pod that starts may serve already, whatever the backend says: its word comes from
   * Kubeflow's controller, some time after the pod is ready.
   */
  get mayServe(): boolean {
    return this.phase === 'restoring' && this._listed?.state !== 'Terminating';
  }

  /** Since when the phase is what it is, in milliseconds since the epoch. */
  get since(): number {
    const cluster = this.phase === 'paused' && this._listed?.pausedTime;
    return cluster || this._phaseSince;
  }

  /** Take what the backend says now. */
  take(listed: Listed | null): void {
    const before = this.phase;
    const episode = this._episode;
    this._listed = listed;
    const phase = awayPhase(listed, episode);
    if (listed?.paused) {
      episode.pausing = true;
    }
    if (phase === 'paused') {
      episode.starting = this._isAsked();
    } else if (phase === 'waiting' || phase === 'restoring') {
      episode.starting = true;
    }
    if (this.phase !== before) {
      this._phaseSince = Date.now();
    }
  }

  /** The backend has answered a look. */
  answered(): void {
    this._error = null;
    this._tries = 0;
  }

  /** A look has failed. */
  failed(error: unknown): void {
    this._error = error;
    this._tries += 1;
  }

  /** The start was asked for, and not refused. */
  asked(): void {
    this._askedAt = Date.now();
    this._episode.starting = true;
    this._error = null;
  }

  /** Milliseconds until the next look. */
  delay(isVisible: boolean): number {
    const { quick, busy, calm, slow } = this._pace;
    if (this._error) {
      return Math.min(slow, busy * 2 ** Math.min(this._tries, 6));
    }
    if (['paused', 'failed', 'gone'].includes(this.phase)) {
      return isVisible ? calm : slow;
    }
    return isVisible && this.phase === 'restoring' ? quick : busy;
  }

  /** For a while the backend's list may be behind what was asked of it. */
  private _isAsked(): boolean {
    return Date.now() - this._askedAt < this._pace.asked;
  }

  private readonly _episode: Episode;
  private readonly _began = Date.now();
  private _phaseSince = Date.now();
  private _listed: Listed | null | undefined;
  private _error: unknown = null;
  private _tries = 0;
  private _askedAt = 0;
}

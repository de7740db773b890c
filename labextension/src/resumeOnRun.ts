/**
 * Part of the model: tells the server, once for each kernel that it is new to, whether running a
 * cell in a paused notebook shall resume it. Until the user has said so, it tells nothing.
 */

import type { GkewsApi } from './api';
import type { KernelStatus } from './tokens';

export class ResumeOnRun {
  constructor(private readonly _api: GkewsApi) {}

  set(value: boolean, kernels: KernelStatus[]): void {
    this._value = value;
    this._sent.clear();
    this.send(kernels);
  }

  send(kernels: KernelStatus[]): void {
    const value = this._value;
    if (value === null) {
      return;
    }
    for (const kernel of kernels) {
      if (this._sent.has(kernel.id)) {
        continue;
      }
      this._sent.add(kernel.id);
      if (kernel.auto_resume !== value) {
        this._api.setAutoResume(kernel.id, value).catch(() => {
          // The kernel may be gone; the next status that lists it tries again.
          this._sent.delete(kernel.id);
        });
      }
    }
  }

  private readonly _sent = new Set<string>();
  private _value: boolean | null = null;
}

/**
 * The user's settings (`schema/plugin.json`), typed. Knows defaults only until they are loaded.
 */

import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { ISignal } from '@lumino/signaling';
import { Signal } from '@lumino/signaling';

import type { ISettings } from './tokens';
import { SETTINGS_ID } from './tokens';

export class Settings implements ISettings {
  /** `language` is that of the interface, such as `ko-KR`. */
  constructor(
    private readonly _registry: ISettingRegistry | null,
    private readonly _language: string
  ) {}

  /** Emitted after the settings were loaded or changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get resumeOnRun(): boolean {
    return this._get('resumeOnRun', true);
  }

  get skipDialogWhenNothingLost(): boolean {
    return this._get('skipDialogWhenNothingLost', false);
  }

  get notifications(): boolean {
    return this._get('notifications', true);
  }

  /** Where the Workspaces backend answers; empty: found by the page's address. */
  get workspacesApi(): string {
    const value = this._loaded?.get('workspacesApi').composite;
    return typeof value === 'string' ? value : '';
  }

  /** Whether the user has said something about `resumeOnRun`; else the server's own setting holds. */
  get resumeOnRunIsSet(): boolean {
    return this._loaded?.user['resumeOnRun'] !== undefined;
  }

  /** Load the settings; rejects if the server has none of ours. */
  async load(): Promise<void> {
    if (this._registry) {
      // The server lists the schemas of prebuilt extensions in English; one that is asked for
      // alone comes translated.
      this._loaded = this._language.startsWith('en')
        ? await this._registry.load(SETTINGS_ID)
        : await this._registry.reload(SETTINGS_ID);
      this._loaded.changed.connect(() => this._changed.emit());
      this._changed.emit();
    }
  }

  async skipDialog(): Promise<void> {
    await this._loaded?.set('skipDialogWhenNothingLost', true);
  }

  private _get(key: string, otherwise: boolean): boolean {
    const value = this._loaded?.get(key).composite;
    return typeof value === 'boolean' ? value : otherwise;
  }

  private readonly _changed = new Signal<this, void>(this);
  private _loaded: ISettingRegistry.ISettings | null = null;
}

/**
 * Notifications of operations: one while it works, which becomes its success with Details, or
 * its error with what to do. Listens to the model; starts nothing.
 */

import { Notification } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { DrawnNotification } from './drawnNotification';
import { duration, size } from './format';
import { isOfSnapshot } from './snapshots';
import type { IGkewsModel, ISettings, Operation } from './tokens';
import { countsText, kindWord, nameOf, progressText } from './wording';

/** Milliseconds that a success stays. */
const SUCCESS_STAYS = 8000;

/**
 * Milliseconds that an operation runs before it is told of. A shorter one tells its end only.
 */
export const TOLD_AFTER = 700;

export class Toasts {
  constructor(private readonly _options: Toasts.IOptions) {
    _options.model.operationChanged.connect(this._onOperation, this);
    _options.model.changed.connect(this._onChanged, this);
  }

  private _onOperation(_: IGkewsModel, operation: Operation): void {
    const { settings, trans } = this._options;
    if (!operation.finished) {
      if (
        settings.notifications &&
        !this._shown.has(operation.id) &&
        !this._waiting.has(operation.id)
      ) {
        this._waiting.set(
          operation.id,
          setTimeout(() => this._tell(operation), TOLD_AFTER)
        );
      }
      return;
    }
    clearTimeout(this._waiting.get(operation.id));
    this._waiting.delete(operation.id);
    const shown = this._shown.get(operation.id);
    this._shown.delete(operation.id);
    if (operation.kind === 'resume' && isOfSnapshot(operation.error?.reason)) {
      // A dialog asks what to do; the card and the panel go on saying it.
      shown?.toast.then(() => Notification.dismiss(shown.toast.id));
      return;
    }
    if (!shown && !settings.notifications && !operation.error) {
      return;
    }
    const cancelled = operation.error?.reason === 'cancelled';
    const message = endText(operation, this._name(operation), trans);
    const failed = !!operation.error && !cancelled;
    const partial =
      !operation.error &&
      ((!!operation.result?.lost.length && !operation.result.snapshot) ||
        operation.result?.provenance === 'fresh' ||
        (operation.kind === 'pause' && !!operation.result?.note));
    const type = failed
      ? 'error'
      : partial
        ? 'warning'
        : cancelled
          ? 'info'
          : 'success';
    const options = {
      autoClose: failed ? (false as const) : SUCCESS_STAYS,
      actions: this._details(
        failed ? trans.__('What to do') : trans.__('Details')
      )
    };
    if (!shown) {
      Notification.emit(message, type, options);
      return;
    }
    const { id } = shown.toast;
    shown.toast.then(() => {
      const updated = Notification.update({ id, message, type, ...options });
      // The user has closed the one in progress, but asked for none of the end.
      if (!updated && failed) {
        Notification.emit(message, type, options);
      }
    });
  }

  /** Show that an operation works, if it still does. */
  private _tell({ id: operationId, kernel }: Operation): void {
    this._waiting.delete(operationId);
    const { model, trans } = this._options;
    const operation = model.operation(kernel);
    if (operation?.id !== operationId || operation.finished) {
      return;
    }
    const id = Notification.emit(this._progress(operation), 'in-progress', {
      autoClose: false,
      actions: this._details(trans.__('Details'))
    });
    this._shown.set(operationId, { toast: new DrawnNotification(id), kernel });
  }

  private _onChanged(): void {
    const { model } = this._options;
    for (const [operationId, { toast, kernel }] of this._shown) {
      const { id } = toast;
      const operation = model.operation(kernel);
      if (operation?.id !== operationId) {
        // Forgotten by a restarted server: nothing will end it.
        toast.then(() => Notification.dismiss(id));
        this._shown.delete(operationId);
      } else if (!operation.finished) {
        const message = this._progress(operation);
        if (message !== this._last) {
          this._last = message;
          toast.then(() => Notification.update({ id, message }));
        }
      }
    }
  }

  private _progress(operation: Operation): string {
    const { trans } = this._options;
    return trans.__(
      '%1 %2: %3',
      kindWord(operation.kind, trans),
      this._name(operation),
      progressText(operation, trans)
    );
  }

  private _name(operation: Operation): string {
    const kernel = this._options.model.kernel(operation.kernel);
    return kernel ? nameOf(kernel) : this._options.trans.__('a kernel');
  }

  private _details(label: string): Notification.IAction[] {
    return [{ label, callback: () => this._options.open() }];
  }

  private readonly _shown = new Map<
    string,
    { toast: DrawnNotification; kernel: string }
  >();
  private readonly _waiting = new Map<string, ReturnType<typeof setTimeout>>();
  private _last = '';
}

/** How an operation ended, as one sentence for the notebook `name`. */
export function endText(
  operation: Operation,
  name: string,
  trans: TranslationBundle
): string {
  const { kind, error, result } = operation;
  if (error) {
    return error.reason === 'cancelled'
      ? trans.__('Cancelled. %1 goes on as before.', name)
      : trans.__('%1: %2', name, error.message);
  }
  const seconds = duration(
    operation.finished
      ? (Date.parse(operation.finished) - Date.parse(operation.started)) / 1000
      : 0,
    trans
  );
  const counts = result
    ? countsText({ ...result, lost: result.lost.length }, trans)
    : '';
  switch (kind) {
    case 'pause': {
      const { ram = 0, vram = 0 } = result?.released ?? {};
      const freed = [
        ram ? trans.__('%1 of memory', size(ram)) : '',
        vram ? trans.__('%1 of GPU memory', size(vram)) : ''
      ].filter(part => part);
      const given = freed.join(trans.__(' and '));
      if (result?.snapshot) {
        const frozen = freed.length
          ? trans.__(
              'Paused %1 in %2: the process is frozen, gave back %3.',
              name,
              seconds,
              given
            )
          : trans.__('Paused %1 in %2: the process is frozen.', name, seconds);
        return result.note ? `${frozen} ${result.note}` : frozen;
      }
      const text = freed.length
        ? trans.__(
            'Paused %1 in %2: %3, gave back %4.',
            name,
            seconds,
            counts,
            given
          )
        : trans.__('Paused %1 in %2: %3.', name, seconds, counts);
      return result?.note ? `${text} ${result.note}` : text;
    }
    case 'checkpoint':
      return trans.__('Checkpoint of %1 in %2: %3.', name, seconds, counts);
    case 'resume':
    case 'restore':
      switch (result?.provenance) {
        case 'restored':
          return trans.__('Restored %1 in %2: everything.', name, seconds);
        case 'fresh':
          return trans.__('%1 started fresh: nothing was loaded.', name);
        default:
          return trans.__('Recovered %1 in %2: %3.', name, seconds, counts);
      }
  }
}

export namespace Toasts {
  export interface IOptions {
    model: IGkewsModel;
    settings: ISettings;
    trans: TranslationBundle;
    /** Opens the panel. */
    open: () => void;
  }
}

import { Notification } from '@jupyterlab/apputils';
import { Signal } from '@lumino/signaling';

import { DRAWN_WITHIN } from '../src/drawnNotification';
import { endText, Toasts, TOLD_AFTER } from '../src/toasts';
import type { IGkewsModel, Operation } from '../src/tokens';
import { kernel, operation, result, trans } from './shapes';

const ENDED = { finished: '2026-11-30T18:00:04.000Z' };

describe('how an operation ended', () => {
  it('says what a pause gave back', () => {
    const text = endText(
      operation({ ...ENDED, result: result() }),
      'demo.ipynb',
      trans
    );
    expect(text).toBe(
      'Paused demo.ipynb in 4.0 s: 41 kept, gave back 1.50 GB of memory.'
    );
  });

  it('does not call a fresh start a recovery', () => {
    const text = endText(
      operation({
        ...ENDED,
        kind: 'resume',
        result: result({ provenance: 'fresh' })
      }),
      'demo.ipynb',
      trans
    );
    expect(text).toMatch(/fresh/);
    expect(text).not.toMatch(/Recovered|Restored/);
  });

  it('says that nothing changed after a cancel', () => {
    const error = { reason: 'cancelled', message: 'Cancelled.', hint: '' };
    expect(
      endText(operation({ ...ENDED, error }), 'demo.ipynb', trans)
    ).toMatch(/goes on as before/);
  });
});

describe('notifications', () => {
  class Model {
    readonly changed = new Signal<this, void>(this);
    readonly operationChanged = new Signal<this, Operation>(this);
    last: Operation | null = null;
    kernel = () => kernel();
    operation = () => this.last;

    say(operation: Operation | null, news = true): void {
      this.last = operation;
      if (operation && news) {
        this.operationChanged.emit(operation);
      }
      this.changed.emit();
    }
  }

  let model: Model;

  const begin = (notifications = true) => {
    model = new Model();
    new Toasts({
      model: model as unknown as IGkewsModel,
      settings: {
        notifications,
        resumeOnRun: true,
        skipDialogWhenNothingLost: false
      },
      trans,
      open: () => undefined
    });
  };
  const shown = () =>
    Notification.manager.notifications.map(({ type, message }) => ({
      type,
      message
    }));

  /** As JupyterLab draws them. */
  const draw = () => {
    for (const { id } of Notification.manager.notifications) {
      const toast = document.createElement('div');
      toast.id = id;
      document.body.append(toast);
    }
  };

  beforeEach(() => {
    jest.useFakeTimers();
  });

  afterEach(() => {
    document.body.replaceChildren();
    Notification.dismiss();
    jest.useRealTimers();
  });

  it('tell only the end of what was quick', () => {
    begin();
    model.say(operation());
    expect(shown()).toEqual([]);
    model.say(operation({ ...ENDED, result: result() }));
    jest.advanceTimersByTime(TOLD_AFTER);
    expect(shown().map(({ type }) => type)).toEqual(['success']);
  });

  it('turn from progress into success, in one notification', () => {
    begin();
    model.say(operation());
    jest.advanceTimersByTime(TOLD_AFTER);
    draw();
    model.say(operation({ bytes_done: 1e9, bytes_total: 4e9 }), false);
    expect(shown()).toEqual([
      {
        type: 'in-progress',
        message: 'Pausing demo.ipynb: 25 %, 1.0 of 4.0 GB'
      }
    ]);
    model.say(operation({ ...ENDED, result: result() }));
    expect(shown()).toHaveLength(1);
    expect(shown()[0].type).toBe('success');
  });

  it('tell an end that comes before the progress was drawn, once it is', () => {
    begin();
    model.say(operation());
    jest.advanceTimersByTime(TOLD_AFTER);
    model.say(operation({ ...ENDED, result: result() }));
    jest.advanceTimersByTime(DRAWN_WITHIN / 2);
    expect(shown().map(({ type }) => type)).toEqual(['in-progress']);
    draw();
    jest.advanceTimersByTime(DRAWN_WITHIN / 4);
    expect(shown().map(({ type }) => type)).toEqual(['success']);
  });

  it('tell an end also where nothing is drawn', () => {
    begin();
    model.say(operation());
    jest.advanceTimersByTime(TOLD_AFTER);
    model.say(operation({ ...ENDED, result: result() }));
    jest.advanceTimersByTime(2 * DRAWN_WITHIN);
    expect(shown().map(({ type }) => type)).toEqual(['success']);
  });

  it('warn when something was lost', () => {
    begin();
    model.say(operation());
    const lost = [{ name: 'gen', reason: 'a generator', cell: 3 }];
    model.say(operation({ ...ENDED, result: result({ lost }) }));
    expect(shown()[0].type).toBe('warning');
  });

  it('keep a failure on the page, also when they are turned off', () => {
    begin(false);
    model.say(operation());
    expect(shown()).toEqual([]);
    const error = {
      reason: 'disk_full',
      message: 'The disk is full.',
      hint: ''
    };
    model.say(operation({ ...ENDED, error }));
    expect(shown()).toEqual([
      { type: 'error', message: 'demo.ipynb: The disk is full.' }
    ]);
    const [{ options }] = Notification.manager.notifications;
    expect(options.autoClose).toBe(false);
  });

  it('go away with an operation that the server has forgotten', () => {
    begin();
    model.say(operation());
    jest.advanceTimersByTime(TOLD_AFTER);
    expect(shown()).toHaveLength(1);
    draw();
    model.say(null);
    expect(shown()).toEqual([]);
  });
});

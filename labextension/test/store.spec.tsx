import { fireEvent, render, screen, waitFor } from '@testing-library/react';
import React from 'react';

import { GkewsApi } from '../src/api';
import { confirmDifferences } from '../src/differences';
import { GkewsModel } from '../src/model';
import { StoreLine } from '../src/panel/store';
import { checkpoint, kernel, status, trans, Wire } from './shapes';

const STORE = {
  path: '/data/gkews',
  free: 5e9,
  bytes: 6.2e9,
  checkpoints: 3,
  unused: 1e9,
  stays: null
};

function collected(bytes: number, ids: string[] = [], stays: unknown = null) {
  return {
    dry_run: true,
    bytes_freed: bytes,
    checkpoints: ids.map(id => ({ id })),
    stays
  };
}

async function show(wire: Wire) {
  wire
    .on('GET status', status(kernel()))
    .on('GET checkpoints', { checkpoints: [checkpoint()] })
    .on('GET store', STORE);
  const model = new GkewsModel({ api: new GkewsApi(wire.settings, trans) });
  await model.refresh();
  await model.loadCheckpoints();
  render(<StoreLine model={model} trans={trans} />);
  return model;
}

describe('the store in the panel', () => {
  it('says how much it holds', async () => {
    await show(new Wire());
    expect(screen.getByText(/^6.*GB stored · 5.*GB free on disk/)).toBeTruthy();
  });

  it('frees only after a yes, and old checkpoints only if that was ticked', async () => {
    const wire = new Wire().on('POST gc', collected(1e9, ['old']));
    await show(wire);
    fireEvent.click(screen.getByText('Free up'));
    await screen.findByText(/belong to no checkpoint/);
    expect(screen.getByText(/older than 30 days/)).toBeTruthy();
    const asked = () => wire.asked.filter(({ path }) => path === 'gc');
    expect(asked().map(({ body }) => body)).toEqual([
      { dry_run: true, older_than_s: null },
      { dry_run: true, older_than_s: 30 * 86400 }
    ]);
    fireEvent.click(screen.getAllByText('Free up').pop()!);
    await waitFor(() => expect(asked()).toHaveLength(3));
    expect(asked()[2].body).toEqual({ dry_run: false, older_than_s: null });
  });

  it('does nothing where nothing can go, and says why', async () => {
    const wire = new Wire().on('POST gc', collected(0, [], 'A save runs.'));
    await show(wire);
    fireEvent.click(screen.getByText('Free up'));
    expect(await screen.findByText('A save runs.')).toBeTruthy();
    fireEvent.click(screen.getByText('Close'));
    expect(wire.asked.filter(({ path }) => path === 'gc')).toHaveLength(2);
  });
});

describe('what differs from where a checkpoint was made', () => {
  const row = { what: 'Python', made: '3.11.7', here: '3.13.0' };

  async function asks(differences: unknown) {
    const wire = new Wire().on('GET checkpoints/c-1', {
      ...checkpoint(),
      differences
    });
    const model = await show(wire);
    return confirmDifferences(model, 'c-1', 'k-1', trans);
  }

  it('is no question where nothing may be lost', async () => {
    expect(await asks([])).toBe(true);
    expect(await asks(null)).toBe(true);
    expect(await asks([{ ...row, severity: 'note', means: 'No.' }])).toBe(true);
  });

  it('is shown with what it may break, and the user decides', async () => {
    const answer = asks([{ ...row, severity: 'may_lose', means: 'It may.' }]);
    expect(await screen.findByText('It may.')).toBeTruthy();
    fireEvent.click(screen.getByText('Not now'));
    expect(await answer).toBe(false);
  });

  it('does not hinder where it cannot be had', async () => {
    const model = await show(new Wire());
    expect(await confirmDifferences(model, 'c-9', null, trans)).toBe(true);
  });
});

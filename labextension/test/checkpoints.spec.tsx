import { CommandRegistry } from '@lumino/commands';
import { fireEvent, render, screen } from '@testing-library/react';
import React from 'react';

import { GkewsApi } from '../src/api';
import { GkewsModel } from '../src/model';
import { CheckpointsSection, isOf } from '../src/panel/checkpoints';
import { CommandIDs } from '../src/tokens';
import type { Checkpoint } from '../src/tokens';
import { checkpoint, kernel, status, trans, Wire } from './shapes';

const PATH = 'work/demo.ipynb';

async function show(...checkpoints: Checkpoint[]) {
  const wire = new Wire()
    .on('GET status', status(kernel()))
    .on('GET checkpoints', { checkpoints });
  const model = new GkewsModel({ api: new GkewsApi(wire.settings, trans) });
  await model.refresh();
  await model.loadCheckpoints();
  const commands = new CommandRegistry();
  const run: unknown[] = [];
  commands.addCommand(CommandIDs.restore, {
    execute: args => {
      run.push(args);
    }
  });
  const view = { kernel: kernel(), active: null, ended: null };
  render(
    <CheckpointsSection
      model={model}
      commands={commands}
      trans={trans}
      view={view}
      path={PATH}
    />
  );
  return run;
}

describe('the checkpoints in the panel', () => {
  it('are those of this notebook, until the others are asked for', async () => {
    await show(
      checkpoint({ id: 'mine', name: 'before the sweep' }),
      checkpoint({ id: 'other', name: 'other', notebook: '/home/ada/b.ipynb' })
    );
    expect(screen.queryByText('other')).toBeNull();
    fireEvent.click(screen.getByText('Show one of another notebook'));
    expect(screen.getByText('other')).toBeTruthy();
  });

  it('restore into this kernel or into a new one', async () => {
    const run = await show(checkpoint({ name: 'best' }));
    fireEvent.click(screen.getByLabelText('Restore best here'));
    fireEvent.click(screen.getByLabelText('Restore best in a new kernel'));
    expect(run).toEqual([
      { checkpoint: 'c-1', kernelId: 'k-1' },
      { checkpoint: 'c-1', kernelId: null }
    ]);
  });

  it('cannot be deleted while a paused notebook needs them', async () => {
    await show(
      checkpoint({
        name: 'needed',
        in_use: true,
        why_in_use: 'demo.ipynb is paused'
      })
    );
    const button = screen.getByLabelText<HTMLButtonElement>('Delete needed');
    expect(button.disabled).toBe(true);
    expect(button.title).toBe('demo.ipynb is paused');
  });

  it('offer no restore when they cannot be read, and say why', async () => {
    await show(
      checkpoint({
        name: 'broken',
        error: {
          reason: 'checkpoint_damaged',
          message: 'The manifest is damaged.',
          hint: 'Nothing was deleted.'
        }
      })
    );
    expect(
      screen.getByText('The manifest is damaged. Nothing was deleted.')
    ).toBeTruthy();
    expect(screen.queryByLabelText('Restore broken here')).toBeNull();
  });
});

it('tells the notebook of a checkpoint from another that ends alike', () => {
  expect(isOf(checkpoint({ notebook: '/srv/work/demo.ipynb' }), PATH)).toBe(
    true
  );
  expect(isOf(checkpoint({ notebook: '/srv/homework/demo.ipynb' }), PATH)).toBe(
    false
  );
  expect(isOf(checkpoint({ notebook: null }), PATH)).toBe(false);
});

import { fireEvent, render, screen } from '@testing-library/react';
import React from 'react';

import { arrange, totals, VariableTable } from '../src/panel/survives';
import { trans, variable } from './shapes';

const VARIABLES = [
  variable({ name: 'model', bytes: 6e9, device: 'cuda:0' }),
  variable({ name: 'notes', type: 'list', bytes: 200 }),
  variable({
    name: 'stream',
    type: 'generator',
    bytes: null,
    fate: 'lost',
    reason: 'a generator cannot be kept',
    cell: 12
  }),
  variable({ name: 'log', type: 'TextIOWrapper', bytes: 300, fate: 'rebuilt' })
];

function names(): (string | null)[] {
  return Array.from(document.querySelectorAll('tbody .jp-gkews-Name')).map(
    node => node.textContent
  );
}

describe('arranging variables', () => {
  it('puts the largest first, and what has no size last', () => {
    const sorted = arrange(VARIABLES, '', { key: 'bytes', descending: true });
    expect(sorted.map(({ name }) => name)).toEqual([
      'model',
      'log',
      'notes',
      'stream'
    ]);
  });

  it('finds by name, type, device and reason', () => {
    const sort = { key: 'name' as const, descending: false };
    const found = (query: string) =>
      arrange(VARIABLES, query, sort).map(({ name }) => name);
    expect(found('LOG')).toEqual(['log']);
    expect(found('generator')).toEqual(['stream']);
    expect(found('cuda')).toEqual(['model']);
    expect(found('cannot be kept')).toEqual(['stream']);
    expect(found('nothing of this')).toEqual([]);
  });

  it('adds up sizes by fate', () => {
    expect(totals(VARIABLES)).toEqual({
      kept: { count: 2, bytes: 6e9 + 200 },
      rebuilt: { count: 1, bytes: 300 },
      lost: { count: 1, bytes: 0 }
    });
  });
});

describe('the table', () => {
  it('shows the fate as a word, with the reason and the cell', () => {
    render(<VariableTable variables={VARIABLES} trans={trans} />);
    expect(screen.getByText('Lost')).toBeTruthy();
    expect(
      screen.getByText('A generator cannot be kept. Made by cell [12].')
    ).toBeTruthy();
  });

  it('sorts by the heading that is clicked, and turns round at the second click', () => {
    render(<VariableTable variables={VARIABLES} trans={trans} />);
    const heading = screen.getByRole('columnheader', { name: /Variable/ });
    fireEvent.click(screen.getByRole('button', { name: /Variable/ }));
    expect(names()).toEqual(['log', 'model', 'notes', 'stream']);
    expect(heading.getAttribute('aria-sort')).toBe('ascending');
    fireEvent.click(screen.getByRole('button', { name: /Variable/ }));
    expect(names()).toEqual(['stream', 'notes', 'model', 'log']);
    expect(heading.getAttribute('aria-sort')).toBe('descending');
  });

  it('begins with what is lost where the fates matter more', () => {
    render(
      <VariableTable variables={VARIABLES} trans={trans} initialSort="fate" />
    );
    expect(names()[0]).toBe('stream');
  });

  it('says so when the search finds nothing', () => {
    render(<VariableTable variables={VARIABLES} trans={trans} />);
    fireEvent.change(screen.getByRole('searchbox'), {
      target: { value: 'zebra' }
    });
    expect(names()).toEqual([]);
    expect(screen.getByText('No variable matches.')).toBeTruthy();
  });
});

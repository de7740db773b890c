/**
 * Second section of the panel, and the body of the pause dialog: every variable with its size
 * and its fate, sorted and searched by the user, and what becomes of the process around them.
 */

import type { TranslationBundle } from '@jupyterlab/translation';
import { refreshIcon } from '@jupyterlab/ui-components';
import React, { useMemo, useState } from 'react';

import { localTime, size } from '../format';
import { restoredIcon } from '../icons';
import { wouldFreeze } from '../snapshots';
import type { Fate, Survives, Variable } from '../tokens';
import type { ILabel, IView } from '../wording';
import { fateLabel, reasonText } from '../wording';
import type { ISectionProps } from './panel';
import { OutlookNote } from './outlook';
import { Problem } from './problem';

export type SortKey = 'name' | 'bytes' | 'device' | 'fate';
export type Sort = { key: SortKey; descending: boolean };

const FATE_ORDER: Record<Fate, number> = { lost: 0, rebuilt: 1, kept: 2 };

/** The variables that contain `query` in name, type, device or reason, sorted. */
export function arrange(
  variables: Variable[],
  query: string,
  sort: Sort
): Variable[] {
  const needle = query.trim().toLowerCase();
  const found = variables.filter(variable =>
    [variable.name, variable.type, variable.device, variable.reason].some(
      text => text?.toLowerCase().includes(needle)
    )
  );
  const compare = (a: Variable, b: Variable): number => {
    switch (sort.key) {
      case 'bytes':
        return (a.bytes ?? -1) - (b.bytes ?? -1);
      case 'fate':
        return FATE_ORDER[a.fate] - FATE_ORDER[b.fate];
      case 'device':
        return (a.device ?? '').localeCompare(b.device ?? '');
      case 'name':
        return a.name.localeCompare(b.name);
    }
  };
  const sign = sort.descending ? -1 : 1;
  return found.sort(
    (a, b) => sign * compare(a, b) || a.name.localeCompare(b.name)
  );
}

/** How many variables have each fate, and their bytes. */
export function totals(
  variables: Variable[]
): Record<Fate, { count: number; bytes: number }> {
  const sums = {
    kept: { count: 0, bytes: 0 },
    rebuilt: { count: 0, bytes: 0 },
    lost: { count: 0, bytes: 0 }
  };
  for (const { fate, bytes } of variables) {
    sums[fate].count += 1;
    sums[fate].bytes += bytes ?? 0;
  }
  return sums;
}

/** What is lost in a checkpoint is kept by a snapshot of the process, where one is taken. */
function labelOf(
  fate: Fate,
  frozen: boolean | undefined,
  trans: TranslationBundle
): ILabel {
  return fate === 'lost' && frozen
    ? { word: trans.__('Snapshot only'), icon: restoredIcon, tone: 'info' }
    : fateLabel(fate, trans);
}

export function FateTag(props: {
  fate: Fate;
  trans: TranslationBundle;
  frozen?: boolean;
}): JSX.Element {
  const { word, icon, tone } = labelOf(props.fate, props.frozen, props.trans);
  return (
    <span className={`jp-gkews-Fate jp-gkews-mod-${tone}`}>
      <icon.react tag="span" className="jp-gkews-Icon" />
      {word}
    </span>
  );
}

/** One line: how many are kept, rebuilt and lost. */
export function FateTotals(props: {
  variables: Variable[];
  trans: TranslationBundle;
  /** Whether the process is frozen as well, or would be. */
  frozen?: boolean;
}): JSX.Element {
  const { trans, frozen } = props;
  const sums = totals(props.variables);
  return (
    <ul className="jp-gkews-Totals">
      {(['kept', 'rebuilt', 'lost'] as Fate[]).map(fate => {
        const { word, icon, tone } = labelOf(fate, frozen, trans);
        const { count, bytes } = sums[fate];
        return (
          <li key={fate} className={`jp-gkews-mod-${count ? tone : 'none'}`}>
            <icon.react tag="span" className="jp-gkews-Icon" />
            <strong>{count}</strong> {word}
            {bytes >= 1000 && (
              <span className="jp-gkews-Muted">{size(bytes)}</span>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function VariableRows(props: {
  variable: Variable;
  trans: TranslationBundle;
  wide?: boolean;
  frozen?: boolean;
}): JSX.Element {
  const { variable, trans, wide, frozen } = props;
  const { name, type, bytes, device, fate, reason } = variable;
  const where = device ?? trans.__('memory');
  return (
    <>
      <tr data-fate={fate}>
        <th scope="row">
          <span className="jp-gkews-Name" title={name}>
            {name}
          </span>
          <span className="jp-gkews-Muted">
            {wide || device === null || device === 'cpu'
              ? type
              : trans.__('%1 on %2', type, where)}
          </span>
        </th>
        <td className="jp-gkews-Numbers">
          {bytes === null ? '–' : size(bytes)}
        </td>
        {wide && <td>{where}</td>}
        <td>
          <FateTag fate={fate} trans={trans} frozen={frozen} />
        </td>
      </tr>
      {reason && (
        <tr className="jp-gkews-ReasonRow">
          <td colSpan={wide ? 4 : 3} className="jp-gkews-Reason">
            {reasonText(variable, trans)}
          </td>
        </tr>
      )}
    </>
  );
}

export function VariableTable(props: {
  variables: Variable[];
  trans: TranslationBundle;
  /** By size, largest first, unless the fates matter more. */
  initialSort?: 'fate';
  /** Whether there is room for a column of its own that says where a variable lives. */
  wide?: boolean;
  /** Whether the process is frozen as well, or would be. */
  frozen?: boolean;
}): JSX.Element {
  const { variables, trans, initialSort, wide, frozen } = props;
  const [query, setQuery] = useState('');
  const [sort, setSort] = useState<Sort>(
    initialSort === 'fate'
      ? { key: 'fate', descending: false }
      : { key: 'bytes', descending: true }
  );
  const rows = useMemo(
    () => arrange(variables, query, sort),
    [variables, query, sort]
  );
  const heading = (key: SortKey, text: string) => {
    const sorted = sort.key === key;
    const direction = sort.descending ? 'descending' : 'ascending';
    return (
      <th
        scope="col"
        className={`jp-gkews-Column-${key}`}
        aria-sort={sorted ? direction : 'none'}
      >
        <button
          type="button"
          onClick={() =>
            setSort({
              key,
              descending: sorted ? !sort.descending : key === 'bytes'
            })
          }
        >
          {text}
          <span aria-hidden="true">
            {sorted ? (sort.descending ? ' ↓' : ' ↑') : ''}
          </span>
        </button>
      </th>
    );
  };
  return (
    <>
      <input
        type="search"
        className="jp-gkews-Search"
        placeholder={trans.__('Search variables')}
        aria-label={trans.__('Search variables')}
        value={query}
        onChange={event => setQuery(event.target.value)}
      />
      <div
        className="jp-gkews-Scroll"
        tabIndex={0}
        role="region"
        aria-label={trans.__('Variables')}
      >
        <table className="jp-gkews-Table">
          <thead>
            <tr>
              {heading('name', trans.__('Variable'))}
              {heading('bytes', trans.__('Size'))}
              {wide && heading('device', trans.__('Where'))}
              {heading('fate', trans.__('Fate'))}
            </tr>
          </thead>
          <tbody>
            {rows.map(variable => (
              <VariableRows
                key={variable.name}
                variable={variable}
                trans={trans}
                wide={wide}
                frozen={frozen}
              />
            ))}
          </tbody>
        </table>
        {rows.length === 0 && (
          <p className="jp-gkews-Empty">
            {variables.length
              ? trans.__('No variable matches.')
              : trans.__('There are no variables yet.')}
          </p>
        )}
      </div>
    </>
  );
}

function bytesSentence(table: Survives, trans: TranslationBundle): string {
  const { to_write, already_stored } = table.bytes;
  const parts: string[] = [];
  if (to_write !== null) {
    parts.push(trans.__('%1 to write', size(to_write)));
  }
  if (already_stored) {
    parts.push(trans.__('%1 stored already', size(already_stored)));
  }
  return parts.join(', ');
}

/** `away`: nothing can be asked now, so that what is known is of the past. */
export function SurvivesSection(
  props: ISectionProps & { view: IView; reload: () => void; away?: boolean }
): JSX.Element | null {
  const { model, trans, view, reload, away } = props;
  const id = view.kernel.id;
  const table = model.survives(id);
  const problem = model.survivesProblem(id);
  const pending = model.survivesPending(id);
  // No failure: a kernel is asked between cells.
  const busy = problem?.reason === 'kernel_busy';
  const frozen =
    !!table?.snapshot &&
    (wouldFreeze(table.snapshot) || !!table.snapshot.taken);
  if (away && !table) {
    return null;
  }
  return (
    <section
      className="jp-gkews-Section jp-gkews-Survives"
      aria-label={trans.__('What survives')}
    >
      <div className="jp-gkews-Section-heading">
        <h3>{trans.__('What survives')}</h3>
        <button
          type="button"
          className="jp-gkews-IconButton"
          title={trans.__('Ask the kernel again')}
          aria-label={trans.__('Ask the kernel again')}
          disabled={pending || away}
          onClick={reload}
        >
          <refreshIcon.react tag="span" className="jp-gkews-Icon" />
        </button>
      </div>
      {problem && !busy && !away && <Problem problem={problem} />}
      {!table && (busy || !problem) && (
        <p className="jp-gkews-Empty">
          {busy
            ? trans.__('Known when the running cell has ended.')
            : pending
              ? trans.__('Looking through the variables')
              : view.kernel.state === 'paused'
                ? trans.__('Known again after the resume.')
                : trans.__('Not asked yet.')}
        </p>
      )}
      {table && (
        <>
          {(table.stale || away) && (
            <p className="jp-gkews-Muted" title={table.as_of}>
              {trans.__(
                'As of %1: the kernel cannot be asked now.',
                localTime(table.as_of)
              )}
            </p>
          )}
          <FateTotals
            variables={table.variables}
            trans={trans}
            frozen={frozen}
          />
          {!away && (
            <p className="jp-gkews-Muted">{bytesSentence(table, trans)}</p>
          )}
          {table.snapshot && (
            <OutlookNote outlook={table.snapshot} trans={trans} />
          )}
          <VariableTable
            variables={table.variables}
            trans={trans}
            frozen={frozen}
          />
          {table.process.length > 0 && (
            <details className="jp-gkews-Process">
              <summary>{trans.__('The process around them')}</summary>
              <table className="jp-gkews-Table">
                <tbody>
                  {table.process.map(row => (
                    <tr key={row.what} data-fate={row.fate}>
                      <th scope="row">
                        <span className="jp-gkews-Name">{row.what}</span>
                        {row.reason && (
                          <span className="jp-gkews-Reason">{row.reason}</span>
                        )}
                      </th>
                      <td>
                        <FateTag
                          fate={row.fate}
                          trans={trans}
                          frozen={frozen}
                        />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </details>
          )}
        </>
      )}
    </section>
  );
}

/**
 * Last section of the panel: how the last operation went, phase by phase, what it gave back, and
 * what it lost.
 */

import React from 'react';

import { duration, localTime, size } from '../format';
import { provedText } from '../proved';
import type { Operation } from '../tokens';
import {
  fateLabel,
  kindNoun,
  phaseName,
  provenanceLabel,
  provenanceSentence,
  reasonText
} from '../wording';
import type { ISectionProps } from './panel';
import { Problem } from './problem';

export function OperationSection(
  props: ISectionProps & { operation: Operation }
): JSX.Element {
  const { model, trans, operation } = props;
  const { result, error, finished, started } = operation;
  const total = finished
    ? (Date.parse(finished) - Date.parse(started)) / 1000
    : null;
  const phases = Object.entries(result?.seconds ?? {});
  const longest = Math.max(0.001, ...phases.map(([, seconds]) => seconds));
  const provenance = result?.provenance
    ? provenanceLabel(result.provenance, trans)
    : null;
  const facts: [string, string][] = [];
  if (result?.bytes_written) {
    facts.push([trans.__('Written'), size(result.bytes_written)]);
  }
  if (result?.bytes_referenced) {
    facts.push([
      trans.__('In files of weights'),
      size(result.bytes_referenced)
    ]);
  }
  if (result?.blocked_s) {
    facts.push([
      trans.__('Kernel blocked for'),
      duration(result.blocked_s, trans)
    ]);
  }
  if (result?.released.ram) {
    facts.push([trans.__('Memory given back'), size(result.released.ram)]);
  }
  if (result?.released.vram) {
    facts.push([trans.__('GPU memory given back'), size(result.released.vram)]);
  }
  const image = model.snapshots.find(({ id }) => id === result?.snapshot);
  if (image) {
    facts.push([trans.__('Process snapshot'), size(image.bytes)]);
  }
  const named = result ? [...result.lost, ...result.rebuilt_details] : [];
  return (
    <section
      className="jp-gkews-Section jp-gkews-Operation"
      aria-label={trans.__('Last operation')}
    >
      <div className="jp-gkews-Section-heading">
        <h3>
          {trans.__('Last operation: %1', kindNoun(operation.kind, trans))}
        </h3>
        <span className="jp-gkews-Muted" title={finished ?? started}>
          {localTime(finished ?? started)}
          {total !== null && ` · ${duration(total, trans)}`}
        </span>
      </div>
      {error && <Problem problem={error} />}
      {result?.note && <p className="jp-gkews-Muted">{result.note}</p>}
      {provenance && result?.provenance === 'restored' && (
        <p className="jp-gkews-State-sentence">
          {provenanceSentence('restored', trans)}
        </p>
      )}
      {provenance && (
        <p className={`jp-gkews-Fate jp-gkews-mod-${provenance.tone}`}>
          <provenance.icon.react tag="span" className="jp-gkews-Icon" />
          {provenance.word}
        </p>
      )}
      {phases.length > 0 && (
        <table className="jp-gkews-Phases">
          <tbody>
            {phases.map(([phase, seconds]) => (
              <tr key={phase}>
                <th scope="row">{phaseName(phase, trans)}</th>
                <td className="jp-gkews-Phases-bar" aria-hidden="true">
                  <span
                    data-phase={phase}
                    style={{ width: `${(100 * seconds) / longest}%` }}
                  />
                </td>
                <td className="jp-gkews-Numbers">{duration(seconds, trans)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {facts.length > 0 && (
        <dl className="jp-gkews-Facts">
          {facts.map(([what, value]) => (
            <div key={what}>
              <dt>{what}</dt>
              <dd className="jp-gkews-Numbers">{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {result?.proved && (
        <p className="jp-gkews-Muted jp-gkews-Proved">
          {provedText(result.proved, trans)}
        </p>
      )}
      {named.length > 0 && result?.snapshot && (
        <p className="jp-gkews-Muted">
          {trans.__('The snapshot holds all; the checkpoint alone has not:')}
        </p>
      )}
      {named.length > 0 && (
        <ul className="jp-gkews-Named">
          {named.map((item, index) => {
            const fate =
              index < (result?.lost.length ?? 0) ? 'lost' : 'rebuilt';
            const { icon, word, tone } = fateLabel(fate, trans);
            return (
              <li key={`${fate}-${item.name}`}>
                <span className={`jp-gkews-Fate jp-gkews-mod-${tone}`}>
                  <icon.react tag="span" className="jp-gkews-Icon" />
                  {word}
                </span>
                <span className="jp-gkews-Name">{item.name}</span>
                <span className="jp-gkews-Reason">
                  {reasonText(item, trans)}
                </span>
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}

/**
 * First section of the panel: the state in one word, how the kernel came to what it holds, and
 * the one action that makes sense now.
 */

import React from 'react';

import { ago, localTime, secondsSince, size } from '../format';
import { ProgressBar } from '../progress';
import { showProblem } from '../problems';
import { hasOtherWay } from '../snapshots';
import { CommandIDs } from '../tokens';
import type { IView } from '../wording';
import { percent, progressText, stateLabel, stateSentence } from '../wording';
import type { ISectionProps } from './panel';
import { Problem } from './problem';

export function StateSection(
  props: ISectionProps & { view: IView }
): JSX.Element {
  const { model, commands, trans, view } = props;
  const { kernel, active } = view;
  const label = stateLabel(view, trans);
  const run = (command: string) =>
    void commands.execute(command, { kernelId: kernel.id });
  const failed = !active && kernel.reason !== null;
  const facts = [trans.__('since %1', localTime(kernel.since))];
  const seconds = secondsSince(kernel.since);
  if (seconds >= 60) {
    facts.push(ago(seconds, trans));
  }
  if (kernel.ram) {
    facts.push(trans.__('%1 in memory', size(kernel.ram)));
  }
  return (
    <section
      className={`jp-gkews-State jp-gkews-mod-${label.tone}`}
      aria-label={trans.__('State')}
    >
      <div className="jp-gkews-State-word">
        <label.icon.react tag="span" className="jp-gkews-Icon" />
        <strong>{label.word}</strong>
        {!active && (
          <span className="jp-gkews-Muted" title={kernel.since}>
            {facts.join(' · ')}
          </span>
        )}
      </div>
      {failed ? (
        <Problem problem={kernel} />
      ) : (
        <p className="jp-gkews-State-sentence">{stateSentence(view, trans)}</p>
      )}
      {active && (
        <>
          <ProgressBar operation={active} trans={trans} />
          {percent(active) !== null && (
            <p className="jp-gkews-Muted jp-gkews-Numbers">
              {progressText(active, trans)}
            </p>
          )}
        </>
      )}
      {!active && !kernel.pausable && kernel.why_not && (
        <Problem problem={kernel.why_not} />
      )}
      <div className="jp-gkews-Actions">
        {active?.cancellable && (
          <button
            type="button"
            className="jp-gkews-Button"
            onClick={() => {
              model.cancel(active).catch((error: unknown) => {
                showProblem(error);
              });
            }}
          >
            {trans.__('Cancel')}
          </button>
        )}
        {!active && kernel.state === 'paused' && (
          <button
            type="button"
            className="jp-gkews-Button jp-gkews-mod-primary"
            onClick={() => run(CommandIDs.resume)}
          >
            {failed ? trans.__('Try again') : trans.__('Resume')}
          </button>
        )}
        {!active && failed && hasOtherWay(kernel) && (
          <button
            type="button"
            className="jp-gkews-Button"
            title={trans.__(
              'Load the variables into a new process; what a checkpoint cannot keep is lost'
            )}
            onClick={() =>
              void commands.execute(CommandIDs.resume, {
                kernelId: kernel.id,
                snapshot: false
              })
            }
          >
            {trans.__('From the checkpoint')}
          </button>
        )}
        {!active && kernel.state === 'running' && kernel.pausable && (
          <>
            <button
              type="button"
              className="jp-gkews-Button jp-gkews-mod-primary"
              onClick={() => run(CommandIDs.pause)}
            >
              {trans.__('Pause')}
            </button>
            <button
              type="button"
              className="jp-gkews-Button"
              title={trans.__(
                'Write a checkpoint now and let the kernel go on'
              )}
              onClick={() => run(CommandIDs.checkpoint)}
            >
              {trans.__('Checkpoint now')}
            </button>
          </>
        )}
      </div>
    </section>
  );
}

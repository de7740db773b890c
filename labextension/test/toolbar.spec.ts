import { GkewsApi } from '../src/api';
import { GkewsModel } from '../src/model';
import { CommandIDs } from '../src/tokens';
import type { KernelStatus } from '../src/tokens';
import { buttonFace } from '../src/toolbar';
import type { WorkspaceFace } from '../src/workspaces/tokens';
import { workspaceSentence } from '../src/workspaces/wording';
import { kernel, operation, status, trans, Wire } from './shapes';

/** A workspace of which there is nothing to say. */
const FACE: WorkspaceFace = {
  phase: 'here',
  since: null,
  why: '',
  served: true,
  canResume: false,
  operation: null,
  stateless: null,
  checkpointed: false,
  provenance: null,
  recovery: null,
  answers: false,
  problem: null,
  signedOut: false
};

async function seen(fields: Partial<KernelStatus>): Promise<GkewsModel> {
  const wire = new Wire().on('GET status', status(kernel(fields)));
  const model = new GkewsModel({ api: new GkewsApi(wire.settings, trans) });
  await model.refresh();
  return model;
}

async function faceOf(fields: Partial<KernelStatus>) {
  const model = await seen(fields);
  const face = buttonFace(model, 'k-1', trans);
  model.dispose();
  return face;
}

describe('the toolbar button', () => {
  it('pauses a kernel that runs', async () => {
    const face = await faceOf({});
    expect(face).toMatchObject({
      label: 'Pause',
      enabled: true,
      command: CommandIDs.pause
    });
  });

  it('resumes a kernel that is paused', async () => {
    const face = await faceOf({ state: 'paused' });
    expect(face).toMatchObject({
      label: 'Resume',
      enabled: true,
      command: CommandIDs.resume
    });
  });

  it('says in its tooltip why it is disabled', async () => {
    const face = await faceOf({
      pausable: false,
      why_not: {
        reason: 'not_pausable',
        message: 'Other Shell is a kernel for bash.',
        hint: 'Only Python kernels can be paused.'
      }
    });
    expect(face.enabled).toBe(false);
    expect(face.command).toBeNull();
    expect(face.tooltip).toBe(
      'Other Shell is a kernel for bash. Only Python kernels can be paused.'
    );
  });

  it('shows the phase while it works, and leads to the details', async () => {
    const active = operation({
      step: 'writing',
      bytes_done: 62,
      bytes_total: 100
    });
    const face = await faceOf({ state: 'pausing', operation: active });
    expect(face.label).toBe('Pausing 62 %');
    expect(face.tooltip).toMatch(/Writing the checkpoint/);
    expect(face.command).toBe(CommandIDs.openPanel);
  });

  it('keeps the reason of a failed resume in its tooltip', async () => {
    const face = await faceOf({
      state: 'paused',
      reason: 'checkpoint_damaged',
      message: 'The checkpoint is damaged.',
      hint: 'It is untouched.'
    });
    expect(face.tooltip).toMatch(/damaged.*untouched/);
    expect(face.label).toBe('Resume');
  });

  it.each([
    ['pausing', 'Pausing'],
    ['paused', 'Paused'],
    ['waiting', 'Waiting'],
    ['away', 'No answer']
  ] as const)(
    'says what the card says while its workspace is away: %s',
    async (phase, label) => {
      const model = await seen({});
      const face = {
        ...FACE,
        phase,
        served: false,
        since: Date.parse('2026-11-30T18:00:00Z')
      };
      const button = buttonFace(model, 'k-1', trans, { face });
      model.dispose();
      expect(button).toMatchObject({ label, enabled: false, command: null });
      expect(button.tooltip).toBe(workspaceSentence(face, trans));
    }
  );

  it('goes on while one answer only has failed', async () => {
    const model = await seen({});
    const face = { ...FACE, phase: 'here' as const, served: false };
    const button = buttonFace(model, 'k-1', trans, { face });
    model.dispose();
    expect(button).toMatchObject({ label: 'Pause', enabled: true });
  });

  it('explains a missing server half', async () => {
    const model = new GkewsModel({
      api: new GkewsApi(new Wire().settings, trans)
    });
    await model.refresh();
    const face = buttonFace(model, 'k-1', trans);
    model.dispose();
    expect(face.enabled).toBe(false);
    expect(face.tooltip).toMatch(/server half/);
  });
});

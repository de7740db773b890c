/**
 * Pages of one workspace, each its model and its tab, over real HTTP to a cluster that is under our
 * control. Used by the specs only.
 */

import { GkewsApi } from '../src/api';
import { GkewsModel } from '../src/model';
import type { Pace } from '../src/workspaces/pace';
import { WorkspaceTab } from '../src/workspaces/tab';
import type { WorkspaceFace, WorkspaceStatus } from '../src/workspaces/tokens';
import { Cluster } from './cluster';
import { trans, until, workspace } from './shapes';

/** Milliseconds: what is waited for comes at once. */
const PACE: Pace = {
  quick: 10,
  busy: 10,
  calm: 20,
  slow: 40,
  hiccup: 0,
  asked: 20_000,
  told: 60_000
};

export class Page {
  readonly model: GkewsModel;
  readonly tab: WorkspaceTab;
  /** Whether the user looks at it. */
  isVisible = true;

  constructor(pages: Pages, baseUrl: string, pace: Partial<Pace>) {
    const api = new GkewsApi(pages.cluster.settings, trans);
    this.model = new GkewsModel({ api, followInterval: 10 });
    this.tab = new WorkspaceTab({
      model: this.model,
      api,
      baseUrl,
      trans,
      isVisible: () => this.isVisible,
      told: { get: () => pages.told, set: pause => (pages.told = pause) },
      pace: { ...PACE, ...pace }
    });
  }

  phase(phase: WorkspaceFace['phase']): Promise<unknown> {
    return until(this.tab, () => this.tab.face.phase === phase);
  }

  /** The server's status as a page reads it that has noticed something. */
  async notices(phase: WorkspaceFace['phase']): Promise<void> {
    await this.model.refresh();
    await this.phase(phase);
  }

  dispose(): void {
    this.tab.dispose();
    this.model.dispose();
  }
}

export class Pages {
  /** Of which pause the users of this browser have been told. */
  told: string | null = null;

  static async start(): Promise<Pages> {
    const pages = new Pages(await Cluster.start());
    pages.serves({});
    return pages;
  }

  async stop(): Promise<void> {
    this._open.forEach(page => page.dispose());
    await this.cluster.stop();
  }

  /** What the server says of its workspace. */
  serves(fields: Partial<WorkspaceStatus>): void {
    this.cluster.status.workspace = workspace(fields);
  }

  async open(
    baseUrl = this.cluster.baseUrl,
    pace: Partial<Pace> = {}
  ): Promise<Page> {
    const page = new Page(this, baseUrl, pace);
    this._open.push(page);
    await page.model.refresh();
    return page;
  }

  /** One that is paused while this page looks on. */
  async openPaused(pace?: Partial<Pace>): Promise<Page> {
    const page = await this.open(undefined, pace);
    this.cluster.is('Paused');
    await page.notices('paused');
    return page;
  }

  private constructor(readonly cluster: Cluster) {}

  private readonly _open: Page[] = [];
}

/**
 * Our icons. A state, a fate and a provenance each has a shape of its own, so that none of them
 * is told by colour alone. Toolbar icons follow the theme through `jp-icon3`, the others take
 * the colour of the text around them.
 */

import { LabIcon } from '@jupyterlab/ui-components';

function outline(name: string, paths: string): LabIcon {
  return new LabIcon({
    name: `jupyter_gkews:${name}`,
    svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24"><g fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round">${paths}</g></svg>`
  });
}

function toolbar(name: string, inner: string): LabIcon {
  return new LabIcon({
    name: `jupyter_gkews:${name}`,
    svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161"><path fill-rule="evenodd" d="M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm0 1.9a8.1 8.1 0 1 1 0 16.2 8.1 8.1 0 0 1 0-16.2z"/>${inner}</g></svg>`
  });
}

export const pauseIcon = toolbar(
  'pause',
  '<rect x="8.3" y="7.6" width="2.6" height="8.8" rx=".6"/><rect x="13.1" y="7.6" width="2.6" height="8.8" rx=".6"/>'
);
export const resumeIcon = toolbar(
  'resume',
  '<path d="M9.7 7.7v8.6a.5.5 0 0 0 .77.42l6.6-4.3a.5.5 0 0 0 0-.84l-6.6-4.3a.5.5 0 0 0-.77.42z"/>'
);

export const runningIcon = outline(
  'running',
  '<circle cx="12" cy="12" r="9"/><circle cx="12" cy="12" r="3.6" fill="currentColor" stroke="none"/>'
);
export const workingIcon = outline(
  'working',
  '<path d="M12 3a9 9 0 1 1-9 9"/>'
);

export const keptIcon = outline(
  'kept',
  '<circle cx="12" cy="12" r="9"/><path d="M8 12.3l2.8 2.8L16 9.6"/>'
);
export const rebuiltIcon = outline(
  'rebuilt',
  '<path d="M20 12a8 8 0 1 1-2.5-5.8"/><path d="M20.5 3v4.6h-4.6"/>'
);
export const lostIcon = outline(
  'lost',
  '<circle cx="12" cy="12" r="9"/><path d="M8.8 8.8l6.4 6.4M15.2 8.8l-6.4 6.4"/>'
);

export const restoredIcon = outline(
  'restored',
  '<path d="M2.5 12.5l4.3 4.3L16 7.4"/><path d="M12.2 15.9l1 .9L22 7.4"/>'
);
export const recoveredIcon = outline(
  'recovered',
  '<path d="M4 12a8 8 0 1 0 2.5-5.8"/><path d="M3.5 3v4.6h4.6"/><path d="M9 12.4l2.2 2.2 4-4.2"/>'
);
export const freshIcon = outline(
  'fresh',
  '<circle cx="12" cy="12" r="9" stroke-dasharray="3.2 3.9"/>'
);
export const warningIcon = outline(
  'warning',
  '<path d="M12 3.6L21.6 20H2.4z"/><path d="M12 10v4.4"/><path d="M12 17.2v.1"/>'
);

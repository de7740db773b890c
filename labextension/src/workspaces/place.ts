/**
 * Where this page is served from: a workspace's place in the cluster, read from the page's own
 * address, and where the Workspaces backend of the same origin answers. Asks nobody.
 *
 * Paths are those of Kubeflow Notebooks 2: `/workspace/connect/<namespace>/<name>/<port>/` leads to
 * the pod, `/workspaces/api/v1/` to the backend, both below a prefix that may be empty.
 */

/** Which workspace, and the base of the backend's API, without a slash at its end. */
export type Place = {
  namespace: string;
  name: string;
  api: string;
};

const CONNECT = /^(.*?)\/workspace\/connect\/([^/]+)\/([^/]+)\/[^/]+(?:\/|$)/;

/**
 * The place of the page whose server answers below `baseUrl` (absolute); null if the address is
 * none of a workspace. `configured`: the backend's base as the user has set it, a path or an
 * address; of another origin it is not taken, since the page's session is of no use there.
 */
export function placeOf(baseUrl: string, configured = ''): Place | null {
  let url: URL;
  try {
    url = new URL(baseUrl);
  } catch {
    return null;
  }
  const match = CONNECT.exec(url.pathname);
  if (!match) {
    return null;
  }
  const [, prefix, namespace, name] = match;
  const base = configured.trim() || `${prefix}/workspaces/api/v1`;
  let api: URL;
  try {
    api = new URL(base, url.origin);
  } catch {
    return null; // still being typed
  }
  if (api.origin !== url.origin) {
    return null;
  }
  return {
    namespace: decodeURIComponent(namespace),
    name: decodeURIComponent(name),
    api: `${api.origin}${api.pathname.replace(/\/+$/, '')}`
  };
}

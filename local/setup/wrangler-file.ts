// Edits the public part of wrangler.toml. It replaces lines, or adds them where they belong. All other lines stay,
// comments included.
import { StackError } from '../ports.ts';

export interface PublicSettings {
  readonly origin: string;
  readonly route?: string | undefined;
  readonly zone?: string | undefined;
  /** In lower case. */
  readonly adminHost?: string | undefined;
  /** A wrangler environment such as `staging`. Undefined means production. */
  readonly environment?: string | undefined;
}

export function editWranglerFile(text: string, settings: PublicSettings): string {
  const { origin, environment, adminHost } = settings;
  const vars = environment === undefined ? '[vars]' : `[env.${environment}.vars]`;
  const withOrigin = setLine(text, vars, 'ORIGIN_URL', JSON.stringify(origin));
  const withHost =
    adminHost === undefined ? withOrigin : setLine(withOrigin, vars, 'ADMIN_HOST', JSON.stringify(adminHost));
  const section = environment === undefined ? undefined : `[env.${environment}]`;
  const routes = routesOf(settings);
  if (routes.length === 0) return withHost;
  const withAddress = needsWorkersDev(settings)
    ? setLine(withHost, section, 'workers_dev', 'true')
    : withHost;
  return setLine(withAddress, section, 'routes', `[${routes.join(', ')}]`);
}

const isWorkersDev = (host: string) => host.endsWith('.workers.dev');

/** A Worker with routes loses its workers.dev address, unless the file asks for it. */
const needsWorkersDev = ({ route, adminHost }: PublicSettings) =>
  adminHost !== undefined && (route === undefined || isWorkersDev(adminHost));

function routesOf({ route, zone, adminHost }: PublicSettings): string[] {
  const domain = (host: string) => `{ pattern = ${JSON.stringify(host)}, custom_domain = true }`;
  const own = adminHost === undefined || isWorkersDev(adminHost) ? [] : [domain(adminHost)];
  if (route === undefined) return own;
  const zoned = `{ pattern = ${JSON.stringify(route)}, zone_name = ${JSON.stringify(zone)} }`;
  return [route.includes('/') ? zoned : domain(route), ...own];
}

/** Sets `name = value` in a section, or above the first section. */
function setLine(text: string, section: string | undefined, name: string, value: string): string {
  const lines = text.split('\n');
  const start = section === undefined ? 0 : lines.indexOf(section) + 1;
  if (section !== undefined && start === 0) throw new StackError(`wrangler.toml has no section ${section}`);
  const next = lines.findIndex((line, at) => at >= start && line.startsWith('['));
  const end = next === -1 ? lines.length : next;
  const there = lines.findIndex((line, at) => at >= start && at < end && line.startsWith(`${name} = `));
  const line = `${name} = ${value}`;
  if (there !== -1) return lines.with(there, line).join('\n');
  // The comment above a section belongs to it, so a new line goes right after the settings before that comment.
  const last = lines.findLastIndex((one, at) => at >= start && at < end && /^\w+ = /.test(one));
  return lines.toSpliced(last === -1 ? start : last + 1, 0, line).join('\n');
}

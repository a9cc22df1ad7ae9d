// Edits the public part of wrangler.toml. It replaces lines, or adds them where they belong. All other lines stay,
// comments included.
import { StackError } from '../ports.ts';

export interface PublicSettings {
  readonly origin: string;
  readonly route?: string | undefined;
  readonly zone?: string | undefined;
  /** A wrangler environment such as `staging`. Undefined means production. */
  readonly environment?: string | undefined;
}

export function editWranglerFile(text: string, settings: PublicSettings): string {
  const { origin, environment } = settings;
  const vars = environment === undefined ? '[vars]' : `[env.${environment}.vars]`;
  const withOrigin = setLine(text, vars, 'ORIGIN_URL', JSON.stringify(origin));
  const route = routeOf(settings);
  if (route === undefined) return withOrigin;
  return setLine(withOrigin, environment === undefined ? undefined : `[env.${environment}]`, 'routes', route);
}

function routeOf({ route, zone }: PublicSettings): string | undefined {
  if (route === undefined) return undefined;
  const pattern = JSON.stringify(route);
  return route.includes('/')
    ? `[{ pattern = ${pattern}, zone_name = ${JSON.stringify(zone)} }]`
    : `[{ pattern = ${pattern}, custom_domain = true }]`;
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

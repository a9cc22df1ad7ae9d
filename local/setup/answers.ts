// The values that a deployment needs: from a file, or asked for one by one.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import * as z from 'zod';
import { StackError } from '../ports.ts';

const region = z.strictObject({
  name: z.string(),
  url: z.string(),
  token: z.string(),
  share: z.number().default(1),
  latitude: z.number().optional(),
  longitude: z.number().optional(),
  serves: z.array(z.string()).optional(),
  cluster: z.boolean().optional(),
});

const answers = z.strictObject({
  origin: z.string().describe('what lies behind Weir: an https URL, service:NAME or pass'),
  databaseUrl: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }),
  regions: z.array(region).min(1, 'needs at least one region'),
  adminToken: z.string().min(16, 'must have at least 16 characters').optional(),
  /** `www.example.com/*` on a zone, or a host for a custom domain. */
  route: z.string().optional(),
  zone: z.string().optional(),
  /** A host that alone answers the page and the admin route. */
  adminHost: z.string().optional(),
});

export type Answers = Omit<z.infer<typeof answers>, 'adminToken'> & {
  readonly adminToken: string;
  /** Whether setup made the token. Then the person does not know it yet. */
  readonly isTokenMade: boolean;
};
type Ask = (question: string) => Promise<string>;

export function readAnswers(file: string): Answers {
  let given: unknown;
  try {
    given = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new StackError(`${file}: ${(error as Error).message}`);
  }
  return check(given, file);
}

/** Places where Upstash has databases. The place of a region decides whose requests it gets. */
const PLACES: Readonly<Record<string, readonly [latitude: number, longitude: number]>> = {
  us: [39, -77],
  'us-west': [45.6, -121.2],
  eu: [50.1, 8.7],
  'eu-west': [53.3, -6.3],
  ap: [1.3, 103.8],
  'ap-northeast': [35.7, 139.7],
  'ap-south': [19, 72.9],
  'ap-southeast': [-33.9, 151.2],
  sa: [-23.5, -46.6],
};

export async function askAnswers(ask: Ask): Promise<Answers> {
  const origin = await ask('Origin (https URL, service:NAME or pass): ');
  const databaseUrl = await ask('Neon connection string (postgres://…): ');
  const regions = [];
  for (;;) {
    const name = await ask(
      `Region ${regions.length + 1}, one of ${Object.keys(PLACES).join(', ')} (empty: no more): `,
    );
    if (name === '') break;
    const [latitude, longitude] = PLACES[name] ?? [];
    const url = await ask(`  REST URL of Upstash in ${name}: `);
    const token = await ask(`  REST token of Upstash in ${name}: `);
    regions.push({
      name,
      url,
      token,
      latitude: latitude ?? Number(await ask('  Latitude: ')),
      longitude: longitude ?? Number(await ask('  Longitude: ')),
    });
  }
  const route = await ask('Route, such as www.example.com/* or api.example.com (empty: workers.dev): ');
  const zone = route.includes('/') ? await ask('  Zone, such as example.com: ') : '';
  const adminHost = await ask(
    'Admin host, a name of its own for the page, such as weir-admin.example.com (empty: it shares that of the API): ',
  );
  const optional = { ...(route && { route }), ...(zone && { zone }), ...(adminHost && { adminHost }) };
  return check({ origin, databaseUrl, regions, ...optional }, 'answers');
}

function check(given: unknown, from: string): Answers {
  const parsed = answers.safeParse(given);
  if (!parsed.success) {
    const lines = parsed.error.issues.map(({ path, message }) => `  ${path.join('.') || 'it'}: ${message}`);
    throw new StackError(`${from} cannot be used:\n${lines.join('\n')}`);
  }
  if (parsed.data.route?.includes('/') && parsed.data.zone === undefined)
    throw new StackError(`${from} cannot be used:\n  zone: is needed for the route ${parsed.data.route}`);
  const { adminToken, route, ...others } = parsed.data;
  const adminHost = others.adminHost?.toLowerCase().replace(/\.$/, '');
  if (adminHost !== undefined && adminHost === route?.toLowerCase().split('/')[0])
    throw new StackError(
      `${from} cannot be used:\n  adminHost: must be another host than that of the route, because Weir forwards nothing there`,
    );
  return {
    ...others,
    route,
    adminHost,
    adminToken: adminToken ?? randomBytes(24).toString('base64url'),
    isTokenMade: adminToken === undefined,
  };
}

// Prints the guide at the end of `npm run dev`: where each part runs, and what to try first.
import type { DemoKey } from './demo-keys.ts';
import type { Stack } from './stack.ts';

export interface GuideOptions {
  readonly workerUrl: string;
  readonly adminToken: string;
  readonly stack: Stack;
  /** The keys of the demo set. A person's own database has none. */
  readonly keys: readonly DemoKey[];
}

export function guide({ workerUrl, adminToken, stack, keys }: GuideOptions): string {
  const regions = stack.regions
    .map(({ name, redis, cluster }) =>
      cluster
        ? `${name} a cluster at ${cluster.urls.map((url) => new URL(url).host).join(' ')}`
        : `${name} 127.0.0.1:${redis.port}`,
    )
    .join(', ');
  return `
The page            ${workerUrl}/_weir/
  log in with       ${adminToken}
  lively traffic    npm run demo

Weir is up at ${workerUrl}, in front of ${stack.originUrl}

${keys.length > 0 ? tryTheDemo(workerUrl, stack.originUrl) : ''}  Health            curl -H 'Authorization: Bearer ${adminToken}' ${workerUrl}/_weir/health
  Play a region     curl -i -H 'X-Weir-Region: ap' ${workerUrl}/hello
${keys.map(({ name, key }) => `  ${name.padEnd(24)}  curl -i -H 'X-API-Key: ${key}' ${workerUrl}/api/hello`).join('\n')}
  See the rules     curl -H 'Authorization: Bearer ${adminToken}' ${workerUrl}/_weir/admin/rules
  Read about it     ${workerUrl}/_weir/admin/docs (log in at the page first)
  Your own API      ORIGIN_URL=https://api.example.com npm run dev

  Redis             ${regions}
  Postgres          ${withoutPassword(stack.databaseUrl)}
  Start over        npm run dev -- --fresh
  Stop              Ctrl-C
`;
}

const tryTheDemo = (
  workerUrl: string,
  originUrl: string,
) => `  Get limited       for i in $(seq 1 8); do curl -s -o /dev/null -w '%{http_code} ' ${workerUrl}/login; done
                    five pass, three are answered 429
  See why           curl -i ${workerUrl}/login
  Another origin    curl ${workerUrl}/worker/hello (a Worker, bound as a service)
  The zone's own    curl -H 'Host: ${new URL(originUrl).host}' ${workerUrl}/zone/hello
`;

/** A person's own URL may hold a password that must not be printed. */
function withoutPassword(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  if (url.password !== 'postgres') url.password = '';
  return url.href;
}

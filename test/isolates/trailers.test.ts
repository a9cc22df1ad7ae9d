// An origin that sends trailers. workerd leaves them unread in the connection and takes them for the beginning of the
// next answer, so that the next request fails in every Worker. Weir is compared with a Worker that only fetches.
import { createServer } from 'node:http';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import { expect, it } from 'vitest';
import { readCompatibility } from '../../local/isolates.ts';
import { close, LOOPBACK, listen } from '../../local/ports.ts';
import { startWeir } from '../shared/weir.ts';

const PATHS = ['/plain', '/trailers', '/plain', '/plain', '/trailers', '/trailers', '/plain'];

async function startOrigin() {
  const server = createServer((request, response) => {
    if (request.url !== '/trailers') return void response.end('plain');
    response.writeHead(200, { Trailer: 'X-Sum' });
    response.write('with trailers');
    response.addTrailers({ 'X-Sum': '1' });
    response.end();
  });
  const port = await listen(server, 0, 'an origin');
  return { url: `http://${LOOPBACK}:${port}`, stop: () => close(server) };
}

/** A Worker that does nothing but fetch from the origin. */
async function startBare(originUrl: string) {
  const script = `export default { async fetch({ url }) {
    const to = new URL(url);
    try { return await fetch('${originUrl}' + to.pathname); }
    catch { return new Response('bare', { status: 502 }); }
  } }`;
  const sockets = [{ host: LOOPBACK, port: 0 }];
  const worker = { name: 'bare', modules: true, script, unsafeDirectSockets: sockets };
  const options = { workers: [{ ...worker, ...(await readCompatibility()) }] };
  const miniflare = new Miniflare(convertV4MiniflareOptions(options));
  return { miniflare, url: (await miniflare.unsafeGetDirectURL('bare')).origin };
}

const bodyOf = async (answer: Response) =>
  answer.status === 502 ? '502' : `${answer.status} ${await answer.text()}`;

it('Weir passes on what an origin with trailers sends, and loses no more answers than a bare Worker', async () => {
  await using cleanup = new AsyncDisposableStack();
  const origins = [await startOrigin(), await startOrigin()] as const;
  for (const { stop } of origins) cleanup.defer(stop);
  const bare = await startBare(origins[0].url);
  cleanup.defer(() => bare.miniflare.dispose());
  const weir = cleanup.use(await startWeir({ ORIGIN_URL: origins[1].url }, { isolates: ['one'] }));
  const fromBare: string[] = [];
  const fromWeir: string[] = [];
  for (const path of PATHS) {
    fromBare.push(await bodyOf(await fetch(`${bare.url}${path}`)));
    fromWeir.push(await bodyOf(await weir.call(path)));
  }
  expect(fromWeir).toEqual(fromBare);
  expect(fromWeir).toContain('200 with trailers');
  expect(fromWeir.at(0)).toBe('200 plain');
  expect(fromWeir.at(3)).toBe('200 plain');
});

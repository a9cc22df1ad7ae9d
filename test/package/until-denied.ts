// Sends requests to the Worker of docs/library.md until it denies one.
import type { Miniflare } from 'miniflare';

const MAX_ASKED = 20;

export async function untilDenied(miniflare: Miniflare) {
  const headers = { 'CF-Connecting-IP': '10.1.2.3' };
  for (let passed = 0; passed < MAX_ASKED; passed += 1) {
    const response = await miniflare.dispatchFetch('http://mine.test/hello', { headers });
    if (response.status === 429) return { passed, denied: response };
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
    await response.arrayBuffer();
  }
  throw new Error(`none of ${MAX_ASKED} requests was denied`);
}

// Requests with a body that Weir answers without reading it.

const SIZES_BYTES = [12, 20_000, 200_000];
/** A lost connection hits the request after the unread body, so a few requests in a row share each connection. */
const ROUNDS = 4;
const AT_ONCE = 4;

interface Unread {
  readonly path: string;
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly bytes?: readonly number[];
}

/** Sends each request many times. Resolves to the statuses, by path and size of the body. */
export async function sendUnreadBodies(
  url: string,
  cases: readonly Unread[],
): Promise<{ seen: Record<string, number[]>; expected: Record<string, number[]> }> {
  const seen: Record<string, number[]> = {};
  const expected: Record<string, number[]> = {};
  for (const { path, status, headers, bytes: sizes = SIZES_BYTES } of cases)
    for (const bytes of sizes) {
      const statuses = new Set<number>();
      const send = async () => {
        const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body: 'x'.repeat(bytes) });
        await answer.arrayBuffer();
        statuses.add(answer.status);
      };
      for (let round = 0; round < ROUNDS; round += 1)
        await Promise.all(Array.from({ length: AT_ONCE }, send));
      seen[`${path}, ${bytes} bytes`] = [...statuses];
      expected[`${path}, ${bytes} bytes`] = [status];
    }
  return { seen, expected };
}

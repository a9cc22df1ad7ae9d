// Large and endless answers of the demo origin: memory stays flat, and the origin cleans up after clients that leave.
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { patternBlocks } from '../../local/origin/content.ts';
import { eventually, MEGABYTE, NEVER_MS, retainedBytes, sha256, useOrigin } from './origin-harness.ts';

const { current, send, open, latest, latestState } = useOrigin();

describe('large answers', () => {
  test('64 MB arrive intact while memory stays flat', async () => {
    const before = retainedBytes();
    const peaks: number[] = [];
    const hash = createHash('sha256');
    let received = 0;
    for await (const chunk of await open(`/?bytes=${64 * MEGABYTE}`)) {
      hash.update(chunk);
      received += chunk.length;
      if (received > (peaks.length + 1) * 16 * MEGABYTE) peaks.push(retainedBytes() - before);
    }
    expect(hash.digest('hex')).toBe(sha256(patternBlocks(64 * MEGABYTE)));
    expect(peaks.length).toBe(3);
    expect(Math.max(...peaks)).toBeLessThan(16 * MEGABYTE);
  });

  test('a client that does not read stalls the origin until it leaves', async () => {
    const response = await open('/?bytes=8000000000');
    let sent = -1;
    await eventually(() => {
      const previous = sent;
      sent = latest()?.sentBytes ?? 0;
      expect(sent).toBe(previous);
    });
    expect(sent).toBeLessThan(64 * MEGABYTE);
    expect(latestState()).toBe('open');
    response.destroy();
    await eventually(() => expect(latestState()).toBe('aborted'));
    expect(latest()?.sentBytes).toBeLessThan(64 * MEGABYTE);
  });

  test.each([`/?delay=${NEVER_MS}`, `/sse?interval=${NEVER_MS}`, '/?hang=1'])(
    'a client that leaves during %s leaves no open request behind',
    async (path) => {
      const sent = send(path).on('error', () => {});
      sent.on('response', (response) => response.on('error', () => {}).resume());
      await eventually(() => expect(latestState()).toBe('open'));
      sent.destroy();
      await eventually(() => expect(latestState()).toBe('aborted'));
      expect(current().requests.open).toBe(0);
    },
  );
});

import { describe, expect, it } from 'vitest';
import { packText, unpackText } from '../../src/core/digest.ts';
import { encodeSnapshot } from '../../src/core/matching/stored-snapshot.ts';
import { MAX_PACKED } from '../../src/rules/publishing/copies.ts';
import { createRule } from '../rules/small-rules.ts';

describe('a packed text', () => {
  it.each(['', 'text', 'é – 🙂', '{"rules":[]}', 'x'.repeat(300_000)])(
    'comes out as it went in (%#)',
    async (text) => {
      expect(await unpackText(await packText(text))).toBe(text);
    },
  );

  it('of 10,000 rules is less than half as long, and far below the limit of a copy', async () => {
    const ids = Array.from({ length: 10_000 }, (_, i) => crypto.randomUUID() + i);
    const text = encodeSnapshot({ rules: ids.map(createRule), tiers: [], lists: [] });
    const packed = await packText(text);
    expect(packed.length).toBeLessThan(text.length / 2);
    expect(packed.length).toBeLessThan(MAX_PACKED / 2);
  });

  it.each(['é', 'not base64!', 'AAAA', 'e30='])('is not read from other text: %j', async (text) => {
    expect(await unpackText(text)).toBeUndefined();
  });
});

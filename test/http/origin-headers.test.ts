// Limits and costs that the origin names: its limits are kept apart from Weir's, and only a plain cost is believed.
import { describe, expect, it } from 'vitest';
import { takeOriginHeaders } from '../../src/http/origin-headers.ts';

const NAME = 'X-Weir-Cost';
const takeCost = (headers: Headers) =>
  takeOriginHeaders(headers, { rateLimitHeaders: 'rename', costHeader: NAME.toLowerCase() });

describe('the cost that the origin names', () => {
  it.each([
    ['0', 0],
    ['7', 7],
    ['007', 7],
    ['999999999999', 999_999_999_999],
  ])('is believed: %s', (text, cost) => {
    const headers = new Headers({ [NAME]: text });
    expect(takeCost(headers)).toBe(cost);
    expect(headers.has(NAME)).toBe(false);
  });

  it.each(['', '-5', '+5', '1.5', '1e3', '0x10', '1_000', '5 6', '5, 6', 'many', 'NaN', '9'.repeat(13)])(
    'is not believed and does not reach the client: "%s"',
    (text) => {
      const headers = new Headers({ [NAME]: text });
      expect(takeCost(headers)).toBeUndefined();
      expect(headers.has(NAME)).toBe(false);
    },
  );

  it('is missing if the origin names none', () => expect(takeCost(new Headers())).toBeUndefined());
});

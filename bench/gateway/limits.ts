// The limits of the gateway bench, the same for Weir and its peer. No subject reaches them.

export const LIMIT = 1_000_000;

/** One limit uses the first of these windows, five use all. */
export const WINDOW_SECONDS = [3_600, 600, 60, 21_600, 86_400] as const;

/** Weir's rules: the first applies to the path of one rule, the others to that of five. */
export const ONE_RULE_PATH = '/v1/orders/7/items';
export const FIVE_RULES_PATH = '/v2/orders/7/items';
/** Only for the memory bench: each subject passes once. */
export const ONCE_PATH = '/v3/orders/7/items';
/** Only for the bench of hot subjects: a busy isolate leases. */
export const LEASED_PATH = '/v4/orders/7/items';

/** In the form that the admin route takes. */
export const RULES = [
  rule('/v1/*', 0),
  rule('/v2/*', 0),
  rule('/v2/orders/*', 1),
  rule('/v2/orders/:order/*', 2),
  rule('/v2/orders/:order/items', 3),
  rule('/v2/:collection/:id/:part', 4),
  { ...rule('/v3/*', 4), limit: 1 },
  // One subject for all addresses.
  { ...rule('/v4/*', 0), scope: 'global', limit: 100 * LIMIT, lease: true },
].map((body, i) => ({ name: `rule-${i}`, ...body }));

/** Not leased: every request is a call to Redis, as for most subjects. */
function rule(resource: string, window: number) {
  const counted = {
    algorithm: 'sliding-window-counter',
    limit: LIMIT,
    windowSeconds: WINDOW_SECONDS[window],
  };
  return { resource, scope: 'ip', ...counted, lease: false };
}

// The handlers of Weir's own paths, in one module that an isolate loads with the first request to any of them.
export { readCall, readRefunding, readSettling } from './check-messages.ts';
export { createCheckRoute, serviceChecks } from './check-route.ts';
export { createHealth } from './health.ts';
export { createQuota } from './quota.ts';

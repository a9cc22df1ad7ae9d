// What Weir answers under its own paths. One module, loaded when the first of them is asked for.
export { readCall } from './check-messages.ts';
export { createCheckRoute, createServiceChecks } from './check-route.ts';
export { createHealth } from './health.ts';
export { createQuota } from './quota.ts';

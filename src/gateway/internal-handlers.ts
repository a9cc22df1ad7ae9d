// The handlers of Weir's own paths, in one module that an isolate loads with the first request to any of them.
export { readCall, readRefunding, readSettling } from '../checks/messages.ts';
export { createQuota } from '../checks/quota.ts';
export { createCheckRoute, serviceChecks } from '../checks/route.ts';
export { createHealth } from './health.ts';

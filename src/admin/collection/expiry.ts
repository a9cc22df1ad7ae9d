// Refuses an expiry in the past: it is a mistake, most likely in the time zone.
import type { Values } from '../../rules/tables/body-schemas.ts';
import { AdminError } from '../problems.ts';

export function expectFuture({ expiresAt }: Values, nowMs: number): void {
  if (!(expiresAt instanceof Date) || expiresAt.getTime() > nowMs) return;
  throw new AdminError({
    status: 400,
    code: 'invalid-body',
    title: 'The body is not valid',
    errors: [{ pointer: '#/expiresAt', detail: 'must be in the future' }],
  });
}

// The keys of the demo set, in a file of their own: `npm run demo` needs no database.
import { API_KEY_RANDOM_BYTES, createApiKey } from '../src/identity/api-key.ts';

/** For local development only. They are no secret, because every clone has the same ones. */
export const KEYS = [
  { name: 'demo: ada, premium', letter: 15, userId: 'ada' },
  { name: 'demo: acme, enterprise', letter: 4, tenantId: 'acme' },
];

export interface DemoKey {
  readonly name: string;
  readonly key: string;
}

export const demoKeys = (): Promise<DemoKey[]> =>
  Promise.all(
    KEYS.map(async ({ name, letter }) => ({
      name,
      key: await createApiKey(new Uint8Array(API_KEY_RANDOM_BYTES).fill(letter)),
    })),
  );

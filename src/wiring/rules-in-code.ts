// Weir with rules in code. It needs only Redis: it neither reads nor writes Postgres or KV, and has no admin route.

import type { RulesInCode } from '../authoring/written-rule.ts';
import type { Bindings } from '../config/bindings.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import { ABSENT, type CallerDirectory, NO_REVISIONS } from '../core/ports/callers.ts';
import type { Telemetry } from '../core/ports/telemetry.ts';
import { nothingHere } from '../gateway/internal-routes.ts';
import type { RulesSource } from '../rules/edge/snapshot-source.ts';
import { createIsolateServices, type IsolateServices } from './isolate.ts';

export function createCodeServices(env: CodeBindings, said: RulesInCode): IsolateServices {
  const source = createCodeSource(said);
  const { services } = createIsolateServices({ ...placeholders(), ...env }, source);
  return {
    ready: source.compile,
    async runCron() {},
    async consume() {},
    services: {
      ...services,
      identity: { ...services.identity, callers: NOBODY },
      telemetry: UNTOLD,
      pingDatabase: undefined,
      admin: async () => nothingHere(),
      adminRefusal: async () => nothingHere(),
      page: async () => nothingHere(),
      metrics: async () => nothingHere(),
    },
  };
}

type Placeholders = ReturnType<typeof placeholders>;
/** The bindings of a Worker with rules in code. */
export type CodeBindings = Omit<Bindings, keyof Placeholders> & Partial<Placeholders>;

/** Bindings that only Weir's own Worker uses. The token is random, so nobody knows it. */
const placeholders = () => ({
  RULES: { get: async () => null, put: async () => {} },
  DATABASE_URL: 'postgres://none.invalid/none',
  ADMIN_TOKEN: crypto.randomUUID(),
});

/** Without Postgres there are no API keys, and Weir knows a user only by the claims of the token. */
const NOBODY: CallerDirectory = { ofApiKey: async () => ABSENT, ofUser: async () => ABSENT };

const UNTOLD: Telemetry = {
  clockMs: () => 0,
  decided() {},
  checked() {},
  corrected() {},
  answered() {},
  flush() {},
};

interface CodeSource extends RulesSource {
  compile(): Promise<Snapshot>;
}

/** Rules in code change only with the code, so there is nothing to confirm. */
function createCodeSource(said: RulesInCode): CodeSource {
  let compiled: Snapshot | undefined;
  const compile = async () => {
    if (compiled) return compiled;
    const { compileCode } = await import('./compile-rules.ts');
    compiled = await compileCode(said, Date.now());
    return compiled;
  };
  return {
    compile,
    start: compile,
    current: () => compiled,
    announced: () => '',
    probe: () => undefined,
    confirm() {},
    fail() {},
    isConfirmed: () => true,
    load: async () => false,
    callerRevisions: () => NO_REVISIONS,
  };
}

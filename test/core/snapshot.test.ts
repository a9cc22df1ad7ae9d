import { describe, expect, it } from 'vitest';
import type { Rule } from '../../src/core/rule.ts';
import { compileSnapshot } from '../../src/core/snapshot.ts';

let lastId = 0;
const rule = (fields: Partial<Rule>): Rule => {
  lastId += 1;
  const id = String(lastId);
  return {
    id,
    name: `rule ${id}`,
    resource: '/*',
    scope: 'ip',
    algorithm: 'fixed-window',
    limit: 10,
    windowSeconds: 60,
    priority: 100,
    ...fields,
  };
};
const matching = async (rules: Rule[], path: string) =>
  (await compileSnapshot('v1', rules)).match(path).map(({ name }) => name);

describe('a snapshot', () => {
  it('matches everything, a prefix and an exact path, without regard to case', async () => {
    const rules = [
      rule({ name: 'all', resource: '/*' }),
      rule({ name: 'api', resource: '/API/*' }),
      rule({ name: 'login', resource: '/login' }),
    ];
    expect(await matching(rules, '/api')).toEqual(['all', 'api']);
    expect(await matching(rules, '/api/users')).toEqual(['all', 'api']);
    expect(await matching(rules, '/apiary')).toEqual(['all']);
    expect(await matching(rules, '/login')).toEqual(['all', 'login']);
    expect(await matching(rules, '/login/x')).toEqual(['all']);
  });

  it('takes one rule for each scope and resource, by priority and then by id', async () => {
    const rules = [
      rule({ id: 'b', name: 'tied, later id', priority: 5 }),
      rule({ id: 'a', name: 'tied, first id', priority: 5 }),
      rule({ id: '0', name: 'lower priority', priority: 6 }),
      rule({ id: 'c', name: 'another scope', scope: 'global', priority: 50 }),
    ];
    expect(await matching(rules, '/x')).toEqual(['tied, first id', 'another scope']);
  });
});

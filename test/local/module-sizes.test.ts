// What a cold isolate evaluates before its first request.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, inject, it } from 'vitest';
import { modulesIn } from '../../local/bundle.ts';
import { readGateway } from '../../local/module-sizes.ts';
import { createSharedParts } from '../shared/parts.ts';

describe('the deployed gateway', () => {
  it.each([
    ['zod', 'ZodError'],
    ['OpenAPI', 'openapi'],
    ['the tables', 'drizzle:'],
    ["Neon's driver", 'NeonDbError'],
  ])('starts without %s, which is in another module', async (_, mark) => {
    const folder = await createSharedParts(inject('sharedParts')).worker();
    const gateway = await readGateway(folder);
    const others = (await modulesIn(folder)).filter((name) => !gateway.has(name));
    const codes = await Promise.all(others.map((name) => readFile(join(folder, name), 'utf8')));
    const bearers = [...gateway].filter(([, code]) => code.includes(mark)).map(([name]) => name);
    expect(bearers).toEqual([]);
    expect(codes.some((code) => code.includes(mark))).toBe(true);
  });
});

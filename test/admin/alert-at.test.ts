// The thresholds of a rule, as people write them.
import { describe, expect, it } from 'vitest';
import { rule, useImports } from './import-export-harness.ts';

const { take, exported, call } = useImports();

describe('alertAt', () => {
  it('survives an import, an export and an import of the export', async () => {
    const alerting = { ...rule('alerting'), alertAt: [80, 100] };
    await take({ weir: 1, rules: [alerting] });
    const document = await exported();
    expect(document.rules).toEqual([expect.objectContaining({ name: 'alerting', alertAt: [80, 100] })]);
    await take({ weir: 1, rules: [] }, '?mode=replace');
    expect((await exported()).rules).toEqual([]);
    await take(document, '?force=true');
    expect((await exported()).rules).toEqual([
      expect.objectContaining({ name: 'alerting', alertAt: [80, 100] }),
    ]);
  });

  it.each([
    ['#/alertAt/1', [80, 101]],
    ['#/alertAt/0', [0]],
    ['#/alertAt/0', [99.5]],
    ['#/alertAt', [1, 2, 3, 4, 5, 6]],
    ['#/alertAt', 80],
  ])('is refused at %s: %j', async (pointer, alertAt) => {
    const answer = await call('/rules', { method: 'POST', body: { ...rule('bad'), alertAt } });
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({ code: 'invalid-body', errors: [{ pointer }] });
  });
});

import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { CounterStoreError } from '../../src/core/ports/region.ts';
import { createLog, LOG_EVENTS } from '../../src/http/log.ts';

function openIsolate() {
  const clock = { ms: 1_800_000_000_000 };
  const lines: string[] = [];
  const log = createLog(
    () => clock.ms,
    (line) => lines.push(line),
  );
  return { clock, lines, log, last: () => JSON.parse(lines.at(-1) ?? 'null') as unknown };
}

describe('a line', () => {
  it('is one JSON object with what happened, and nothing else', () => {
    const { log, lines } = openIsolate();
    log.degraded({ reason: 'timeout', fallback: 'local', region: 'us' });
    log.degraded({ reason: 'stale-rules', region: 'us' });
    log.breaker('us', 'half-open');
    log.shadow('per user', 'us');
    log.error('admin-failed', new TypeError('x'));
    log.script('us', 'ERR x', true);
    log.script('us', 'ERR y', false);
    expect(lines).toEqual([
      '{"event":"degraded","reason":"timeout","fallback":"local","region":"us"}',
      '{"event":"degraded","reason":"stale-rules","region":"us"}',
      '{"event":"breaker","region":"us","state":"half-open"}',
      '{"event":"would-deny","rule":"per user","region":"us"}',
      '{"event":"admin-failed","error":"TypeError"}',
      '{"event":"script-broken","region":"us","said":"ERR x"}',
      '{"event":"script-failed","region":"us","said":"ERR y"}',
    ]);
  });

  it('has only the name of an error, because its message may hold anything', () => {
    const { log, lines, clock } = openIsolate();
    for (const error of [
      new Error('secret'),
      new Error('x', { cause: 'secret' }),
      'secret',
      { secret: 1 },
      null,
    ]) {
      log.error('charge-not-settled', error);
      clock.ms += 1_000;
    }
    expect(lines.map((line) => JSON.parse(line).error)).toEqual([
      'Error',
      'Error',
      'string',
      'object',
      'object',
    ]);
    expect(lines.join()).not.toContain('secret');
  });

  it("has the kind of failure if a store failed, and the server's message if the script failed", () => {
    const { log, last } = openIsolate();
    log.error('publish-incomplete', new CounterStoreError('timeout', 'no answer'), 'us');
    expect(last()).toEqual({
      event: 'publish-incomplete',
      region: 'us',
      error: 'CounterStoreError',
      failure: 'timeout',
    });
    log.error('publish-incomplete', new CounterStoreError('script-failed', 'ERR x'), 'eu');
    expect(last()).toMatchObject({ region: 'eu', failure: 'script-failed', said: 'ERR x' });
  });

  it('has the stack of a bug in Weir, without its message', () => {
    const { log, last } = openIsolate();
    const failHere = () => {
      throw new TypeError('secret\n    at secret (secret:1:1)');
    };
    try {
      failHere();
    } catch (error) {
      log.bug(error);
    }
    const line = last() as { stack: string[] };
    expect(line).toMatchObject({ event: 'internal-error', error: 'TypeError' });
    expect(line.stack[0]).toMatch(/^at failHere .*log\.test\.ts:\d+:\d+\)$/);
    expect(JSON.stringify(line)).not.toContain('secret');
  });

  it.each([
    ['a text', 'secret', 'string'],
    ['undefined', undefined, 'undefined'],
    ['an error without a stack', Object.assign(new Error('secret'), { stack: undefined }), 'Error'],
    ['an error with a foreign stack', Object.assign(new Error('x'), { stack: 'secret\nsecret' }), 'Error'],
  ])('has no stack if %s was thrown', (_, thrown, error) => {
    const { log, last } = openIsolate();
    log.bug(thrown);
    expect(last()).toEqual({ event: 'internal-error', error, stack: [] });
  });

  it('has only the innermost ten places of a stack', () => {
    const { log, last } = openIsolate();
    const frames = Array.from({ length: 50 }, (_, i) => `    at f${i} (x.js:1:1)`).join('\n');
    log.bug(Object.assign(new Error('x'), { stack: `Error: x\n${frames}` }));
    expect((last() as { stack: string[] }).stack).toEqual(
      Array.from({ length: 10 }, (_, i) => `at f${i} (x.js:1:1)`),
    );
  });

  it('has only the reason and the fallback of a decision', () => {
    const { log, last } = openIsolate();
    const decision = { kind: 'degraded', allowed: true, checks: [{ key: 'secret' }], local: { secret: 1 } };
    log.degraded({ ...decision, reason: 'timeout', fallback: 'open', region: 'us' });
    expect(last()).toEqual({ event: 'degraded', reason: 'timeout', fallback: 'open', region: 'us' });
  });
});

describe('lines of one kind', () => {
  it('are written once a second, and the next one says how many were left out', () => {
    const { log, lines, clock, last } = openIsolate();
    const tell = () => log.degraded({ reason: 'timeout', fallback: 'open', region: 'us' });
    for (let i = 0; i < 5; i += 1) tell();
    clock.ms += 999;
    tell();
    expect(lines).toHaveLength(1);
    expect(last()).not.toHaveProperty('suppressed');
    clock.ms += 1;
    tell();
    expect([lines.length, last()]).toMatchObject([2, { suppressed: 5 }]);
    clock.ms += 1_000;
    tell();
    expect(lines).toHaveLength(3);
    expect(last()).not.toHaveProperty('suppressed');
  });

  it('share one reason, step and region, one breaker and state, one rule, or one event', () => {
    const { log, lines } = openIsolate();
    const bugs = [new Error('x'), new Error('x')];
    for (const _ of [1, 2]) {
      log.degraded({ reason: 'timeout', fallback: 'open', region: 'us' });
      log.degraded({ reason: 'unavailable', fallback: 'open', region: 'us' });
      log.degraded({ reason: 'timeout', fallback: 'local', region: 'us' });
      log.degraded({ reason: 'timeout', fallback: 'open', region: 'eu' });
      log.breaker('us', 'open');
      log.breaker('us', 'closed');
      log.breaker('eu', 'open');
      log.shadow('a', 'us');
      log.shadow('b', 'us');
      log.shadow('a', 'eu');
      log.error('admin-failed', new Error('x'));
      log.error('publish-failed', new Error('x'));
      // An error of another name is of the same kind.
      log.error('admin-failed', new TypeError('x'));
      log.error('publish-incomplete', new Error('x'), 'us');
      log.error('publish-incomplete', new Error('x'), 'eu');
      log.script('us', 'x', true);
      log.script('us', 'x', false);
      log.script('eu', 'x', true);
      // Another message of the same server is of the same kind.
      log.script('us', 'y', true);
      log.bug(bugs[0]);
      log.bug(bugs[1]);
    }
    expect(lines).toHaveLength(19);
    expect(new Set(lines).size).toBe(19);
  });

  it('are not silenced by a clock that is set back', () => {
    const { log, lines, clock } = openIsolate();
    log.breaker('us', 'open');
    clock.ms -= 3_600_000;
    log.breaker('us', 'open');
    log.breaker('us', 'open');
    expect(lines).toHaveLength(2);
  });

  it('are told apart for up to a thousand kinds; then the kind used longest ago is forgotten', () => {
    const { log, lines } = openIsolate();
    for (let i = 0; i <= 1_000; i += 1) log.shadow(`rule ${i}`, 'us');
    expect(lines).toHaveLength(1_001);
    log.shadow('rule 1', 'us');
    log.shadow('rule 1000', 'us');
    expect(lines).toHaveLength(1_001);
    log.shadow('rule 0', 'us');
    expect(lines).toHaveLength(1_002);
  });
});

describe('the events of the log', () => {
  const root = fileURLToPath(new URL('../../src', import.meta.url));
  const sources = globSync('**/*.ts', { cwd: root }).map((path) => ({
    path,
    text: readFileSync(`${root}/${path}`, 'utf8'),
  }));
  const EVENT = /(?:log\.error\(|reportAs\(|\bevent: )'([^']+)'/g;

  it('in the code are exactly those in the list', () => {
    const written = sources.flatMap(({ text }) => [...text.matchAll(EVENT)].map((match) => match[1]));
    expect([...new Set(written)].sort()).toEqual([...LOG_EVENTS].sort());
  });

  it('are written by the log alone, except in the cron run and for a bad configuration', () => {
    const writers = sources.filter(({ text }) => /\bconsole\b/.test(text)).map(({ path }) => path);
    expect(writers.sort()).toEqual(['gateway/refusals.ts', 'wiring/core.ts', 'wiring/cron.ts']);
  });
});

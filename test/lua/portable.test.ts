// Every Lua file uses only the subset that both servers understand alike.
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { loadScript } from '../../src/redis/script.ts';
import { findViolations } from './portable.ts';

const folder = new URL('../../lua/', import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith('.lua'));

describe('the scripts', () => {
  it.each(files)('%s means the same on Redis and on Upstash', (name) => {
    expect(findViolations(name, readFileSync(new URL(name, folder), 'utf8'))).toEqual([]);
  });

  it('mean the same on both once they are put together', async () => {
    const { text } = await loadScript();
    expect(findViolations('composed', text)).toEqual([]);
  });
});

describe('the check names file and line of', () => {
  it.each([
    ['a match that may return nothing, as the last argument', 'local n = tonumber(string.match(s, p))'],
    ['the same with find, byte and pcall', 'f(1, find(s, p))\nf(string.byte(s))\nf(pcall(g))'],
    ['returns of different lengths', 'function f(a) if a then return 1, 2 end return 1 end'],
    ['an assignment that reads what it writes', 'a, b, c = start, 0, b'],
    ['a swap of places in a table', 'list[1], list[2] = list[2], list[1]'],
    ['a local that takes the result of a call with itself', 'seats = (without(seats, id))\nx = x and w(x)'],
    ['text that becomes a number by arithmetic', 'local number = digits + 0'],
    ['a call of a call', "local wrong = load('refusal')(at)"],
    ['a remainder of a negative number', 'local up = (a + -a % b) / b'],
    ['a remainder of a difference', 'local rest = (a - b) % c'],
    ['unpack of a list that can grow', 'local all = unpack(list)'],
    ['a concat without bounds', "local text = table.concat(parts, ',')"],
    ['numbers to text that lose digits', 'local text = tostring(n)'],
    ['a format that loses digits', "local text = string.format('%.14g', n)"],
    ['a library that Upstash is not known to have', 'local text = cmsgpack.pack(n)'],
  ])('%s', (_, line) => {
    const lines = line.split('\n');
    const found = findViolations('some.lua', `local before = 1\n${line}\nlocal after = 2`);
    expect(found.map(({ file, line: at }) => [file, at])).toEqual(lines.map((__, i) => ['some.lua', i + 2]));
  });

  it('nothing in correct code', () => {
    const fine = [
      'local digits = string.match(s, p)',
      'local _, last = string.find(s, p)',
      'local a, b = 1, 2',
      "local values = redis.call('MGET', unpack(KEYS))",
      "local text = string.format('%d %s %.0f', a, b, c) .. table.concat(parts, ',', 1, 5)",
      'local rest = a % b',
    ].join('\n');
    expect(findViolations('fine.lua', fine)).toEqual([]);
  });
});

// docs/architecture.md tells where things are: its list of rooms is complete, and every file that it names exists.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const page = readFileSync(`${ROOT}/docs/architecture.md`, 'utf8');
const sources = readdirSync(`${ROOT}/src`, { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.tsx?$/.test(file))
  .map((file) => `src/${file}`);
const rooms = [...new Set(sources.map((file) => dirname(file)))];
const listed = [...page.matchAll(/^\| `(src[\w/-]*)` \|/gm)].map(([, room]) => room ?? '');

const MAX_FILES = 190;
const MAX_LINES = 500;

it('every room of src is listed once, and nothing else is', () => {
  expect(listed.toSorted()).toEqual(rooms.toSorted());
});

it('every file that the page names exists', () => {
  const named = [...page.matchAll(/`((?:[\w-]+\/)+[\w-]+\.tsx?|worker\.ts)`/g)].map(([, file]) => file ?? '');
  expect(named.length).toBeGreaterThan(20);
  const isThere = (file: string) => existsSync(`${ROOT}/src/${file}`) || existsSync(`${ROOT}/${file}`);
  expect(named.filter((file) => !isThere(file))).toEqual([]);
});

it('every source that a comment in src names exists', () => {
  const comments = (file: string) =>
    readFileSync(`${ROOT}/${file}`, 'utf8').match(/^\s*(?:\/\/|\*|\/\*).*$/gm) ?? [];
  const isThere = new Set(
    ['src', 'lua', 'test', 'local', 'page']
      .flatMap((folder) => readdirSync(`${ROOT}/${folder}`, { recursive: true, encoding: 'utf8' }))
      .map((file) => basename(file)),
  );
  const named = sources.flatMap((file) =>
    comments(file).flatMap((line) =>
      [...line.matchAll(/(?<![\w.'-])([a-z][a-z-]*\.tsx?)\b/g)].map(([, name]) => name ?? ''),
    ),
  );
  expect(named.length).toBeGreaterThan(20);
  expect(named.filter((name) => !isThere.has(name))).toEqual([]);
});

describe('the house stays small', () => {
  it('src has few files', () => expect(sources.length).toBeLessThanOrEqual(MAX_FILES));

  it('no file is too long to tell one story', () => {
    const lines = (file: string) => readFileSync(`${ROOT}/${file}`, 'utf8').split('\n').length;
    expect(sources.filter((file) => lines(file) > MAX_LINES)).toEqual([]);
  });

  it('no two types that files export share a name', () => {
    const names = sources.flatMap((file) =>
      [...readFileSync(`${ROOT}/${file}`, 'utf8').matchAll(/^export (?:interface|type|class) (\w+)/gm)].map(
        ([, name]) => name ?? '',
      ),
    );
    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  });
});

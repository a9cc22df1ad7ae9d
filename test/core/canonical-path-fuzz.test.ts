// Any other spelling of a path counts as the path, or is refused: random spellings beyond the corpus.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalPath } from '../../src/core/matching/path.ts';
import { rounds } from '../rounds.ts';

const PATHS = [
  '/users/7',
  '/login',
  '/api/v1/books:batch/@me',
  '/caf%C3%A9/%C3%BCber',
  '/a-b/c_d/e~f/g.h',
  '/',
];

const hex = (byte: number) => byte.toString(16).padStart(2, '0');
/** Each byte as an escape, once or twice, or the character itself. */
const respelled = (character: string, how: number) => {
  const escapes = [...new TextEncoder().encode(character)].map((byte) => `%${hex(byte)}`).join('');
  return [character, escapes, escapes.toUpperCase(), escapes.replaceAll('%', '%25'), character.toUpperCase()][
    how
  ];
};

type Mutation = (segments: readonly string[], at: number, how: number) => readonly string[];
/** Inserted pieces stay together: nothing may come between a name and its `..`. */
const inserted =
  (text: string): Mutation =>
  (segments, at) =>
    segments.toSpliced(at, 0, text);
const changed =
  (change: (segment: string, how: number) => string): Mutation =>
  (segments, at, how) =>
    segments.map((segment, i) => (i === at ? change(segment, how) : segment));

const MUTATIONS: readonly Mutation[] = [
  ...['', '.', '%2e', ';', ';x=1', '%3Bx', 'x/..', 'X;y/%2E%2e', '/..', 'x/y/.././..'].map(inserted),
  // These may be refused, but must not count as another path.
  ...['..;/.', '.;', '%252e', '%EF%BC%8E', '.%20', '%20'].map(inserted),
  changed((segment) => `${segment};v=1`),
  changed((segment) => `${segment}%3bv`),
  changed((segment) => `${segment}%20`),
  changed((segment) => segment.normalize('NFD')),
  changed((segment) => segment.normalize('NFC')),
  changed((segment, how) => [...segment].map((character) => respelled(character, how)).join('')),
  changed((segment, how) =>
    [...segment].map((character, i) => respelled(character, (i * 7 + how) % 5)).join(''),
  ),
];

const matchPathOf = (path: string) => {
  const canonical = canonicalPath(new URL(`http://weir${path}`).pathname);
  return canonical.ok ? canonical.matchPath : undefined;
};

const mutation = fc.record({
  mutate: fc.constantFrom(...MUTATIONS),
  at: fc.nat(6),
  how: fc.nat(4),
});

describe('a known path, spelled in another way', () => {
  it.each(PATHS)('%s is counted as itself or refused', (plain) => {
    let counted = 0;
    const total = rounds(600);
    fc.assert(
      fc.property(fc.array(mutation, { maxLength: 3 }), fc.boolean(), (mutations, endsWithSlash) => {
        const segments = decodeURIComponent(plain).slice(1).split('/');
        const spelled = mutations.reduce<readonly string[]>(
          (current, { mutate, at, how }) => mutate(current, Math.min(at, current.length - 1), how),
          segments,
        );
        const spelling = `/${spelled.join('/')}${endsWithSlash ? '/' : ''}`;
        const matchPath = matchPathOf(spelling);
        if (matchPath === undefined) return;
        expect(matchPath, spelling).toBe(matchPathOf(plain));
        counted += 1;
      }),
      { numRuns: total },
    );
    // Refusing everything would be correct, too, and useless.
    expect(counted).toBeGreaterThan(total / 3);
  });
});

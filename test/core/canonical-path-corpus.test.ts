import { describe, expect, it } from 'vitest';
import { compileResource } from '../../src/authoring/explain.ts';
import { canonicalPath } from '../../src/core/matching/path.ts';
import { APART, REFUSED, SAME } from './canonical-path-corpus.ts';

/** A request's path arrives through the URL parser. */
const asRequested = (path: string) => canonicalPath(new URL(`http://weir${path}`).pathname);
const matchPathOf = (path: string) => {
  const canonical = asRequested(path);
  return canonical.ok ? canonical.matchPath : `refused: ${canonical.reason}`;
};

describe.each(Object.entries(SAME))('%s', (plain, spellings) => {
  it.each(spellings)('is the path that %s is counted as', (spelling) => {
    expect(matchPathOf(spelling)).toBe(matchPathOf(plain));
    expect(matchPathOf(plain)).not.toMatch(/^refused/);
  });

  it.each(spellings)('read from %s is the same with and without the URL parser', (spelling) =>
    expect(canonicalPath(spelling)).toEqual(asRequested(spelling)),
  );

  it.each([plain, ...spellings])('as a rule’s resource applies to the request %s', (spelling) => {
    if (plain === '/*') return;
    const canonical = asRequested(spelling);
    expect(canonical.ok && compileResource(plain)(canonical.matchPath)).toBe(true);
  });

  it.each(spellings)('read from %s reaches the origin in a form that is read in the same way', (spelling) => {
    const canonical = asRequested(spelling);
    const again = canonical.ok && asRequested(canonical.path);
    expect(again).toEqual(canonical);
    expect(canonical.ok && new URL(`http://origin${canonical.path}`).pathname).toBe(
      canonical.ok && canonical.path,
    );
  });
});

describe('a path that can be read in two ways', () => {
  it.each(Object.entries(REFUSED))('%s is refused: %s', (spelling, reason) => {
    expect(asRequested(spelling)).toEqual({ ok: false, reason });
    expect(canonicalPath(spelling)).toEqual({ ok: false, reason });
  });

  it('is refused with a backslash, which the URL parser would have made a slash', () => {
    expect(canonicalPath('/users\\7').ok).toBe(false);
    expect(matchPathOf('/users\\7')).toBe('/users/7');
    expect(matchPathOf('/x\\..\\users/7')).toBe('/users/7');
  });
});

describe('names that differ', () => {
  it.each(APART)('%s and %s are counted apart', (one, other) =>
    expect(matchPathOf(one)).not.toBe(matchPathOf(other)),
  );

  it('an escaped {} or * is a name, never a parameter or a prefix of a rule', () => {
    for (const path of ['/%7B%7D', '/*', '/%2A', '/%257B%257D'])
      expect(matchPathOf(path)).not.toMatch(/[{}*]/);
  });
});

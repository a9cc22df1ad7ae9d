// The model behind docs/scale.md: its parts, and that the page has its figures.
import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { callsPerSecond, needsOf } from '../../local/scale/model.ts';
import { drawScale } from '../../local/scale/picture.ts';
import { renderRows, scaleRows } from '../../local/scale/table.ts';
import { zipfBands } from '../../local/scale/zipf.ts';

const docs = (path: string) => readFile(new URL(`../../docs/${path}`, import.meta.url), 'utf8');
const EVERYBODY = [{ subjects: 1, part: 1 }];

describe('subjects by Zipf', () => {
  it('together send all requests, and the first sends twice as many as the second', () => {
    const bands = zipfBands(10_000_000);
    const sum = bands.reduce((all, { subjects, part }) => all + subjects * part, 0);
    expect(sum).toBeCloseTo(1, 9);
    expect(bands.reduce((all, { subjects }) => all + subjects, 0)).toBe(10_000_000);
    expect((bands[0]?.part ?? 0) / (bands[1]?.part ?? 0)).toBeCloseTo(2, 9);
  });
});

describe('an isolate', () => {
  it('makes a call for each request of a slow subject, and at most two a second for a fast one', () => {
    const calls = [4, 5, 20, 100, 200, 1_000].map((perSecond) => callsPerSecond(perSecond, true));
    expect(calls).toEqual([4, 0.2, 0.2, 1, 2, 2]);
    expect(callsPerSecond(1_000, false)).toBe(1_000);
  });
});

describe('a deployment', () => {
  it('needs four commands for each request that is not leased, and more for the reports of isolates', () => {
    const needs = needsOf({ perSecond: 3_000, regions: 3, bands: EVERYBODY, isLeased: false });
    expect(needs).toMatchObject({ isolates: 9, hottestKey: 1_000, redisLoad: 0.011 });
    expect(needs.commands).toBeCloseTo(4 * 1_000 + 3 * (4 + 16 / 60), 6);
  });
});

describe('docs/scale.md', () => {
  it('has the table of the model', async () => {
    expect(await docs('scale.md')).toContain(renderRows(scaleRows()));
  });

  it('has the picture of the model', async () => {
    expect(await docs('images/scale.svg')).toBe(drawScale(scaleRows(), 3));
  });
});

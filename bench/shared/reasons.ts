// Why requests were not counted. A bench reports that instead of failing.

/** How many requests had each reason, the most frequent first. */
export function tallyReasons(reasons: readonly string[]): Record<string, number> {
  const counts = [...Map.groupBy(reasons, (reason) => reason)].map(
    ([reason, all]) => [reason, all.length] as const,
  );
  return Object.fromEntries(counts.sort(([, a], [, b]) => b - a));
}

/** For a table with a column of requests that were not counted. */
export function uncountedNotes(reasons: readonly string[]): string[] {
  const parts = Object.entries(tallyReasons(reasons)).map(([reason, count]) => `${count} × ${reason}`);
  return parts.length === 0 ? [] : [`Not counted: ${parts.join(', ')}.`];
}

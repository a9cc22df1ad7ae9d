// Ends a run with one plain line that any tool can read: `N passed, N failed`.
import type { Reporter, TestModule } from 'vitest/node';

export default class ClosingLine implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const count = (state: string) => tests.filter((test) => test.result().state === state).length;
    // A file that could not be loaded, a failed set-up, or an error outside any test: these are failures, too.
    const hasErrors = (part: { errors(): readonly unknown[] }) => part.errors().length > 0;
    const suites = modules.flatMap((module) => [...module.children.allSuites()]);
    const broken = [...modules, ...suites].filter(hasErrors).length + unhandledErrors.length;
    const skipped = count('skipped') + count('pending');
    const ending = skipped > 0 ? `, ${skipped} skipped` : '';
    process.stdout.write(`\n${count('passed')} passed, ${count('failed') + broken} failed${ending}\n`);
  }
}

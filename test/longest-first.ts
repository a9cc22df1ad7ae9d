// Orders the test files: the longest begin first, so that none of them runs alone at the end.
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** From the longest to the shortest. Those of workerd come together, because they need other workers. */
const LONG = [
  'workerd/',
  'bench/',
  'e2e/',
  'faults/redis',
  'page/',
  'faults/',
  'package/',
  'local/setup',
  'regions/',
  'redis/toy',
  'docs/rules',
  'client/sharing',
  'simulator/',
  'limiter/denials-equivalence',
  'isolates/',
  'local/postgres',
  'local/neon-gateway-tcp',
];

export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const path = moduleId.slice(moduleId.lastIndexOf('/test/') + '/test/'.length);
      const place = LONG.findIndex((start) => path.startsWith(start));
      return place === -1 ? LONG.length : place;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

// Calls of POST /_weir/check that are refused, and the error in the answer. See check.test.ts for the rules.
export const BAD_CHECKS: readonly (readonly [body: object, pointer: string, detail: string])[] = [
  [{ subject: 'a' }, '#', 'must have either rule or policy'],
  [{ rule: 'jobs' }, '#/subject', 'is missing: the rule counts by user'],
  [
    { rule: 'all jobs', subject: 'a' },
    '#/subject',
    'must be left out: a rule of scope global counts everybody together',
  ],
  [{ rule: 'by address', subject: 'here' }, '#/subject', 'is not an IP address'],
  [{ rule: 'nobody', subject: 'a' }, '#/rule', 'there is no such rule in force'],
  [
    { rule: 'models', subject: 'a' },
    '#/rule',
    'counts by parts of a request (`by`, `per`), which a check does not have',
  ],
  [{ policy: 'twice-ip', subject: '10.0.0.1' }, '#/policy', 'names several rules; use the id of one of them'],
  [
    { rule: 'jobs', subject: 'a\ud800' },
    '#/subject',
    'has half of a surrogate pair, which is not a character',
  ],
  [
    { rule: 'jobs', subject: 'a', idempotencyKey: '\udc00' },
    '#/idempotencyKey',
    'has half of a surrogate pair, which is not a character',
  ],
  [{ rule: 'jobs', subject: 'a\0' }, '#/subject', 'has a NUL character, which Postgres cannot store'],
  [{ rule: 'jobs', subject: 'a', cost: 0 }, '#/cost', 'must be from 1 to 1000000000'],
  [{ rule: 'jobs', subject: 'a', colour: 1 }, '#/colour', 'is not a field'],
  [{ checks: [] }, '#/checks/0', 'is missing'],
  [
    {
      checks: [
        { rule: 'jobs', subject: 'a' },
        { rule: 'jobs', subject: 'a' },
      ],
    },
    '#/checks',
    'has two entries that name the same rule and subject; send one entry with the sum of their costs',
  ],
  [
    {
      checks: [
        { rule: 'jobs', subject: 'a' },
        { rule: 'all jobs', peek: true },
      ],
    },
    '#/checks',
    'must all peek, or none of them',
  ],
];

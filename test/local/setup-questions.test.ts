// The questions of `npm run setup`, answered as at a terminal.
import { PassThrough } from 'node:stream';
import { expect, it } from 'vitest';
import { askAnswers } from '../../local/setup/answers.ts';
import { openTerminal } from '../../local/setup/terminal.ts';

function answerWith(lines: readonly string[]) {
  const [input, output] = [new PassThrough(), new PassThrough()];
  // All lines at once, as when a person pastes them. No line may be lost before its question comes.
  input.end(lines.map((line) => `${line}\n`).join(''));
  const asked = (async () => {
    using terminal = openTerminal({ input, output });
    return await askAnswers(terminal.ask);
  })();
  return { asked, questions: () => String(output.read()) };
}

const UP_TO_REGIONS = ['https://api.example.com', 'postgres://user:word@db.example.com/weir'];
const EU = ['eu', 'https://eu.example.com', 'token-eu'];

it('the set-up asks for origin, database, regions and route, and locates a known region by its name', async () => {
  const { asked, questions } = answerWith([
    ...UP_TO_REGIONS,
    ...EU,
    '',
    'www.example.com/*',
    'example.com',
    'admin.example.com',
  ]);
  expect(await asked).toMatchObject({
    origin: 'https://api.example.com',
    databaseUrl: 'postgres://user:word@db.example.com/weir',
    regions: [
      {
        name: 'eu',
        url: 'https://eu.example.com',
        token: 'token-eu',
        latitude: 50.1,
        longitude: 8.7,
        share: 1,
      },
    ],
    route: 'www.example.com/*',
    zone: 'example.com',
    adminHost: 'admin.example.com',
    isTokenMade: true,
  });
  expect(questions()).toContain('REST token of Upstash in eu: ');
});

it('the set-up asks for the location of an unknown region, and for a zone only if there is a route', async () => {
  const home = ['home', 'https://home.example.com', 'token-home', '48.2', '16.4'];
  const answers = await answerWith([...UP_TO_REGIONS, ...home, ...EU, '', '', '']).asked;
  expect(answers.regions).toMatchObject([{ name: 'home', latitude: 48.2, longitude: 16.4 }, { name: 'eu' }]);
  expect([answers.route, answers.zone, answers.adminHost]).toEqual([undefined, undefined, undefined]);
});

it('the set-up names an answer that it cannot use', async () => {
  const { asked } = answerWith(['https://api.example.com', 'mysql://db.example.com', ...EU, '', '', '']);
  await expect(asked).rejects.toThrow('databaseUrl: must be a postgres:// URL');
});

it('the set-up names the question that got no answer', async () => {
  await expect(answerWith(UP_TO_REGIONS).asked).rejects.toThrow('there is no answer to: Region 1');
});

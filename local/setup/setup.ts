// `npm run setup`: prepares everything for `npm run deploy`. It checks all values first, says what it is going to do,
// and then does it.
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { renderTable } from '../../cli/table.ts';
import { parseWorkerConfig } from '../../src/config/config.ts';
import { applyMigrations } from '../migrations.ts';
import { StackError } from '../ports.ts';
import { type Answers, askAnswers, readAnswers } from './answers.ts';
import { checkServices, expectAllWell } from './checks.ts';
import { openTerminal, type Terminal } from './terminal.ts';
import { expectLogIn, putSecrets } from './wrangler.ts';
import { editWranglerFile } from './wrangler-file.ts';

const HELP = `npm run setup -- [--file FILE] [--env staging] [--config wrangler.toml] [--dry-run] [--yes]

  --file FILE    a JSON file: origin, databaseUrl, regions (name, url, token, share, latitude, longitude), and if you
                 like adminToken, route, zone, adminHost; without it, each is asked for
  --env NAME     an environment of wrangler.toml, such as staging
  --config FILE  the file to write the public part to (wrangler.toml)
  --dry-run      check everything and say what would be done
  --yes          do not ask before it is done`;

const { values } = parseArgs({
  options: {
    file: { type: 'string' },
    env: { type: 'string' },
    config: { type: 'string', default: 'wrangler.toml' },
    'dry-run': { type: 'boolean', default: false },
    yes: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

async function main(): Promise<void> {
  if (values.help) return console.log(HELP);
  using terminal = openTerminal({ input: process.stdin, output: process.stdout });
  const answers = values.file === undefined ? await askAnswers(terminal.ask) : readAnswers(values.file);
  const secrets = secretsOf(answers);
  expectConfig(answers, secrets);
  await expectLogIn();
  const findings = await checkServices(answers);
  for (const line of renderTable(
    findings.map(({ part, check, state, found }) => [part, check, state, found]),
  ))
    console.log(line);
  expectAllWell(findings);
  const before = readFileSync(values.config, 'utf8');
  const after = editWranglerFile(before, { ...answers, environment: values.env });
  announce(answers, { before, after, secrets });
  if (values['dry-run']) return console.log('\nnothing was changed: this was a dry run');
  if (!values.yes && !(await isConfirmed(terminal))) return console.log('nothing was changed');
  await carryOut(answers, after, secrets);
}

const secretsOf = ({ regions, databaseUrl, adminToken }: Answers) => ({
  REGIONS: JSON.stringify(regions),
  DATABASE_URL: databaseUrl,
  ADMIN_TOKEN: adminToken,
});

/** Parses the values as the Worker will. Setup refuses, by name, what the Worker would refuse. */
function expectConfig({ origin, adminHost }: Answers, secrets: ReturnType<typeof secretsOf>): void {
  const unused = new Proxy({}, { get: () => () => {} });
  const services = origin.startsWith('service:') ? { [origin.slice('service:'.length)]: unused } : {};
  try {
    parseWorkerConfig({
      ...secrets,
      ...services,
      ...plainHttp(),
      RULES: unused,
      ORIGIN_URL: origin,
      ...(adminHost !== undefined && { ADMIN_HOST: adminHost }),
    });
  } catch (error) {
    throw new StackError(`the Worker would not start with this: ${(error as Error).message}`);
  }
}

/** Whoever wants plain http has said so in the file, and setup leaves that line as it is. */
function plainHttp() {
  const said = /^PLAIN_HTTP = "(\w+)"$/m.exec(readFileSync(values.config, 'utf8'))?.[1];
  return said === undefined ? {} : { PLAIN_HTTP: said };
}

interface Announced {
  readonly before: string;
  readonly after: string;
  readonly secrets: Readonly<Record<string, string>>;
}

function announce({ databaseUrl }: Answers, { before, after, secrets }: Announced): void {
  const { host, pathname } = new URL(databaseUrl);
  const known = new Set(before.split('\n'));
  const added = after.split('\n').filter((line) => !known.has(line));
  const where = values.env === undefined ? '' : ` of the environment ${values.env}`;
  console.log(`\nThis is what setup does:`);
  console.log(`1. write to ${values.config}: ${added.length === 0 ? 'nothing, it is as it should be' : ''}`);
  for (const line of added) console.log(`     ${line}`);
  console.log(`2. set the secrets ${Object.keys(secrets).join(', ')}${where} through wrangler`);
  console.log(`3. apply the migrations to ${host}${pathname}`);
}

async function carryOut(
  { databaseUrl, adminToken, isTokenMade, adminHost }: Answers,
  text: string,
  secrets: Readonly<Record<string, string>>,
): Promise<void> {
  writeFileSync(values.config, text);
  console.log(`\nwrote ${values.config}`);
  await putSecrets(secrets, values.env);
  console.log('set the secrets');
  const { applied } = await applyMigrations(databaseUrl);
  console.log(`applied ${applied.length} migrations`);
  const flag = values.env === undefined ? '' : ` -- --env ${values.env}`;
  console.log(`\nNext: npm run deploy${flag}`);
  console.log(`Then: ADMIN_TOKEN=… npm run smoke -- https://${adminHost ?? 'THE-URL-IT-PRINTS'}`);
  if (isTokenMade) console.log(`Keep the admin token, it is shown only now: ${adminToken}`);
}

const isConfirmed = async ({ ask }: Terminal) => /^y(es)?$/i.test(await ask('\nGo on? (y/n) '));

try {
  await main();
} catch (error) {
  if (!(error instanceof StackError)) throw error;
  console.error(`weir: ${error.message}`);
  process.exitCode = 1;
}

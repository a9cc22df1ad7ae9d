// Makes a collection of the admin route from its declaration: list, create, get, replace, patch, delete. A change is
// saved in one transaction, and published before it is answered.

import * as z from 'zod';
import type { Values } from '../../authoring/bodies.ts';
import { createRepository, type Row, type Target } from '../../rules/tables/repository.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { addOperation, type Call, json, jsonAnswer } from '../operation.ts';
import { badCursor, pageOf, pageQuery, parseCursor, toCursor } from '../paging.ts';
import { notFound, sqlStateOf } from '../problems.ts';
import { expectRoom, type PublishedChange, publishChange, versionHeader } from '../publish-change.ts';
import {
  allowedRevisions,
  applyPatch,
  changedSince,
  expectFits,
  isKnown,
  type Save,
  takeChanges,
  toETag,
  toShown,
} from './changes.ts';
import { type Collection, canBeId, type MissingRow } from './declaration.ts';

const ETAG = { ETag: 'The revision, for If-Match and If-None-Match.' };
const WRITTEN = {
  ...ETAG,
  'X-Weir-Rules-Version': 'The version of the rules that holds this change; absent if it is not published.',
};
const warnings = z
  .array(z.string())
  .optional()
  .describe('Probable mistakes, and changes that are not in force yet. Absent if there are none.');

const header = (name: string, about: string) => z.object({ [name]: z.string().optional().describe(about) });
const ifMatch = header('If-Match', 'Refuse the change (412) unless the row still has this ETag.');
const ifNoneMatch = header('If-None-Match', 'Answer 304 if the row still has this ETag.');

/** `list entry`: ListEntry and ListEntries. */
function namesOf(noun: string) {
  const one = noun.replace(/(?:^| )(\w)/g, (_, letter: string) => letter.toUpperCase());
  return { one, many: one.endsWith('y') && !one.endsWith('ey') ? `${one.slice(0, -1)}ies` : `${one}s` };
}

const warningsOf = ({ warnings }: PublishedChange) => (warnings.length > 0 ? { warnings } : {});

const withWarning = (change: PublishedChange, missing: MissingRow | undefined): PublishedChange =>
  missing ? { ...change, warnings: [missing.warning, ...change.warnings] } : change;

/** Class 22: Postgres could not read a value. */
const isBadValue = (error: unknown) => sqlStateOf(error)?.startsWith('22') === true;

const targetOf = ({ params: { id }, actor, request }: Call<unknown, { id: string }, unknown>): Target => ({
  id,
  actor: actor.name,
  revisions: allowedRevisions(request),
});

export function addCollection(app: AdminApp, services: AdminServices, collection: Collection): void {
  const { path, noun, bodies, order, filters, id: idColumn } = collection;
  const repository = createRepository(services.database, collection);
  const { one: name, many } = namesOf(noun);
  const show = (row: Row) => toShown(bodies, row);
  const idOf = (row: Row) => String(row[idColumn.name]);
  const bytesOf = (row: Values) => collection.bytesOf?.(row) ?? 0;

  const publish = (id: string) =>
    publishChange(services, collection.concerns === 'all' ? 'all' : collection.concerns ? [id] : []);

  const find = async (id: string): Promise<Row> => {
    const row = canBeId(collection, id) ? await repository.get(id) : undefined;
    if (row === undefined) throw notFound(noun);
    return row;
  };

  const saveWith =
    (missing: MissingRow | undefined): Save =>
    async (target, before, values) => {
      await expectRoom(services.database, bytesOf({ ...before, ...values }) - bytesOf(before));
      return repository.update(target, values, missing?.statement);
    };

  const answerChange = async (row: Row, missing: MissingRow | undefined): Promise<Response> => {
    const change = withWarning(await publish(idOf(row)), missing);
    const headers = { ETag: toETag(row.revision), ...versionHeader(change) };
    return json({ ...show(row), ...warningsOf(change) }, 200, headers);
  };

  const all = { group: path };
  const one = {
    group: path,
    params: z.object({ id: z.string().describe(`The ${idColumn.name} of the ${noun}.`) }),
    requestHeaders: ifMatch,
  };
  const changed = bodies.shown.extend({ warnings }).meta({ id: `${bodies.name}Changed` });
  const created = bodies.created.extend({ warnings }).meta({ id: `${bodies.name}Created` });

  addOperation(
    app,
    {
      ...all,
      id: `list${many}`,
      call: `GET /${path}`,
      summary: `List ${path}`,
      description: 'In pages: send `nextCursor` back as `cursor` until it is null.',
      query: z.strictObject({
        ...pageQuery(200),
        ...Object.fromEntries(Object.entries(filters).map(([name, { schema }]) => [name, schema])),
      }),
      says: 'A page',
      answer: pageOf(`${bodies.name}Page`, bodies.shown),
    },
    async ({ query: { limit, cursor, ...given } }) => {
      const after = cursor === undefined ? undefined : parseCursor(cursor, order.length);
      const where = Object.entries(given).flatMap(
        ([name, value]) => (value === undefined ? undefined : filters[name]?.where(String(value))) ?? [],
      );
      const { rows, next } = await repository.page({ where, limit, after }).catch((error) => {
        throw after && isBadValue(error) ? badCursor() : error;
      });
      return { items: rows.map(show), nextCursor: next ? toCursor(next) : null };
    },
  );

  addOperation(
    app,
    {
      ...all,
      id: `create${name}`,
      call: `POST /${path}`,
      summary: `Create a ${noun}`,
      body: bodies.create,
      answers: { 201: jsonAnswer('Created', created, { ...WRITTEN, Location: `Where the ${noun} is.` }) },
      problems: [409],
    },
    async ({ body, actor, request }) => {
      expectFits(collection, services, { values: body });
      const made = collection.prepare?.(body, services.now()) ?? { values: body };
      const { values, shownOnce = {} } = await made;
      await expectRoom(services.database, bytesOf(values));
      const missing = await collection.addMissing?.(values, services);
      const row = await repository.insert(actor.name, values, missing?.statement);
      const change = withWarning(await publish(idOf(row)), missing);
      return json({ ...show(row), ...shownOnce, ...warningsOf(change) }, 201, {
        ETag: toETag(row.revision),
        Location: `${new URL(request.url).pathname}/${encodeURIComponent(idOf(row))}`,
        ...versionHeader(change),
      });
    },
  );

  addOperation(
    app,
    {
      ...one,
      id: `get${name}`,
      call: `GET /${path}/{id}`,
      summary: `Get a ${noun}`,
      requestHeaders: ifNoneMatch,
      answers: {
        200: jsonAnswer(`The ${noun}`, bodies.shown, ETAG),
        304: { description: 'It has not changed' },
      },
      problems: [404],
    },
    async ({ params, request }) => {
      const row = await find(params.id);
      const headers = { ETag: toETag(row.revision) };
      if (isKnown(request, row.revision)) return new Response(null, { status: 304, headers });
      return json(show(row), 200, headers);
    },
  );

  addOperation(
    app,
    {
      ...one,
      id: `replace${name}`,
      call: `PUT /${path}/{id}`,
      summary: `Replace a ${noun}`,
      description: 'Fields that are left out get their defaults, so `{}` sets every field to its default.',
      body: bodies.replace,
      answers: { 200: jsonAnswer('Replaced', changed, WRITTEN) },
      problems: [404, 409, 412],
    },
    async (call) => {
      const target = targetOf(call);
      const before = await find(target.id);
      const { values, revisions } = takeChanges({
        collection,
        deployment: services,
        target,
        before,
        given: call.body,
      });
      const missing = await collection.addMissing?.(values, services);
      const row = await saveWith(missing)({ ...target, revisions }, before, values);
      if (row === undefined) throw changedSince(await find(target.id));
      return answerChange(row, missing);
    },
  );

  addOperation(
    app,
    {
      ...one,
      id: `patch${name}`,
      call: `PATCH /${path}/{id}`,
      summary: `Change fields of a ${noun}`,
      description:
        'Only the fields that are given change, each as a whole. The result must be valid as a whole.',
      body: bodies.patch,
      answers: { 200: jsonAnswer('Changed', changed, WRITTEN) },
      problems: [404, 409, 412],
    },
    async (call) => {
      const given = call.body;
      const missing = await collection.addMissing?.(given, services);
      const save = saveWith(missing);
      const change = { collection, deployment: services, target: targetOf(call), given, find, save };
      return answerChange(await applyPatch(change), missing);
    },
  );

  addOperation(
    app,
    {
      ...one,
      id: `delete${name}`,
      call: `DELETE /${path}/{id}`,
      summary: `Delete a ${noun}`,
      answers: {
        204: { description: 'Deleted' },
        200: jsonAnswer('Deleted, with warnings', z.strictObject({ warnings }).meta({ id: 'Warnings' })),
      },
      problems: [404, 409, 412],
    },
    async (call) => {
      const target = targetOf(call);
      const isRemoved = canBeId(collection, target.id) && (await repository.remove(target));
      if (!isRemoved) throw changedSince(await find(target.id));
      const change = await publish(target.id);
      if (change.warnings.length > 0) return json(warningsOf(change), 200, versionHeader(change));
      return new Response(null, { status: 204, headers: versionHeader(change) });
    },
  );
}

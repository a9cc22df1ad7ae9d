// Makes a collection of the admin route from its declaration: list, create, get, replace, patch, delete.
import type { Values } from '../../rules/tables/body-schemas.ts';
import { createRepository, type Row, type Target } from '../../rules/tables/repository.ts';
import { sqlStateOf } from '../postgres-problems.ts';
import { notFound } from '../problems.ts';
import { type PublishedChange, publishChange, versionHeader } from '../publish-change.ts';
import { expectRoom } from '../room.ts';
import type { AdminApp, AdminServices } from '../services.ts';
import { changedSince, json, toShown, warningsOf } from './answers.ts';
import { takeChanges } from './changes.ts';
import { badCursor, parseCursor, toCursor } from './cursors.ts';
import type { Brought, Collection } from './declaration.ts';
import { allowedRevisions, isKnown, toETag } from './etags.ts';
import { operationsOf } from './operations.ts';
import { applyPatch, type Save } from './patch.ts';

export function addCollection(app: AdminApp, services: AdminServices, collection: Collection): void {
  const { noun, bodies, order } = collection;
  const repository = createRepository(services.database, collection);
  const operations = operationsOf(collection);
  const show = (row: Row) => toShown(bodies, row);
  const idOf = (row: Row) => String(row[collection.idField]);
  const concerns = (id: string) =>
    collection.concerns === 'itself' ? [id] : collection.concerns === 'all' ? 'all' : [];
  const publish = (id: string) => publishChange(services, concerns(id));

  const find = async (id: string): Promise<Row> => {
    const row = collection.isId(id) ? await repository.get(id) : undefined;
    if (row === undefined) throw notFound(noun);
    return row;
  };

  const bytesOf = (row: Values) => collection.bytesOf?.(row) ?? 0;
  const saveWith =
    (brought: Brought | undefined): Save =>
    async (target, before, values) => {
      await expectRoom(services.database, bytesOf({ ...before, ...values }) - bytesOf(before));
      return repository.update(target, values, brought?.statement);
    };

  const answerChange = async (row: Row, brought: Brought | undefined): Promise<Response> => {
    const change = withWarning(await publish(idOf(row)), brought);
    return json({ ...show(row), ...warningsOf(change) }, 200, {
      ETag: toETag(row.revision),
      ...versionHeader(change),
    });
  };

  app.openapi(operations.list, async (c) => {
    const { limit, cursor, ...query } = c.req.valid('query');
    const after = cursor === undefined ? undefined : parseCursor(cursor, order.length);
    const where = collection.where(query).filter((condition) => condition !== undefined);
    const { rows, next } = await repository.page({ where, limit, after }).catch((error) => {
      throw after && isBadValue(error) ? badCursor() : error;
    });
    return json({ items: rows.map(show), nextCursor: next ? toCursor(next) : null });
  });

  app.openapi(operations.create, async (c) => {
    const body = c.req.valid('json');
    collection.expect?.(body, undefined);
    const { values, shownOnce } = collection.prepare
      ? await collection.prepare(body)
      : { values: body, shownOnce: {} };
    await expectRoom(services.database, bytesOf(values));
    const brought = await collection.bring?.(values);
    const row = await repository.insert(c.get('actor').name, values, brought?.statement);
    const change = withWarning(await publish(idOf(row)), brought);
    return json({ ...show(row), ...shownOnce, ...warningsOf(change) }, 201, {
      ETag: toETag(row.revision),
      Location: `${new URL(c.req.url).pathname}/${encodeURIComponent(idOf(row))}`,
      ...versionHeader(change),
    });
  });

  app.openapi(operations.get, async (c) => {
    const row = await find(c.req.valid('param').id);
    const headers = { ETag: toETag(row.revision) };
    if (isKnown(c.req.raw, row.revision)) return new Response(null, { status: 304, headers });
    return json(show(row), 200, headers);
  });

  app.openapi(operations.replace, async (c) => {
    const target = targetOf(c.req.valid('param').id, c.get('actor').name, c.req.raw);
    const before = await find(target.id);
    const { values, revisions } = takeChanges({ collection, target, before, given: c.req.valid('json') });
    const brought = await collection.bring?.(values);
    const row = await saveWith(brought)({ ...target, revisions }, before, values);
    if (row === undefined) throw changedSince(await find(target.id));
    return answerChange(row, brought);
  });

  app.openapi(operations.patch, async (c) => {
    const target = targetOf(c.req.valid('param').id, c.get('actor').name, c.req.raw);
    const given = c.req.valid('json');
    const brought = await collection.bring?.(given);
    const save = saveWith(brought);
    return answerChange(await applyPatch({ collection, target, given, find, save }), brought);
  });

  app.openapi(operations.remove, async (c) => {
    const target = targetOf(c.req.valid('param').id, c.get('actor').name, c.req.raw);
    const isRemoved = collection.isId(target.id) && (await repository.remove(target));
    if (!isRemoved) throw changedSince(await find(target.id));
    const change = await publish(target.id);
    if (change.warnings.length > 0) return json(warningsOf(change), 200, versionHeader(change));
    return new Response(null, { status: 204, headers: versionHeader(change) });
  });
}

const targetOf = (id: string, actor: string, request: Request): Target => ({
  id,
  actor,
  revisions: allowedRevisions(request),
});

const withWarning = (change: PublishedChange, brought: Brought | undefined): PublishedChange =>
  brought ? { ...change, warnings: [brought.warning, ...change.warnings] } : change;

/** Class 22: Postgres could not read a value. */
const isBadValue = (error: unknown) => sqlStateOf(error)?.startsWith('22') === true;

// Compares every answer with the OpenAPI document: a known operation, a declared status, the content type, and a body
// that matches the schema.
import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';

interface Media {
  readonly schema: object;
}

interface Described {
  readonly content?: Readonly<Record<string, Media>>;
}

interface Operation {
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly schema: object }[];
  readonly requestBody?: Described;
  readonly responses: Readonly<Record<string, Described>>;
}

type Operations = Readonly<Record<string, Operation>>;

export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Operations>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

export type Conformance = (request: Request, response: Response) => Promise<void>;

/** Throws if an answer differs from the document, and says how. */
export function createConformance(document: OpenApiDocument): Conformance {
  const validatorOf = validatorsFor(document);

  return async (request, response) => {
    const path = new URL(request.url).pathname;
    const [template, operations] = findPath(document, path) ?? [];
    const operation = operations?.[methodOf(request)];
    const where = `${request.method} ${template ?? path} → ${response.status}`;
    if (operation === undefined) return expectUndocumented(where, response);
    const described = operation.responses[response.status];
    if (described === undefined) throw new Error(`${where} is not in the document: ${await response.text()}`);
    if (request.method !== 'HEAD') await expectContent(where, described, response, validatorOf);
  };
}

/** Throws if the document does not offer the request: its operation, the names of its query, its body. */
export function createRequestConformance(document: OpenApiDocument): (request: Request) => Promise<void> {
  const validatorOf = validatorsFor(document);

  return async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    const operation = findPath(document, pathname)?.[1][methodOf(request)];
    const where = `${request.method} ${pathname}`;
    if (operation === undefined) throw new Error(`${where} is not in the document`);
    const offered = operation.parameters?.filter((parameter) => parameter.in === 'query') ?? [];
    for (const name of searchParams.keys())
      if (!offered.some((parameter) => parameter.name === name))
        throw new Error(`${where}: ${name} is not in the document`);
    const text = await request.text();
    const schema = operation.requestBody?.content?.['application/json']?.schema;
    if (text === '') return;
    if (schema === undefined) throw new Error(`${where} takes no body`);
    const validate = validatorOf(schema);
    if (!validate(JSON.parse(text))) throw new Error(`${where}: ${JSON.stringify(validate.errors)}`);
  };
}

/** An operation that is not in the document must not exist. */
async function expectUndocumented(where: string, response: Response): Promise<void> {
  if (![401, 403, 404, 405, 413, 429].includes(response.status))
    throw new Error(`${where}: no such operation`);
  if (response.headers.get('Content-Type') !== 'application/problem+json')
    throw new Error(`${where}: no problem`);
}

async function expectContent(
  where: string,
  { content = {} }: Described,
  response: Response,
  validatorOf: Validators,
): Promise<void> {
  const text = await response.text();
  const [type = ''] = (response.headers.get('Content-Type') ?? '').split(';');
  const media = content[type];
  if (Object.keys(content).length === 0 && text === '' && type === '') return;
  if (media === undefined) throw new Error(`${where}: ${type || 'no content type'} is not in the document`);
  const validate = validatorOf(media.schema);
  if (validate(type.endsWith('json') ? JSON.parse(text) : text)) return;
  throw new Error(`${where}: ${JSON.stringify(validate.errors)}\n${text}`);
}

type Validators = (schema: object) => ValidateFunction;

/** By the text of the schemas: most test files of a worker have the same document, and compiling it takes long. */
const validatorsByText = new Map<string, Validators>();

function validatorsFor({ components }: OpenApiDocument): Validators {
  const text = JSON.stringify(components);
  const validators = validatorsByText.get(text) ?? createValidators(components);
  validatorsByText.set(text, validators);
  return validators;
}

/** The document's schemas have their own base address, so that their references resolve. */
function createValidators(components: OpenApiDocument['components']): Validators {
  const ajv = new Ajv2020({ allErrors: true, strict: false });
  formats.default(ajv);
  ajv.addSchema({ $id: 'document', components });
  const compiled = new Map<string, ValidateFunction>();
  return (schema) => {
    const text = JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"document#/');
    const validate = compiled.get(text) ?? ajv.compile(JSON.parse(text));
    compiled.set(text, validate);
    return validate;
  };
}

/** Plain paths come before templates: `/rules/export` is not a rule. */
const findPath = ({ paths }: OpenApiDocument, path: string): [string, Operations] | undefined =>
  Object.entries(paths)
    .toSorted(([a], [b]) => Number(a.includes('{')) - Number(b.includes('{')))
    .find(([template]) => toPattern(template).test(path));

const toPattern = (template: string) =>
  new RegExp(`^${template.replace(/[.]/g, '\\.').replace(/\{[^}]+\}/g, '[^/]+')}$`);

const methodOf = ({ method }: Request) => (method === 'HEAD' ? 'get' : method.toLowerCase());

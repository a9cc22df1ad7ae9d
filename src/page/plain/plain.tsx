// The views at /_weir/plain/…, rendered by the Worker for people whose browser runs no script.
import type { Actor } from '../../admin/app.ts';
import { PLAIN_VIEWS, type PlainView, plainPath } from '../../core/page-paths.ts';
import { createAsk } from './ask.ts';
import { Layout, toHtml } from './layout.tsx';
import { PLAIN_RENDERERS } from './views.tsx';

export interface PlainOptions {
  readonly request: Request;
  readonly actor: Actor;
  readonly hasSession: boolean;
  readonly admin: (request: Request) => Promise<Response>;
  readonly health: () => Promise<Response>;
}

/** Undefined: the path is none of these views. */
export function plainViewOf(pathname: string): PlainView | undefined {
  return PLAIN_VIEWS.find((view) => pathname === plainPath(view));
}

export async function renderPlain(view: PlainView, options: PlainOptions): Promise<string> {
  const { request, actor, hasSession, admin, health } = options;
  const query = new URL(request.url).searchParams;
  const body = await PLAIN_RENDERERS[view]({ ask: createAsk({ admin, request }), query, health });
  return toHtml(
    <Layout view={view} actor={actor} hasSession={hasSession}>
      {body}
    </Layout>,
  );
}

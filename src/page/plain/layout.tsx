// The frame of the views that need no script, and what they are made of.
import type { Child, FC } from 'hono/jsx';
import type { Actor } from '../../admin/app.ts';
import { OWN_PREFIX } from '../../core/matching/resource.ts';
import { PLAIN_VIEWS, type PlainView, plainPath } from '../../core/page-paths.ts';
import type { Told } from './ask.ts';

export const FILES = `${OWN_PREFIX}/page`;

interface DocumentProps {
  readonly title: string;
  readonly children?: Child;
}

export const Document: FC<DocumentProps & { readonly head?: Child }> = ({ title, head, children }) => (
  <html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>{title}</title>
      <link rel="icon" href={`${FILES}/icon.svg`} />
      <link rel="stylesheet" href={`${FILES}/style.css`} />
      {head}
    </head>
    {children}
  </html>
);

export const toHtml = (document: { toString(): string }): string => `<!doctype html>${document.toString()}\n`;

export const titleOf = (view: string) => `${view.charAt(0).toUpperCase()}${view.slice(1)}`;

export const Who: FC<{ readonly actor: Actor; readonly hasSession: boolean }> = ({ actor, hasSession }) => (
  <form class="who" method="post" action={`${OWN_PREFIX}/logout`}>
    <span title={actor.role === 'admin' ? 'may change things' : 'may only read'}>
      {actor.name}
      {actor.role === 'read' ? ' (read only)' : ''}
    </span>
    {hasSession && (
      <button type="submit" class="quiet">
        Log out
      </button>
    )}
  </form>
);

interface LayoutProps {
  readonly view: PlainView;
  readonly actor: Actor;
  readonly hasSession: boolean;
  readonly children?: Child;
}

export const Layout: FC<LayoutProps> = ({ view, actor, hasSession, children }) => (
  <Document title={`${titleOf(view)} · Weir`}>
    <body>
      <header>
        <a class="brand" href={plainPath('overview')}>
          <img src={`${FILES}/icon.svg`} alt="" width="22" height="22" /> Weir
        </a>
        <nav aria-label="Views">
          {PLAIN_VIEWS.map((one) => (
            <a href={plainPath(one)} aria-current={one === view ? 'page' : undefined}>
              {titleOf(one)}
            </a>
          ))}
        </nav>
        <Who actor={actor} hasSession={hasSession} />
      </header>
      <main id="main">
        <div class="head">
          <h1>{titleOf(view)}</h1>
        </div>
        {children}
        <p class="hint">
          As of now: reload for newer numbers. Curves, callers, explain, history and every change need{' '}
          <a href={`${OWN_PREFIX}/`}>the page with JavaScript</a>, or the{' '}
          <a href={`${OWN_PREFIX}/admin/docs`}>admin API</a>.
        </p>
      </main>
    </body>
  </Document>
);

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => Child;
  readonly isNumber?: boolean;
}

interface TableProps<Row> {
  readonly caption: string;
  readonly rows: readonly Row[];
  readonly columns: readonly Column<Row>[];
}

/** A table whose columns have titles also where a narrow screen shows each row as a card. */
export const Table = <Row,>({ caption, rows, columns }: TableProps<Row>) => (
  <table>
    <caption class="hidden">{caption}</caption>
    <thead>
      <tr>
        {columns.map(({ title, isNumber }) => (
          <th scope="col" class={isNumber ? 'number' : undefined}>
            {title}
          </th>
        ))}
      </tr>
    </thead>
    <tbody>
      {rows.map((row) => (
        <tr>
          {columns.map(({ title, isNumber, cell }) => (
            <td data-title={title} class={isNumber ? 'number' : undefined}>
              {cell(row)}
            </td>
          ))}
        </tr>
      ))}
    </tbody>
  </table>
);

export const Badge: FC<{ readonly kind: string; readonly children?: Child }> = ({ kind, children }) => (
  <span class={`badge ${kind}`}>{children}</span>
);

/** What was told, or why not. */
export function shown<T>(told: Told<T>, show: (value: T) => Child): Child {
  return told.kind === 'told' ? (
    show(told.value)
  ) : (
    <p class="notice bad" role="alert">
      {told.trouble}
    </p>
  );
}

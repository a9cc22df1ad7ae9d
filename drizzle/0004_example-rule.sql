-- An example of a rule shipped as a migration: reviewed with the code that needs it, applied by
-- `npm run db:migrate`, in force within a minute, and in the history like every other change.
-- It is switched off: enable it, or write one of your own after its pattern
-- (`npx drizzle-kit generate --custom --name my-rule`).
insert into rules (name, resource, methods, scope, algorithm, "limit", window_seconds, message, enabled)
values (
  'example: exports', '/exports/*', '{POST}', 'user', 'sliding-window-counter', 10, 3600,
  'Ten exports an hour. Each of them may hold a million rows.', false
)
on conflict (name) do nothing;

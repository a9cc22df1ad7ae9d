// The least that a Hono Worker can do: it answers by itself.
import { Hono } from 'hono';

const app = new Hono();
app.all('*', (context) => context.text('hello'));

export default app;

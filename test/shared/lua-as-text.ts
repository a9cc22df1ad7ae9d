// What `[[rules]] type = "Text"` in wrangler.toml does for the Worker.
import { readFileSync } from 'node:fs';
import type { Plugin } from 'vite';

export const luaAsText: Plugin = {
  name: 'lua-as-text',
  load(id) {
    return id.endsWith('.lua') ? `export default ${JSON.stringify(readFileSync(id, 'utf8'))}` : undefined;
  },
};

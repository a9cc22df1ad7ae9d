// Draws docs/images/algorithms.svg: node --import ./local/lua-text.ts bench/pictures.ts
import { mkdirSync, writeFileSync } from 'node:fs';
import { drawStories } from './pictures/svg.ts';
import { tellStories } from './pictures/traffic.ts';

const folder = new URL('../docs/images/', import.meta.url);
mkdirSync(folder, { recursive: true });
const svg = drawStories(tellStories());
writeFileSync(new URL('algorithms.svg', folder), svg);
console.log(`docs/images/algorithms.svg: ${Math.ceil(svg.length / 1_024)} KB`);

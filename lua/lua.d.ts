// Lua sources are imported as text (see `rules` in wrangler.toml).
declare module '*.lua' {
  const text: string;
  export default text;
}

// Lua in front of a script that gives it another clock, for tests and benches: TIME is the last argument of the call, in
// milliseconds. An empty one stands for the real clock.
export const CLOCK = [
  'local real, at = redis, tonumber(table.remove(ARGV))',
  'local redis = { pcall = real.pcall }',
  'redis.call = function(name, ...)',
  "if name ~= 'TIME' or not at then return real.call(name, ...) end",
  "return { string.format('%d', math.floor(at / 1000)), string.format('%d', at % 1000 * 1000) } end",
].join(' ');

/** Redis expires keys by its own clock, so with another clock keys must not expire. */
export const WITHOUT_TTL = [
  'local timed = redis',
  'local redis = { pcall = timed.pcall }',
  'redis.call = function(name, key, value, ...)',
  "if name == 'SET' then return timed.call('SET', key, value) end",
  'if value then return timed.call(name, key, value, ...) end',
  'if key then return timed.call(name, key) end return timed.call(name) end',
].join(' ');

// Upstash's rule for scripts with `allow-key-locking`: every key touched must be in KEYS. Stock Redis has no such rule.
// So a line of Lua in front of the script replaces redis.call and redis.pcall, and checks the keys before a command
// runs.
import type { RedisLink, Reply } from './redis-link.ts';
import type { Prelude } from './scripts.ts';

// These reach keys that no argument names.
const DATABASE_WIDE = ['FLUSHDB', 'FLUSHALL', 'SWAPDB', 'KEYS', 'SCAN', 'RANDOMKEY'];
const WHEN = "in Lua scripts when the 'allow-key-locking' flag is set";

// Redis reports the line that raised the error, which would be in this prelude. So the guard looks up the caller's line
// and raises the error from a chunk that has as many lines. A tail call (`return redis.call(…)`) leaves no caller on
// the stack, so the guard also notes the line where `redis.call` was last looked up.
const GUARD = `
local redis = (function(raw, keysOf, wide)
  local declared, noted = {}, ''
  for _, key in ipairs(KEYS) do declared[key] = true end
  local function isDeclared(key)
    if type(key) == 'number' then key = string.format('%.17g', key) end
    return key == nil or declared[key]
  end
  local function problem(...)
    local args, count = {...}, select('#', ...)
    if type(args[1]) ~= 'string' then return nil end
    local name = string.upper(args[1])
    if wide[name] then return "ERR Database-wide commands are not allowed ${WHEN}" end
    local positions, keys = keysOf[name], {}
    if positions == nil then
      keys = raw.pcall('COMMAND', 'GETKEYS', ...)
    elseif positions then
      local last = positions[2]
      if last < 0 then last = count + last end
      for i = positions[1], last, positions[3] do keys[#keys + 1] = args[i + 1] end
    end
    for i = 1, #keys do
      if not isDeclared(keys[i]) then return "ERR Dynamic keys are not allowed ${WHEN}" end
    end
  end
  local function raise(failure, where)
    local line = tonumber(string.match(where, ':(%d+):')) or 1
    local thrower = loadstring(string.rep('\\n', line - 1) .. 'local e = ... error(e, 0)', '@user_script')
    thrower(raw.REDIS_VERSION_NUM and failure or failure.err)
  end
  local function attempt(...)
    local refused = problem(...)
    if refused then return {err = refused} end
    return raw.pcall(...)
  end
  local api = {pcall = attempt}
  function api.call(...)
    local reply = attempt(...)
    if type(reply) == 'table' and reply.err then
      local _, where = pcall(error, '', 3)
      raise(reply, where ~= '' and where or noted)
    end
    return reply
  end
  return setmetatable({}, {
    __index = function(_, name)
      if name == 'call' then
        local _, where = pcall(error, '', 3)
        noted = where
      end
      return api[name] or raw[name]
    end,
    __newindex = function() error('Attempt to modify a readonly table', 2) end
  })
end)`;

const ON_ONE_LINE = GUARD.trim().replace(/\s*\n\s*/g, ' ');

/** Asks Redis where its commands have their keys, and makes the guard for a script. */
export async function createKeyGuard(link: RedisLink): Promise<Prelude> {
  const positions = readPositions(await link.send(['COMMAND']));
  const wide = DATABASE_WIDE.map((name) => `${name}=true`).join(',');
  return (script) => `${ON_ONE_LINE}(redis, {${tableFor(script, positions)}}, {${wide}})`;
}

/**
 * The key positions of the commands that the script names. For any other command the guard asks Redis (COMMAND GETKEYS)
 * as it runs.
 */
function tableFor(script: string, positions: Map<string, string>): string {
  const words = new Set(script.toUpperCase().match(/[A-Z][A-Z0-9_]*/g));
  const named = [...words].filter((word) => positions.has(word));
  return named.map((word) => `${word}=${positions.get(word)}`).join(',');
}

/** Lua values by command: `{first,last,step}`, or `false` for a command without keys. */
function readPositions(reply: Reply): Map<string, string> {
  const positions = new Map<string, string>();
  for (const entry of Array.isArray(reply) ? reply : []) {
    const [name, , flags, first, last, step, , , , subcommands] = entry as Reply[];
    const moves = Array.isArray(flags) && flags.some((flag) => String(flag) === 'movablekeys');
    const hasSubcommands = Array.isArray(subcommands) && subcommands.length > 0;
    if (moves || hasSubcommands) continue;
    positions.set(String(name).toUpperCase(), first === '0' ? 'false' : `{${first},${last},${step}}`);
  }
  return positions;
}

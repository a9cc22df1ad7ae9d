-- layout: the same small counter (two windows, as sliding-window-counter has) stored in three ways, to compare
-- nothing but the storage. Only for the bench.
--
-- KEYS   value and hash: one key for the subject; keys: one for each rule
-- ARGV   [1] layout: value (all rules packed in one string), keys (a string for each), hash (a field for each)
--        [2] windowMs, then the id of each rule
-- reply  now, then the units of each rule in the current window
local layout, windowMs = ARGV[1], tonumber(ARGV[2])
local rules = #ARGV - 2
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local start = now - now % windowMs
local reply = { now }

local function count(i, from, current, previous)
  if from == start then
    current = current + 1
  else
    current, previous = 1, from == start - windowMs and current or 0
  end
  reply[i + 1] = current
  return start, current, previous
end

local function countPacked(i, packed)
  if not packed then return cmsgpack.pack(count(i)) end
  return cmsgpack.pack(count(i, cmsgpack.unpack(packed)))
end

if layout == 'value' then
  local value, flat, out = redis.call('GET', KEYS[1]), {}, {}
  if value then flat = { cmsgpack.unpack(value) } end
  for i = 1, rules do
    local id, at = ARGV[i + 2], 1
    while flat[at] and flat[at] ~= id do at = at + 4 end
    local to = i * 4 - 3
    out[to] = id
    out[to + 1], out[to + 2], out[to + 3] = count(i, flat[at + 1], flat[at + 2], flat[at + 3])
  end
  redis.call('SET', KEYS[1], cmsgpack.pack(unpack(out)), 'PX', start + 2 * windowMs - now)
elseif layout == 'keys' then
  local values = redis.call('MGET', unpack(KEYS))
  for i = 1, rules do
    redis.call('SET', KEYS[i], countPacked(i, values[i]), 'PX', start + 2 * windowMs - now)
  end
else
  -- The TTL is renewed only when it runs short; a field of its own says when that is, which saves a PTTL.
  local values = redis.call('HMGET', KEYS[1], 'expiry', unpack(ARGV, 3))
  local fields = {}
  for i = 1, rules do
    fields[i * 2 - 1], fields[i * 2] = ARGV[i + 2], countPacked(i, values[i + 1])
  end
  local short = not values[1] or values[1] - now < 2 * windowMs
  if short then fields[rules * 2 + 1], fields[rules * 2 + 2] = 'expiry', now + 4 * windowMs end
  redis.call('HSET', KEYS[1], unpack(fields))
  if short then redis.call('PEXPIRE', KEYS[1], 4 * windowMs) end
end
return reply

-- counters: judges the checks of one request and charges all of them, or none. The algorithms come from the
-- modules beside this file (`algorithms`, by id); this part knows keys, options and the two passes.
--
-- KEYS   each holds the counters of some rules for one subject; the last may be the memory of a request id
-- ARGV   [1] operation: take, peek (a take that changes nothing), refund, renew (of leases)
--        [2] now in epoch ms, or '' for the server's own clock
--        [3] number of the key that remembers this request's answer, or ''
--        then eight for each check:
--          key        number of its key in KEYS
--          algorithm  id of the algorithm
--          id         of this counter within its key: another rule, algorithm or window is another id
--          limit, windowMs
--          extra      burst, number of buckets, or lease id; '' for the default
--          cost       units to take, or to give back
--          options    '' or any of: want=N (units to lease beyond the cost, as far as there is room),
--                     block=MS (deny everything for so long once exceeded), denied (count denied requests
--                     too), log (never deny), at=MS (refund: when the charge was made)
-- reply  now, then six integers for each check:
--          allowed    1 or 0, by this check alone (renew: whether the lease was still held)
--          remaining  units that would still pass now
--          resetAt    epoch ms at which the whole limit is free again
--          retryMs    wait until the cost fits; 0 if it does, -1 if it never will
--          granted    units leased beyond the cost
--          delayMs    wait until its turn, for those that throttle
--
-- A key's value is a flat MessagePack stream: FORMAT, then for each counter its id, algorithm, expiry, end of
-- a block (0: none), number of state values, and those values. What is not understood counts as no state.
-- It is written whole with its TTL, so that no key is ever without one, and costs one command.
--
-- Two passes: everything is read, checked and judged before the first write, because Redis does not undo
-- what a script wrote before an error.
local FORMAT = 'weir1'
local FIRST, STRIDE, HEADER = 4, 8, 5
-- Products of units and milliseconds stay whole numbers up to here, with room for twice the capacity.
local LARGEST = 4503599627370496
-- These remember every unit for itself, or every bucket.
local MOST_UNITS = { ['sliding-window-log'] = 100000, concurrency = 100000 }
local MOST_BUCKETS = 100
-- Counters of rules that were changed or removed stay until they expire, but not more of them than this.
local MOST_STRANGERS = 64

local function whole(text)
  local number = tonumber(text)
  return number and number >= 1 and number <= LARGEST and number % 1 == 0 and number
end

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Reads one check from ARGV; nil and what is wrong with it if it cannot be used.
local function parse(at)
  local algorithm, extra, options = ARGV[at + 1], ARGV[at + 5], ARGV[at + 7]
  local check = { key = tonumber(ARGV[at]), id = ARGV[at + 2], algorithm = algorithm }
  check.limit, check.windowMs, check.cost = whole(ARGV[at + 3]), whole(ARGV[at + 4]), whole(ARGV[at + 6])
  if not algorithms[algorithm] then return nil, 'unknown algorithm' end
  if not KEYS[check.key] then return nil, 'key must be the number of a key' end
  if not check.limit then return nil, 'limit must be a whole number above 0' end
  if not check.windowMs then return nil, 'windowMs must be a whole number above 0' end
  if not check.cost then return nil, 'cost must be a whole number above 0' end
  if algorithm == 'concurrency' then
    if #extra ~= 16 then return nil, 'a lease id must have 16 characters' end
    check.extra = extra
  elseif extra ~= '' then
    check.extra = whole(extra)
    if not check.extra then return nil, 'burst and buckets must be whole numbers above 0' end
  end
  if MOST_UNITS[algorithm] and check.limit > MOST_UNITS[algorithm] then
    return nil, algorithm .. ' takes a limit of up to ' .. MOST_UNITS[algorithm]
  end
  if algorithm == 'sliding-window-buckets' and check.extra and check.extra > MOST_BUCKETS then
    return nil, 'there can be up to ' .. MOST_BUCKETS .. ' buckets'
  end
  local most = check.limit
  if algorithm ~= 'concurrency' and check.extra and check.extra > most then most = check.extra end
  if most * check.windowMs > LARGEST then return nil, 'limit times windowMs must stay below 2^52' end
  if options ~= '' then
    check.want = tonumber(string.match(options, 'want=(%d+)'))
    check.blockMs = tonumber(string.match(options, 'block=(%d+)'))
    check.at = tonumber(string.match(options, 'at=(%d+)'))
    check.countDenied = string.find(options, 'denied', 1, true)
    check.log = string.find(options, 'log', 1, true)
    if check.countDenied and algorithm == 'concurrency' then
      return nil, 'concurrency cannot count denied requests'
    end
  end
  return check
end

-- The counters in a key's value, as the flat list they are stored in; the first of them begins at 3.
local function decode(value)
  if value then
    local flat = { pcall(cmsgpack.unpack, value) }
    if flat[1] and flat[2] == FORMAT then return flat end
  end
  return { true, FORMAT }
end

-- Gives the check its state: a copy of what is stored, or an empty one.
local function find(check, flat)
  local state = {}
  check.state, check.blockedUntil = state, 0
  local at = 3
  while flat[at] do
    local count = flat[at + 4]
    if flat[at] == check.id then
      if flat[at + 1] ~= check.module.code then return end
      check.blockedUntil = flat[at + 3]
      for i = 1, count do state[i] = flat[at + HEADER - 1 + i] end
      return
    end
    at = at + HEADER + count
  end
end

-- The new value of a key, as a flat list, and when the last of its counters expires.
local function encode(flat, checks, key, now)
  local out, size, latest, strangers, own = { FORMAT }, 1, now, 0, {}
  for i = 1, #checks do
    local check = checks[i]
    if check.key == key and check.changed then
      local state, expiry = check.state, math.max(check.resetAt, check.blockedUntil)
      own[check.id] = true
      if expiry > now then
        out[size + 1], out[size + 2], out[size + 3] = check.id, check.module.code, expiry
        out[size + 4], out[size + 5] = check.blockedUntil, #state
        for j = 1, #state do out[size + HEADER + j] = state[j] end
        size = size + HEADER + #state
        if expiry > latest then latest = expiry end
      end
    end
  end
  local at = 3
  while flat[at] do
    local length, expiry = HEADER + flat[at + 4], flat[at + 2]
    if expiry > now and not own[flat[at]] and strangers < MOST_STRANGERS then
      for i = 0, length - 1 do out[size + 1 + i] = flat[at + i] end
      size, strangers = size + length, strangers + 1
      if expiry > latest then latest = expiry end
    end
    at = at + length
  end
  return out, latest
end

local function wait(check, now)
  return check.module.wait(check.state, now, check.limit, check.windowMs, check.extra, check.cost)
end

-- First pass: what this check alone would answer. Changes nothing that is stored.
local function judge(check, now)
  local room, capacity, delayMs =
    check.module.advance(check.state, now, check.limit, check.windowMs, check.extra)
  check.room, check.capacity, check.delayMs, check.granted = room, capacity, delayMs or 0, 0
  if check.cost > capacity then
    check.retryMs = -1
  else
    check.retryMs = math.max(check.cost > room and wait(check, now) or 0, check.blockedUntil - now, 0)
  end
  check.fits = check.retryMs == 0
end

-- Second pass: moves the counter by so many units; by 0, it only tells when the limit is free again.
local function charge(check, units, now)
  if units ~= 0 then check.changed = true end
  check.room = check.room - units
  check.resetAt = check.module.charge(
    check.state, units, check.at or now, now, check.limit, check.windowMs, check.extra
  )
end

local function admit(check, now)
  if check.want then check.granted = math.min(check.want, check.room - check.cost) end
  charge(check, check.cost + check.granted, now)
end

-- What the rule that denies asks for: to count this request too, up to a debt of its whole capacity; and to
-- block from now on.
local function deny(check, now)
  local units = check.countDenied and math.min(check.cost, check.room + check.capacity) or 0
  charge(check, math.max(0, units), now)
  if check.retryMs < 0 then return end
  if check.blockMs and check.blockedUntil <= now then
    check.blockedUntil, check.changed = now + check.blockMs, true
  end
  check.retryMs = math.max(check.cost > check.room and wait(check, now) or 0, check.blockedUntil - now)
end

-- Returns for how long the answer holds: the longest window once charged, the longest wait if denied.
local function take(checks, now, dry)
  local passes, holdsMs = true, 0
  for i = 1, #checks do
    judge(checks[i], now)
    passes = passes and (checks[i].fits or checks[i].log)
  end
  for i = 1, #checks do
    local check = checks[i]
    if dry or (not passes and (check.fits or check.log)) then
      charge(check, 0, now)
    elseif check.fits then
      admit(check, now)
    else
      deny(check, now)
    end
    holdsMs = math.max(holdsMs, passes and check.windowMs or check.retryMs)
  end
  return holdsMs
end

local function refund(checks, now)
  for i = 1, #checks do
    local check = checks[i]
    judge(check, now)
    charge(check, -check.cost, now)
    judge(check, now)
    check.fits, check.retryMs = true, 0
  end
end

local function renew(checks, now)
  for i = 1, #checks do
    local check = checks[i]
    judge(check, now)
    local held = check.state.held
    check.fits, check.retryMs = held > 0, 0
    charge(check, held, now)
  end
end

local function answer(checks, now)
  local reply = { now }
  for i = 1, #checks do
    local check, at = checks[i], #reply
    reply[at + 1] = check.fits and 1 or 0
    reply[at + 2] = check.blockedUntil > now and 0 or math.max(0, check.room)
    reply[at + 3] = math.max(check.resetAt, check.blockedUntil)
    reply[at + 4], reply[at + 5], reply[at + 6] = check.retryMs, check.granted, check.delayMs
  end
  return reply
end

local operation = ARGV[1]
local count = (#ARGV - FIRST + 1) / STRIDE
if count < 1 or count % 1 ~= 0 then
  return redis.error_reply('WEIR_BAD_ARGUMENT expected 3 arguments and 8 for each check')
end

local checks, modules = {}, {}
for i = 1, count do
  local check, problem = parse(FIRST + (i - 1) * STRIDE)
  if not check then return redis.error_reply('WEIR_BAD_ARGUMENT check ' .. i .. ': ' .. problem) end
  local algorithm = check.algorithm
  modules[algorithm] = modules[algorithm] or algorithms[algorithm]()
  check.module = modules[algorithm]
  checks[i] = check
end

local now = ARGV[2] == '' and clock() or whole(ARGV[2])
if not now then return redis.error_reply('WEIR_BAD_ARGUMENT now must be a whole number above 0') end

local values = redis.call('MGET', unpack(KEYS))
local memory = tonumber(ARGV[3])
if memory and values[memory] then
  local known = { pcall(cmsgpack.unpack, values[memory]) }
  if known[1] and known[2] == FORMAT and #known == 3 + 6 * count then
    return { unpack(known, 3) }
  end
end

local counters = {}
for i = 1, count do
  local key = checks[i].key
  counters[key] = counters[key] or decode(values[key])
  find(checks[i], counters[key])
end

local holdsMs = 0
if operation == 'take' then
  holdsMs = take(checks, now, false)
elseif operation == 'peek' then
  take(checks, now, true)
elseif operation == 'refund' then
  refund(checks, now)
elseif operation == 'renew' then
  for i = 1, count do
    if checks[i].algorithm ~= 'concurrency' then
      return redis.error_reply('WEIR_BAD_ARGUMENT check ' .. i .. ': only leases can be renewed')
    end
  end
  renew(checks, now)
else
  return redis.error_reply('WEIR_BAD_ARGUMENT unknown operation')
end

local reply = answer(checks, now)
local written = false
for key = 1, #KEYS do
  local flat, changed = counters[key], false
  for i = 1, count do changed = changed or (checks[i].key == key and checks[i].changed) end
  if changed then
    local out, latest = encode(flat, checks, key, now)
    written = true
    if latest > now then
      redis.call('SET', KEYS[key], cmsgpack.pack(unpack(out)), 'PX', latest - now)
    else
      redis.call('DEL', KEYS[key])
    end
  end
end
if memory and written and holdsMs > 0 then
  redis.call('SET', KEYS[memory], cmsgpack.pack(FORMAT, unpack(reply)), 'PX', holdsMs)
end
return reply

-- counters: judges the checks of one request and charges all of them, or none. The algorithms are in
-- the files beside this one; this part knows keys, options and operations.
--
-- KEYS   each holds the counters of some rules for one subject; one may be the memory of a request id
-- ARGV   [1] operation: take, peek (a take that changes nothing), refund, settle (charges what a request cost beyond
--            what it was charged, room or not, up to a debt of the whole capacity), renew (of leases); it may be
--            followed by the words keys and options (see below), now=MS (for tests; else the server's own clock) and
--            memory=N (number of the key that remembers the answer to this request; not for settle)
--        then four to six for each check:
--          key        number of its key in KEYS; only if [1] has the word keys, else all are in the first
--          algorithm  id of the algorithm
--          id         of this counter within its key: another rule, algorithm or window is another id
--          limit, windowMs
--          options    only if [1] has the word options: '' or any of: cost=N (units to take, give back or settle; 1 if
--                     left out), extra=N (burst or number of buckets), want=N (units to lease beyond the cost,
--                     as far as there is room), block=MS (deny everything for so long once exceeded), denied
--                     (count denied requests too), log (never deny), at=MS (refund, settle: when the charge was made);
--                     relief=N since=MS full=N (take: another region has charged itself so many units that
--                     were charged here before that moment, the limit in all regions together; kept also if the take is denied);
--                     and last, lease=ID
-- reply  now, then six integers for each check:
--          allowed    1 or 0, by this check alone (renew: whether the lease was still held)
--          remaining  units that would still pass now
--          resetAt    epoch ms at which the whole limit is free again
--          retryMs    of a take or peek: wait until the cost fits; 0 if it does, -1 if it never will
--          granted    units leased beyond the cost
--          delayMs    wait until its turn, for those that throttle
--        or, if a take passes and all the others are 1 and 0, in short: now, then remaining and resetAt for each
--
-- An algorithm is three blocks of code that are put in place of --@read, --@charge and --@relieve below when the script
-- is composed: `read` brings the state a, b, c up to now and sets room, capacity, wait (if the cost does not fit)
-- and delayMs (if it has any); `charge` moves the state by `units` and sets resetAt; if there is a chargedAt, only if
-- the window of that moment is still there, and only that one; `relieve` takes off what another region has taken
-- over. One that needs functions of its own is a module instead, which returns these three as functions; `load` makes it
-- when a check needs it.
-- Neither touches Redis. Waits and levels are whole numbers: (a - a % b) / b is a divided by b and rounded down,
-- (a + -a % b) / b is rounded up, both exact.
--
-- A key's value is a flat MessagePack stream: FORMAT, then seven values for each counter: its id, the code of
-- its algorithm, its expiry, the end of a block (0: none), and three values of state. What is not understood
-- counts as no state. A key is written whole and with its TTL: it is never without one, and that is one command.
--
-- All reading and judging happens in memory, before the first write, because Redis does not undo what a script
-- wrote before an error. A take is first worked out as if it passes; if a check then denies it, that is thrown
-- away and all is worked out again as denied.
--
-- One straight piece on purpose: a function costs Redis time in each run by being made, and again when called.
local FORMAT = 'weir1'
local FIRST, VALUES = 2, 7
-- Products of units and milliseconds stay whole numbers up to here, with room for twice the capacity.
local LARGEST = 4503599627370496
-- The longest log.
local MOST_UNITS = 100000
-- Times fit into 6 bytes: windows of up to 34 years, until the year 6429.
local LONGEST, LATEST = 1099511627776, 140737488355328
-- A key holds so many values at most (500 counters): more than twice that does not fit on the stack at once.
-- Beyond, the counter that expires first makes room.
local MOST_VALUES = 3500

local ARGV, KEYS, call = ARGV, KEYS, redis.call
local operation, now, memory, hasKeys, hasOptions, arguments = ARGV[1], nil, nil, nil, nil, 4
local isAfterwards
if operation and operation ~= 'take' then
  hasKeys = string.find(operation, ' keys', 1, true)
  hasOptions = string.find(operation, ' options', 1, true)
  arguments = 4 + (hasKeys and 1 or 0) + (hasOptions and 1 or 0)
  now = tonumber(string.match(operation, ' now=(%S+)')) or string.find(operation, ' now=', 1, true) and 0
  memory = tonumber(string.match(operation, ' memory=(%S+)'))
  operation = string.match(operation, '^%a+')
  if operation == 'settle' then memory = nil end
  isAfterwards = operation == 'refund' or operation == 'settle'
end
local isTake, count = operation == 'take', (#ARGV - FIRST + 1) / arguments
if count < 1 or count % 1 ~= 0 then
  return redis.error_reply('WEIR_BAD_ARGUMENT expected 1 argument and ' .. arguments .. ' for each check')
end
if memory and not KEYS[memory] then
  return redis.error_reply('WEIR_BAD_ARGUMENT memory must be the number of a key')
end
if not isTake and not isAfterwards and operation ~= 'peek' and operation ~= 'renew' then
  return redis.error_reply('WEIR_BAD_ARGUMENT unknown operation')
end
if not now then
  local time = call('TIME')
  local micros = time[2] + 0
  now = time[1] * 1000 + (micros - micros % 1000) / 1000
elseif not (now >= 1 and now <= LATEST and now % 1 == 0) then
  return redis.error_reply('WEIR_BAD_ARGUMENT now must be a whole number above 0')
end

local values = KEYS[2] and call('MGET', unpack(KEYS)) or KEYS[1] and call('MGET', KEYS[1]) or {}
if memory and values[memory] then
  local known = { pcall(cmsgpack.unpack, values[memory]) }
  if known[2] == FORMAT and #known == 3 + 6 * count then return { unpack(known, 3) } end
end

-- The counters of each key as the flat list they are stored in: 1 once changed, FORMAT, and then the counters.
local lists = {}
-- Worked out as if it passes and the answer is short; if not, once more from the start.
local passes, isShort, reply = isTake, isTake and not memory, { now, 0, 0 }
local i = 0

while i < count do
  local at, key, options = FIRST + i * arguments, 1, ''
  i = i + 1

  -- The check's arguments. Text that is no number at all ends the script here.
  if hasKeys then
    key, at = tonumber(ARGV[at]), at + 1
  end
  if hasOptions then options = ARGV[at + 4] end
  local algorithm, id, limit, windowMs = ARGV[at], ARGV[at + 1], ARGV[at + 2] + 0, ARGV[at + 3] + 0
  local cost, extra = 1, nil
  local want, blockMs, chargedAt, countsDenied, isLog = 0, nil, nil, nil, nil
  local relief, since, fullLimit
  local code
  --@code
  if options ~= '' or not (isTake and code and values[key] ~= nil and limit >= 1 and limit % 1 == 0
    and windowMs >= 1 and windowMs <= LONGEST and windowMs % 1 == 0 and limit * windowMs <= LARGEST
    and (limit <= MOST_UNITS or algorithm ~= 'sliding-window-log')) then
    local wrong = load('refusal')(at, key, options, operation, code)
    if wrong then return redis.error_reply('WEIR_BAD_ARGUMENT check ' .. i .. ': ' .. wrong) end
    -- A lease id comes last and may hold anything: it must not be taken for other options.
    local lease = string.find(options, 'lease=', 1, true)
    if lease then options, extra = string.sub(options, 1, lease - 1), string.sub(options, lease + 6) end
    cost = tonumber(string.match(options, 'cost=(%S+)')) or 1
    extra = extra or tonumber(string.match(options, 'extra=(%S+)'))
    want = tonumber(string.match(options, 'want=(%S+)')) or 0
    blockMs = tonumber(string.match(options, 'block=(%S+)'))
    chargedAt = isAfterwards and (tonumber(string.match(options, 'at=(%S+)')) or now)
    countsDenied = string.find(options, 'denied', 1, true)
    isLog = string.find(options, 'log', 1, true)
    relief = isTake and tonumber(string.match(options, 'relief=(%S+)'))
    if relief then
      since, fullLimit = tonumber(string.match(options, 'since=(%S+)')), tonumber(string.match(options, 'full=(%S+)'))
    end
  end

  -- Its counter.
  local list = lists[key]
  if not list then
    list = values[key] and { pcall(cmsgpack.unpack, values[key]) } or {}
    if list[2] ~= FORMAT or (#list - 2) % VALUES ~= 0 then list = { true, FORMAT } end
    lists[key] = list
  end
  local size = #list
  local place, blockedUntil, a, b, c = 3, 0, nil, nil, nil
  while place < size and list[place] ~= id do place = place + VALUES end
  if list[place + 1] == code then
    blockedUntil, a, b, c = list[place + 3], list[place + 4], list[place + 5], list[place + 6]
  end

  -- What this check alone says.
  local room, capacity, wait, delayMs
  --@read
  if relief then
    --@relieve
    --@read
  end
  local retryMs = 0
  if cost > capacity then
    retryMs = -1
  elseif cost > room then
    retryMs = wait
  end
  if blockedUntil > now and retryMs >= 0 then retryMs = math.max(retryMs, blockedUntil - now) end
  local fits = retryMs == 0

  if passes and not fits and not isLog then
    passes, isShort, lists, i = false, false, {}, 0
  elseif isShort and (not fits or want > 0 or delayMs) then
    isShort, lists, i = false, {}, 0
  else
    -- By how much the counter moves, and whether it blocks from now on.
    local units, granted, blocks = 0, 0, false
    if isTake and fits then
      if passes then
        if want > 0 then granted = math.min(want, room - cost) end
        units = cost + granted
      end
    elseif isTake and (passes or not isLog) then
      -- A denied request counts only where it was denied, and up to a debt of the whole capacity.
      if countsDenied and retryMs > 0 then units = math.max(0, math.min(cost, room + capacity)) end
      blocks = blockMs and retryMs > 0 and blockedUntil <= now
      if blocks then blockedUntil = now + blockMs end
    elseif operation == 'refund' then
      units = -cost
    elseif operation == 'settle' then
      units = math.max(0, math.min(cost, room + capacity))
    elseif operation == 'renew' then
      -- A lease that is still held is taken again.
      units, fits = b, b > 0
    end
    local resetAt
    --@charge
    local expiry = resetAt > blockedUntil and resetAt or blockedUntil
    if units ~= 0 or blocks or relief then
      if place > MOST_VALUES then
        place = 3
        for other = 3, size, VALUES do
          if list[other + 2] < list[place + 2] then place = other end
        end
      end
      list[1] = 1
      list[place], list[place + 1], list[place + 2], list[place + 3] = id, code, expiry, blockedUntil
      list[place + 4], list[place + 5], list[place + 6] = a, b or 0, c or 0
    end

    -- Its answer.
    if fits and not isAfterwards then
      room = room - units
    elseif units ~= 0 or blocks then
      local delayedMs = delayMs
      --@read
      if retryMs >= 0 then retryMs = math.max(cost > room and wait or 0, blockedUntil - now) end
      if isTake then delayMs = delayedMs end
    end
    if isAfterwards then fits = true end
    if isShort then
      -- Every integer costs: an answer that says nothing but how much is left says only that.
      reply[2 * i], reply[2 * i + 1] = room, expiry
    else
      local last = 6 * i - 5
      reply[last + 1] = fits and 1 or 0
      reply[last + 2] = blockedUntil <= now and room > 0 and room or 0
      reply[last + 3], reply[last + 4] = expiry, (isTake or operation == 'peek') and retryMs or 0
      reply[last + 5], reply[last + 6] = granted, delayMs or 0
    end
  end
end

-- Everything is known: write what has changed, without what has expired, to live until the last of it does.
local hasChanged = false
for key = 1, #KEYS do
  local list = lists[key]
  if list and list[1] == 1 then
    hasChanged = true
    local size, latest = 2, now
    for place = 3, #list, VALUES do
      local expiry = list[place + 2]
      if expiry > now then
        if expiry > latest then latest = expiry end
        if place > size + 1 then
          for offset = 0, VALUES - 1 do list[size + 1 + offset] = list[place + offset] end
        end
        size = size + VALUES
      end
    end
    if size > 2 then
      call('PSETEX', KEYS[key], latest - now, cmsgpack.pack(unpack(list, 2, size)))
    else
      call('DEL', KEYS[key])
    end
  end
end

if memory and hasChanged then
  -- An answer holds for the longest window once charged, or for the longest wait if denied.
  local holdsMs = 0
  for check = 0, count - 1 do
    holdsMs = math.max(holdsMs, passes and ARGV[FIRST + check * arguments + (hasKeys and 4 or 3)] or reply[5 + check * 6])
  end
  if holdsMs > 0 then call('PSETEX', KEYS[memory], holdsMs, cmsgpack.pack(FORMAT, unpack(reply))) end
end
return reply

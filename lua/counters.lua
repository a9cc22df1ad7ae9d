-- counters: judges the checks of one request and charges all of them, or none. The algorithms are in
-- the files beside this one; this part knows keys, columns and operations.
--
-- KEYS   each holds the counters of some rules for one subject; at most 100. No two checks name the same counter
-- ARGV   [1] operation: take, peek (a take that changes nothing), refund, settle (charges what a request cost beyond
--            what it was charged, room or not, up to a debt of the whole capacity), renew (of leases),
--            cede (another region asks for this region's part of a counter), reclaim (this region wants it back);
--            then the names of the columns that each check has beside the four plain ones, in this order;
--            and last, for tests, now=MS (else the server's own clock)
--        then for each check these columns:
--          algorithm  id of the algorithm
--          id         of this counter within its key: letters, digits, - and _. Another rule, algorithm or
--                     window is another id
--          limit, windowMs
--        and those named in [1], each '' where a check has none:
--          key        number of its key in KEYS; 1 if there is no such column
--          cost       units to take, give back or settle; 1 if empty
--          extra      burst or number of buckets
--          want       units to lease beyond the cost, as far as there is room. Refund: units of that charge that are kept.
--                     Cede: units that the home has charged itself with, for what this counter holds
--          block      ms to deny everything for once exceeded
--          flags      d: count denied requests too; l: log, never deny
--          at         refund, settle, cede: epoch ms at which the charge was made
--          lease      id of a lease: 16 letters, digits, - and _
--          home, term, hold   cede: the region that asks; ms for which it may use the part; ms for which what it
--                     charges still counts after that
-- reply  now, then six integers for each check:
--          allowed    1 or 0, by this check alone (renew: whether the lease was still held; cede: whether it is ceded);
--                     or, of a take or peek, '>' and the name of the region that the counter was ceded to
--          remaining  units that would still pass now. Of a cede that is refused because the counter is in use: units used
--          resetAt    epoch ms at which the whole limit is free again
--          retryMs    of a take or peek: wait until the cost fits; 0 if it does, -1 if it never will. Of a cede
--                     that is refused: wait until it is worth asking again. Of what was ceded: time for which its
--                     home may use this part
--          granted    units leased beyond the cost
--          delayMs    wait until its turn, for those that throttle
--        or, if a take passes and all the others are 1 and 0, in short: now, then remaining and resetAt for each
--
-- An algorithm is blocks of code that replace --@read and --@charge below when the script is composed.
-- `read` brings the state up to now and sets room, capacity, wait (if the cost does not fit) and delayMs (if it
-- has any); `charge` moves the state by `units` and sets reset; if there is a chargedAt, it moves only the window
-- of that moment, if it is still there. --@state names the numbers (or texts: those names end with Text) that are
-- stored, --@local others that its blocks share.
-- An algorithm that needs functions of its own is a module instead, which returns the two as functions;
-- `module` makes it when a check needs it.
-- Neither touches Redis. Waits and levels are whole numbers: (a - a % b) / b is a divided by b and rounded down.
--
-- A key's value is text: FORMAT with the epoch ms at which the key goes, in 15 digits; then a record for each counter:
--   newline, id, space, letter of its algorithm, reset, space, end of a block or nothing, space, its state, semicolon
-- A counter that was ceded has this instead, n for m if this region wants it back; docs/regions.md tells why:
--   newline, id, space, m, epoch ms until which nothing is counted here, space, epoch ms until which the home may
--   use this part, space, home, semicolon
-- What does not read like that counts as no state. A key is written whole and with its TTL: it is never without one,
-- and that is one command. Docs/decisions tell why it is text.
--
-- All reading and judging happens in memory, before the first write, because Redis does not undo what a script
-- wrote before an error. A take is first worked out as if it passes; if a check then denies it, that is thrown
-- away and all is worked out again as denied.
--
-- It must mean the same on Redis' Lua and on gopher-lua, which Upstash runs: docs/decisions has the rules, and a test
-- reads every file here for them. One straight piece on purpose: a function costs Redis time in each run by being
-- made, and again when called.
local FORMAT, ZEROS, EMPTY, HEADER = 'weir2 ', '000000000000000', 'weir2 000000000000000;', 22
-- Products of units and milliseconds stay whole numbers up to here, with room for twice the capacity.
local LARGEST = 4503599627370496
-- The longest log.
local MAX_UNITS = 100000
local MAX_BUCKETS = 100
-- Windows of up to 34 years, until the year 6429.
local LONGEST, LATEST = 1099511627776, 140737488355328
-- A region cedes a counter this long after its last charge stopped counting. By then that charge is over by every other
-- region's clock, too; and a caller who is between two requests does not look idle. Keys live this much longer.
local IDLE_MS = 5000
-- A longer value is searched for what has expired when it is written. Beyond so many counters, those that expire
-- first make room.
local LONG, MAX_COUNTERS = 8192, 500
local MAX_KEYS, MAX_CHECKS = 100, 500

local ARGV, KEYS, call, tonumber = ARGV, KEYS, redis.call, tonumber
local find, sub, format = string.find, string.sub, string.format
local operation, now, columns, isAfterwards, isCession = ARGV[1], nil, 4, nil, nil
-- Where a check has each column, counted from its first.
local keyAt, costAt, extraAt, wantAt, blockAt, flagsAt, atAt, leaseAt, homeAt
if operation and operation ~= 'take' then
  local words = operation .. ' '
  local _, _, injected = find(words, ' now=(%S*) ')
  if injected then now = tonumber(injected) or 0 end
  local function at(name, width)
    if not find(words, name, 1, true) then return nil end
    columns = columns + width
    return columns - width
  end
  keyAt = at(' key ', 1)
  costAt = at(' cost ', 1)
  extraAt = at(' extra ', 1)
  wantAt = at(' want ', 1)
  blockAt = at(' block ', 1)
  flagsAt = at(' flags ', 1)
  atAt = at(' at ', 1)
  leaseAt = at(' lease ', 1)
  homeAt = at(' home term hold ', 3)
  local _, last = find(words, '^%l+')
  operation = sub(words, 1, last or 0)
  isAfterwards = operation == 'refund' or operation == 'settle'
  isCession = operation == 'cede' or operation == 'reclaim'
end
local isTake, count = operation == 'take', (#ARGV - 1) / columns
local hasRareColumns = blockAt or flagsAt or atAt or leaseAt or homeAt
if count < 1 or count % 1 ~= 0 then
  return { err = 'WEIR_BAD_ARGUMENT expected 1 argument and ' .. columns .. ' for each check' }
end
if count > MAX_CHECKS then return { err = 'WEIR_BAD_ARGUMENT more than ' .. MAX_CHECKS .. ' checks' } end
if not isTake and not isAfterwards and not isCession and operation ~= 'peek' and operation ~= 'renew' then
  return { err = 'WEIR_BAD_ARGUMENT unknown operation' }
end
if #KEYS > MAX_KEYS then return { err = 'WEIR_BAD_ARGUMENT more than ' .. MAX_KEYS .. ' keys' } end
if not now then
  local time = call('TIME')
  local micros = tonumber(time[2])
  now = tonumber(time[1]) * 1000 + (micros - micros % 1000) / 1000
elseif not (now >= 1 and now <= LATEST and now % 1 == 0) then
  return { err = 'WEIR_BAD_ARGUMENT now must be a whole number above 0' }
end

-- A key of another type counts as no state: GET raises an error for it, which pcall returns as a table.
local values
if KEYS[2] then
  values = call('MGET', unpack(KEYS))
elseif KEYS[1] then
  local value = redis.pcall('GET', KEYS[1])
  values = { type(value) == 'string' and value }
else
  values = {}
end

-- Of each key: the changes of its text (three values each: first place, last place, new record; in the order of
-- their places), and when the last counter that was changed expires, or INFINITY if one now expires earlier than
-- before, so that all must be looked at.
-- Each table has its first place from the start: to make room for it later costs more than all else in it.
local changes, latest = { false }, { false }
local INFINITY = math.huge
-- Worked out as if it passes and the answer is short; if not, once more from the start.
local passes, isShort, reply = isTake, isTake, { now, 0, 0 }
local i = 0

while i < count do
  local first, key = 2 + i * columns, 1
  i = i + 1

  -- The check's arguments. What is no number counts as 0, which no column takes.
  if keyAt then key = tonumber(ARGV[first + keyAt]) end
  local algorithm, id = ARGV[first], ARGV[first + 1]
  local limit, windowMs = tonumber(ARGV[first + 2]) or 0, tonumber(ARGV[first + 3]) or 0
  local code
  --@code
  local isValid = isTake and code and values[key] ~= nil and limit >= 1 and limit % 1 == 0
    and windowMs >= 1 and windowMs <= LONGEST and windowMs % 1 == 0 and limit * windowMs <= LARGEST
    and (limit <= MAX_UNITS or algorithm ~= 'sliding-window-log')
  local cost, extra, want = 1, nil, 0
  if costAt and ARGV[first + costAt] ~= '' then
    cost = tonumber(ARGV[first + costAt]) or 0
    isValid = isValid and cost >= 1 and cost <= LARGEST and cost % 1 == 0
  end
  if extraAt and ARGV[first + extraAt] ~= '' then
    extra = tonumber(ARGV[first + extraAt]) or 0
    isValid = isValid and extra >= 1 and extra % 1 == 0 and extra * windowMs <= LARGEST
      and (extra <= MAX_BUCKETS or algorithm ~= 'sliding-window-buckets')
  end
  if wantAt and ARGV[first + wantAt] ~= '' then
    want = tonumber(ARGV[first + wantAt]) or 0
    isValid = isValid and want >= 1 and want <= LARGEST and want % 1 == 0
  end
  local blockMs, chargedAt, countsDenied, isLog, asking, termMs, holdMs
  if hasRareColumns or not isValid then
    local function column(at) return at and ARGV[first + at] ~= '' and ARGV[first + at] or nil end
    local problemOf = module('invalid-check')
    local problem = problemOf(operation, code, KEYS[key], {
      algorithm = algorithm, limit = ARGV[first + 2], windowMs = ARGV[first + 3], cost = column(costAt),
      extra = column(extraAt), want = column(wantAt), block = column(blockAt), flags = column(flagsAt),
      at = column(atAt), lease = column(leaseAt), home = column(homeAt), term = column(homeAt and homeAt + 1),
      hold = column(homeAt and homeAt + 2),
    })
    if problem then return { err = 'WEIR_BAD_ARGUMENT check ' .. i .. ': ' .. problem } end
    if algorithm == 'concurrency' then extra = column(leaseAt) end
    blockMs = tonumber(column(blockAt) or '')
    if isAfterwards or isCession then chargedAt = tonumber(column(atAt) or now) end
    countsDenied = find(column(flagsAt) or '', 'd', 1, true)
    isLog = find(column(flagsAt) or '', 'l', 1, true)
    asking = column(homeAt)
    if asking then
      termMs = tonumber(column(homeAt + 1))
      holdMs = tonumber(column(homeAt + 2))
    end
  end

  -- Its record: from the newline at `place` to the semicolon at `last`.
  local text = values[key]
  if not text or sub(text, 1, #FORMAT) ~= FORMAT or sub(text, HEADER, HEADER) ~= ';' then
    text = EMPTY
    values[key] = text
  end
  local place, start = find(text, '\n' .. id .. ' ', HEADER, true)
  local last, reset, blockedUntil = nil, nil, 0
  -- Where it is counted until when, if not here.
  local home, cededUntil, usableUntil, isWanted
  --@locals
  if place then
    start = start + 1
    local resetText, blockText
    --@load
    if last then
      reset = tonumber(resetText)
      if blockText ~= '' then blockedUntil = tonumber(blockText) end
    else
      local _, past, letter, untilText, termText, name = find(text, '^([mn])(%d+) (%d+) ([%l%d-]+);', start)
      if past then
        last = past
        cededUntil = tonumber(untilText)
        if cededUntil > now and #untilText < 16 and #termText < 16 then
          home = name
          usableUntil = tonumber(termText)
          isWanted = letter == 'n'
        end
      else
        -- It is another algorithm's, or not whole: it counts as none and goes.
        last = find(text, '\n', start, true)
        last = last and last - 1 or #text
      end
    end
  end
  local expiryBefore = cededUntil or reset and reset < blockedUntil and blockedUntil or reset or INFINITY
  -- What its record becomes, if that changes; and when it expires.
  local record, expiry

  -- What this check alone says, and what is told of it.
  local room, capacity, wait, delayMs, held = 0, 0, 0, nil, nil
  local fits, retryMs, granted, isAgain = false, 0, 0, false

  local isInUse = asking and not home and reset and expiryBefore + IDLE_MS > now
  if isInUse or not home and not isCession then
    --@read
  end
  if isCession then
    -- A region that has counted nothing lately cedes its part; so does one that has, if the home has charged itself with
    -- as much in the same window. It never takes the part back: it waits.
    local letter, usable = 'm', usableUntil
    if isInUse then
      room = math.min(capacity, capacity - room)
      delayMs = nil
    end
    if operation == 'reclaim' then
      letter = 'n'
      fits = home and not isWanted
    elseif home and (home ~= asking or isWanted) then
      retryMs = cededUntil - now + (home == asking and windowMs or 0)
    elseif isInUse and (room > want or want == 0 or blockedUntil > now
      or now - now % windowMs ~= chargedAt - chargedAt % windowMs) then
      retryMs = expiryBefore + IDLE_MS - now
    else
      fits = true
      room = 0
      usable = now + termMs
      cededUntil = math.max(home and cededUntil or 0, usable + holdMs)
    end
    expiry = (home or fits) and cededUntil or now
    if fits then record = format('\n%s %s%d %d %s;', id, letter, expiry, usable, home or asking) end
  elseif home then
    -- Nothing is counted here for it: the caller asks its home.
    isAgain = passes
    passes = false
    fits = isAfterwards
    expiry = cededUntil
    retryMs = math.max(0, usableUntil - now)
  else
    if cost > capacity then
      retryMs = -1
    elseif cost > room then
      retryMs = wait
    end
    if blockedUntil > now and retryMs >= 0 then retryMs = math.max(retryMs, blockedUntil - now) end
    fits = retryMs == 0
    if passes and not fits and not isLog then
      passes = false
      isAgain = true
    else
      isAgain = isShort and (not fits or want > 0 or delayMs)
    end
  end

  if isAgain then
    isShort = false
    changes = { false }
    latest = { false }
    i = 0
  elseif not isCession and not home then
    -- By how much the counter moves, and whether it blocks from now on.
    local units, blocks = 0, false
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
      units = held
      fits = held > 0
    end
    --@charge
    expiry = reset > blockedUntil and reset or blockedUntil
    if (units ~= 0 or blocks) and (place or expiry > now) then
      record = ''
      if expiry > now then
        local blockText = blockedUntil > now and format('%d', blockedUntil) or ''
        --@store
      end
    end

    -- What is left then.
    if fits and not isAfterwards then
      room = room - units
    elseif units ~= 0 or blocks then
      local delayedMs = delayMs
      --@read
      if retryMs >= 0 then retryMs = math.max(cost > room and wait or 0, blockedUntil - now) end
      if isTake then delayMs = delayedMs end
    end
    if isAfterwards then fits = true end
    if not isTake and operation ~= 'peek' then retryMs = 0 end
  end

  if record then
    if not place then
      place = #text + 1
      last = #text
    elseif expiry < expiryBefore or record == '' then
      latest[key] = INFINITY
    end
    if expiry > (latest[key] or 0) then latest[key] = expiry end
    local list = changes[key]
    if list then
      local at = #list + 1
      while at > 1 and list[at - 3] > place do
        list[at] = list[at - 3]
        list[at + 1] = list[at - 2]
        list[at + 2] = list[at - 1]
        at = at - 3
      end
      list[at] = place
      list[at + 1] = last
      list[at + 2] = record
    else
      changes[key] = { place, last, record }
    end
  end

  -- Its answer. Every integer costs: one that says nothing but how much is left says only that.
  if isShort then
    reply[2 * i] = room
    reply[2 * i + 1] = expiry
  elseif not isAgain then
    local before = 6 * i - 5
    reply[before + 1] = home and (isTake or operation == 'peek') and '>' .. home or fits and 1 or 0
    reply[before + 2] = blockedUntil <= now and room > 0 and room or 0
    reply[before + 3] = expiry
    reply[before + 4] = retryMs
    reply[before + 5] = granted
    reply[before + 6] = delayMs or 0
  end
end

-- Everything is known: write what has changed, to live until it tells nothing more.
for key = 1, #KEYS do
  local list = changes[key]
  if list then
    -- Joined at once: every string on the way would be hashed, and a long one costs.
    local text, newest, records = values[key], latest[key], nil
    if #list == 3 then
      records = sub(text, HEADER + 1, list[1] - 1) .. list[3] .. sub(text, list[2] + 1)
    else
      local pieces, size, past = { '', '', '', '', '', '' }, 0, HEADER + 1
      for at = 1, #list, 3 do
        if list[at] > past then
          size = size + 1
          pieces[size] = sub(text, past, list[at] - 1)
        end
        size = size + 1
        pieces[size] = list[at + 2]
        past = list[at + 1] + 1
      end
      records = table.concat(pieces, '', 1, size) .. sub(text, past)
    end
    local expires = tonumber(sub(text, #FORMAT + 1, HEADER - 1)) or 0
    if expires > LATEST then expires = 0 end
    if newest == INFINITY or #text > LONG then
      local live = module('live-records')
      local others, last = live(records, now - IDLE_MS, MAX_COUNTERS)
      records = others
      newest = last
      expires = 0
    end
    newest = newest + IDLE_MS
    if newest <= now then
      call('DEL', KEYS[key])
    else
      -- Always with its end: a key that is written to live on as it was may have expired since it was read.
      if newest < expires then newest = expires end
      local digits = format('%d', newest)
      call('SET', KEYS[key], FORMAT .. sub(ZEROS, #digits + 1) .. digits .. ';' .. records, 'PXAT', digits)
    end
  end
end
return reply

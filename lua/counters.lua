-- counters: judges the checks of one request and charges all of them, or none. The algorithms are in
-- the files beside this one; this part knows keys, columns and operations.
--
-- KEYS   each holds the counters of some rules for one subject; at most 100. No two checks name the same counter
-- ARGV   [1] operation: take, peek (a take that changes nothing), refund, settle (charges what a request cost beyond
--            what it was charged, room or not, up to a debt of the whole capacity), renew (of leases),
--            cede (another region asks for this region's part of a counter), reclaim (this region wants it back);
--            then, if checks have further columns, a space and a 1 or 0 for each of those below, in their order;
--            and last, for tests, ' now=MS' (else it is the server's own clock)
--        then for each check these columns:
--          counter    ';', its id (letters, digits, - and _), ':' and the letter of its algorithm. Another rule,
--                     algorithm or window has another id
--          limit, windowMs
--        and those that have a 1, each '' where a check has none:
--          key        number of its key in KEYS; 1 if there is no such column
--          cost       units to take, give back or settle; 1 if empty
--          extra      burst or number of buckets
--          want       units to lease beyond the cost, as far as there is room. Refund: units of that charge that are kept.
--                     Settle: units that are used afterwards at most, if that is less than the cost says.
--                     Cede: units that the home has charged itself with, for what this counter holds
--          block      ms to deny everything for once exceeded
--          flags      1: count denied requests too; 2: log, never deny; 3: both
--          at         refund, settle, cede: epoch ms at which the charge was made
--          lease      id of a lease: 16 letters, digits, - and _
--          home, term, hold   (one digit for the three) cede: the region that asks; ms for which it may use the part; ms for
--                     which what it charges still counts after that
--          borders    of a calendar window: epoch ms of four borders in a row, with spaces between them; the window of
--                     `windowMs` is between the second and the third. The clock of this server says which window it is
-- reply  integers: now, then two for each check:
--          remaining  units that would still pass now. Of a cede that is refused because the counter is in use: units used
--          resetAt    epoch ms at which the whole limit is free again
--        then, unless a take passes and these are 1, 0, 0 and 0 for all of them, four more for each check:
--          allowed    1 or 0, by this check alone (renew: whether the lease was still held; cede: whether it is ceded);
--                     or, of a take or peek, '>' and the name of the region that the counter was ceded to
--          retryMs    of a take or peek: wait until the cost fits; 0 if it does, -1 if it never will. Of a cede
--                     that is refused: wait until it is worth asking again. Of what was ceded: time for which its
--                     home may use this part
--          granted    units leased beyond the cost
--          delayMs    wait until its turn, for those that throttle
--
-- An algorithm is blocks of code that the composer puts where --@judge, --@charge and --@again stand.
-- `read` brings the state up to now and sets room, capacity, wait (if the cost does not fit) and delayMs (if it
-- has any); `charge` moves the state by `units` and sets reset; if there is a chargedAt, it moves only the window
-- of that moment, if it is still there. --@state names the numbers (or texts: those names end with Text) that are
-- stored, --@letter the letter that its counters are stored under (never one that was another's; m and n are taken),
-- --@local others that its blocks share. --@keeps names the first ones of reset and the state, if most charges
-- leave them as they are: then only the rest of the record is written.
-- An algorithm that needs functions of its own is a module instead, which returns the two as functions;
-- `module` makes it when a check needs it.
-- Neither touches Redis. Waits and levels are whole numbers: (a - a % b) / b is a divided by b and rounded down.
--
-- A key's value is text: the epoch ms at which the key goes, in 15 digits; FORMAT, whose semicolon begins the first
-- record; the records of its counters; a semicolon.
-- A record is
--   the counter as in ARGV, reset, and its state, with spaces between them; while it is blocked, its letter is a
--   capital and the end of the block comes before reset
-- A counter that was ceded has this instead; docs/regions.md tells why:
--   ';', id, ':', m (n if this region wants it back), epoch ms until which nothing is counted here, epoch ms until
--   which the home may use this part, home
-- What does not read like that counts as no state. A key is never without a TTL: it is written whole, with its TTL or
-- with the one that it has. Docs/decisions tell why it is text.
--
-- All reading and judging happens in memory, before the first write, because Redis does not undo what a script
-- wrote before an error. A take is worked out as if it passes. If a check then denies it, those before that check are
-- worked out again as denied.
--
-- It must mean the same on Redis' Lua and on gopher-lua, which Upstash runs: docs/decisions has the rules, and a test
-- reads every file here for them. One straight piece on purpose: a function costs Redis time in each run by being
-- made, and again when called.
local FORMAT, EMPTY, HEADER = ' weir3;', '000000000000000 weir3;', 22
-- Products of units and milliseconds stay whole numbers up to here, with room for twice the capacity.
local LARGEST = 4503599627370496
-- Windows of up to 34 years, until the year 6429.
local LONGEST, LATEST = 1099511627776, 140737488355328
-- A region cedes a counter this long after its last charge stopped counting. By then that charge is over by every other
-- region's clock, too; and a caller who is between two requests does not look idle. Keys live this much longer.
local IDLE_MS = 5000
-- The most buckets; from a small letter's code to that of its capital.
local MAX_BUCKETS, CAPITAL = 100, 32
local INFINITY = math.huge

local ARGV, KEYS, call = ARGV, KEYS, redis.call
local find, sub, byte, format = string.find, string.sub, string.byte, string.format
local operation, width = ARGV[1], 3
local isTake = operation == 'take'
local now, given, isAfterwards, isCession
if not isTake then
  local words = operation or ''
  local clockAt = find(words, ' now=', 1, true)
  if clockAt then
    now = tonumber(sub(words, clockAt + 5)) or 0
    local others = sub(words, 1, clockAt - 1)
    words = others
  end
  local _, _, word, digits = find(words, '^(%l+) ?([01]*)$')
  operation = word
  given = digits
  isTake = word == 'take'
  isAfterwards = word == 'refund' or word == 'settle'
  isCession = word == 'cede' or word == 'reclaim'
end
-- Where a check has each further column, counted from its first.
local keyAt, costAt, extraAt, wantAt, blockAt, flagsAt, atAt, leaseAt, homeAt, bordersAt
if given and given ~= '' then
  local ONE = 49
  local hasKey, hasCost, hasExtra, hasWant, hasBlock, hasFlags, hasAt, hasLease, hasHome, hasBorders = byte(given, 1, 10)
  if hasKey == ONE then keyAt = width width = width + 1 end
  if hasCost == ONE then costAt = width width = width + 1 end
  if hasExtra == ONE then extraAt = width width = width + 1 end
  if hasWant == ONE then wantAt = width width = width + 1 end
  if hasBlock == ONE then blockAt = width width = width + 1 end
  if hasFlags == ONE then flagsAt = width width = width + 1 end
  if hasAt == ONE then atAt = width width = width + 1 end
  if hasLease == ONE then leaseAt = width width = width + 1 end
  if hasHome == ONE then homeAt = width width = width + 3 end
  if hasBorders == ONE then bordersAt = width width = width + 1 end
end
local count, hasRareColumns = (#ARGV - 1) / width, atAt or leaseAt or homeAt or not isTake
local hasOptions = width > 3 or not isTake
if count < 1 or count % 1 ~= 0 then
  return { err = 'WEIR_BAD_ARGUMENT expected 1 argument and ' .. width .. ' for each check' }
end
if count > 500 then return { err = 'WEIR_BAD_ARGUMENT more than 500 checks' } end
if not isTake and not isAfterwards and not isCession and operation ~= 'peek' and operation ~= 'renew' then
  return { err = 'WEIR_BAD_ARGUMENT unknown operation' }
end
if #KEYS > 100 then return { err = 'WEIR_BAD_ARGUMENT more than 100 keys' } end
-- Whether the keys that are written live as long as they already do. An injected clock tells nothing about that.
local keepsTtl = not now
if not now then
  -- Numbers in plain digits become numbers by arithmetic, here and below: tonumber costs three times as much.
  local time = call('TIME')
  local millis = time[2] / 1000
  now = time[1] * 1000 + (millis - millis % 1)
elseif not (now >= 1 and now <= LATEST and now % 1 == 0) then
  return { err = 'WEIR_BAD_ARGUMENT now must be a whole number above 0' }
end

-- Of the key at hand: its text; the pieces of the new text and their number, and from where on the old text is not among
-- them; when the last counter expires of which that has changed, or INFINITY if one now expires earlier than before, so
-- that all must be looked at; and until when the key lives at least, by what else is in it.
-- Of several keys, all of that stands in tables while another key is at hand. Of one key, which is the rule, it never
-- does: a table costs as much as twenty steps. The pieces are joined once, because Redis hashes every string that Lua
-- makes.
local key, text, size, from, newest, covered = 1, EMPTY, 0, 1, 0, 0
local pieces, texts, others
if KEYS[2] then
  texts = call('MGET', unpack(KEYS))
  for each = 1, #KEYS do
    if sub(texts[each] or '', 16, HEADER) ~= FORMAT then texts[each] = EMPTY end
  end
  others = {}
  text = texts[1]
elseif KEYS[1] then
  -- A key of another type counts as no state: GET raises an error for it, which pcall returns as a table.
  local value = redis.pcall('GET', KEYS[1])
  if type(value) == 'string' and sub(value, 16, HEADER) == FORMAT then text = value end
else
  text = nil
  hasOptions = true
end

local passes, details = isTake, nil
-- It has its first places from the start: to make room for them later costs more.
local reply = count < 3 and { now, 0, 0 } or count < 5 and { now, 0, 0, 0, 0, 0, 0 }
  or { now, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
local i = 0

while i < count do
  local first = 2 + i * width
  i = i + 1

  -- The check's arguments. What is no number ends the script here, before it has written anything.
  local counter, limit, windowMs, cost, want = ARGV[first], ARGV[first + 1] * 1, ARGV[first + 2] * 1, 1, 0
  local code = byte(counter, -1)
  local extra, blockMs, countsDenied, isLog, chargedAt, asking, termMs, holdMs
  local borderBefore, borderStart, borderEnd, borderAfter, hasBadBorders
  local isValid = limit >= 1 and windowMs >= 1 and windowMs <= LONGEST and limit % 1 + windowMs % 1 == 0
    and (limit * windowMs <= LARGEST
    --@limitMayBeLarge
    )
    --@limitFits
  if hasOptions or not isValid then
    if keyAt then
      local other = tonumber(ARGV[first + keyAt])
      if other ~= key and not texts then
        text = nil
      elseif other ~= key then
        others[key] = { pieces = pieces, size = size, from = from, newest = newest, covered = covered }
        key = other
        text = texts[key]
        local known = others[key]
        pieces = known and known.pieces
        size = known and known.size or 0
        from = known and known.from or 1
        newest = known and known.newest or 0
        covered = known and known.covered or 0
      end
    end
    if costAt and ARGV[first + costAt] ~= '' then
      cost = ARGV[first + costAt] * 1
      isValid = isValid and cost >= 1 and cost <= LARGEST and cost % 1 == 0
    end
    if extraAt and ARGV[first + extraAt] ~= '' then
      extra = ARGV[first + extraAt] * 1
      isValid = isValid and extra >= 1 and extra * windowMs <= LARGEST and extra % 1 == 0
        --@bucketsFit
    end
    if wantAt and ARGV[first + wantAt] ~= '' then
      want = ARGV[first + wantAt] * 1
      isValid = isValid and want >= 1 and want <= LARGEST and want % 1 == 0
    end
    if blockAt and ARGV[first + blockAt] ~= '' then
      blockMs = ARGV[first + blockAt] * 1
      isValid = isValid and blockMs >= 1 and blockMs <= LARGEST and blockMs % 1 == 0
    end
    if flagsAt and ARGV[first + flagsAt] ~= '' then
      local flags = ARGV[first + flagsAt]
      countsDenied = flags ~= '2'
      isLog = flags ~= '1'
    end
    if bordersAt and ARGV[first + bordersAt] ~= '' then
      local _, _, before, start, ends, after = find(ARGV[first + bordersAt], '^(%d+) (%d+) (%d+) (%d+)$')
      borderBefore = (before or 0) * 1
      borderStart = (start or 0) * 1
      borderEnd = (ends or 0) * 1
      borderAfter = (after or 0) * 1
      hasBadBorders = borderBefore < 1 or borderStart <= borderBefore or borderEnd <= borderStart
        or borderAfter <= borderEnd or borderAfter > LATEST
      isValid = isValid and not hasBadBorders
    end
    if hasRareColumns or not isValid or not text then
      local function column(at) return at and ARGV[first + at] ~= '' and ARGV[first + at] or nil end
      local problemOf = module('invalid-check')
      local problem, lease = problemOf(operation, text, {
        letter = sub(counter, -1), limit = ARGV[first + 1], windowMs = ARGV[first + 2], cost = column(costAt),
        extra = column(extraAt), want = column(wantAt), block = column(blockAt), at = column(atAt),
        lease = column(leaseAt), countsDenied = countsDenied, home = column(homeAt),
        term = column(homeAt and homeAt + 1), hold = column(homeAt and homeAt + 2), hasBadBorders = hasBadBorders,
      })
      if problem then return { err = 'WEIR_BAD_ARGUMENT check ' .. i .. ': ' .. problem } end
      extra = lease or extra
      if isAfterwards or isCession then chargedAt = tonumber(column(atAt) or now) end
      asking = column(homeAt)
      if asking then
        termMs = tonumber(column(homeAt + 1))
        holdMs = tonumber(column(homeAt + 2))
      end
    end
  end

  -- Its record: in `source` from the semicolon at `place` to `last`. Records are mostly in the order of the checks, so
  -- it is searched for from where the one before has ended.
  local place, letterAt = find(text, counter, from, true)
  local source, blockedUntil = text, 0
  local fields, last, changesAt, reset, expiryBefore, isBehind
  -- It goes, or was not whole: when the key's other counters expire must be looked up.
  local isLost
  -- Where it is counted until when, if not here.
  local home, cededUntil, usableUntil, isWanted
  -- A take that passes, by a counter that is there: the usual, for which nothing else is asked.
  local isUsual = isTake
  if place then
    fields = letterAt + 1
  else
    isUsual = false
  end
  if not place and (#text > HEADER or size > 0) then
    -- Out of order, it is in the new text. Under its id alone there can be a blocked counter, one that was ceded, or
    -- another algorithm's.
    local id = sub(counter, 1, -2)
    local at, colon = find(text, id, from, true)
    if not at and size > 0 then
      local done = table.concat(pieces, '', 1, size)
      pieces = { done }
      size = 1
      local before, past = find(done, id, 1, true)
      source = done .. ';'
      isBehind = true
      at = before
      colon = past
    end
    if at then
      place = at
      local letter = byte(source, colon + 1)
      local _, past, kind, untilText, usableText, name = find(source, '^([mn])(%d+) (%d+) ([%l%d-]+);', colon + 1)
      if letter == code then
        fields = colon + 2
      elseif letter == code - CAPITAL then
        local _, space, endText = find(source, '^(%d+) ', colon + 2)
        blockedUntil = (endText or 0) * 1
        fields = (space or colon) + 1
      elseif past and #untilText < 16 and #usableText < 16 then
        last = past - 1
        cededUntil = untilText * 1
        expiryBefore = cededUntil
        usableUntil = usableText * 1
        home = cededUntil > now and name
        isWanted = kind == 'n'
      else
        last = (find(source, ';', colon, true) or #source + 1) - 1
        isLost = true
      end
    end
  end
  -- What its record becomes from `changesAt` on, if that changes; and when it expires.
  local record, expiry

  -- What this check alone says, and what is told of it.
  local fits, isNotable, isAgain, isKept, delayMs, held, wait
  local room, capacity, retryMs, granted = 0, 0, 0, 0
  --@locals

  if home and not isCession then
    -- Nothing is counted here for it: the caller asks its home.
    isAgain = passes and i > 1
    passes = false
    fits = isAfterwards
    expiry = cededUntil
    retryMs = math.max(0, usableUntil - now)
    isNotable = true
  else
    --@judge
    if cost <= room and blockedUntil <= now then
      fits = true
    else
      isUsual = false
      retryMs = cost > capacity and -1 or math.max(cost > room and wait or 0, blockedUntil - now)
      isNotable = true
      if passes and not isLog then
        isAgain = i > 1
        passes = false
      end
    end
  end

  if isAgain then
    i = 0
    size = 0
    from = 1
    newest = 0
    covered = 0
    details = nil
    others = texts and {}
  else
    if isCession then
      -- A region that has counted nothing lately cedes its part; so does one that has, if the home has charged itself
      -- with as much in the same window. It never takes the part back: it waits.
      local letter, usable, used = 'm', usableUntil, math.min(capacity, capacity - room)
      local isInUse = asking and not cededUntil and expiryBefore and expiryBefore + IDLE_MS > now
      fits = false
      retryMs = 0
      room = isInUse and used or 0
      if operation == 'reclaim' then
        letter = 'n'
        fits = home and not isWanted
      elseif home and (home ~= asking or isWanted) then
        retryMs = cededUntil - now + (home == asking and windowMs or 0)
      elseif isInUse and (used > want or want == 0 or blockedUntil > now
        or now - now % windowMs ~= chargedAt - chargedAt % windowMs) then
        retryMs = expiryBefore + IDLE_MS - now
      else
        fits = true
        room = 0
        usable = now + termMs
        cededUntil = math.max(home and cededUntil or 0, usable + holdMs)
      end
      expiry = (home or fits) and cededUntil or now
      if fits then record = format('%s%s%d %d %s', sub(counter, 1, -2), letter, expiry, usable, home or asking) end
      changesAt = place
      delayMs = nil
      isNotable = true
    elseif not home then
      -- By how much the counter moves, and whether it blocks from now on.
      local units, moves, start = cost, true, counter
      if passes and fits then
        if want > 0 then
          granted = math.min(want, room - cost)
          units = cost + granted
          isNotable = true
        end
      else
        units = 0
        local blocks = false
        if isTake then
          -- A denied request counts only where it was denied, and up to a debt of the whole capacity.
          if retryMs > 0 and (passes or not isLog) then
            if countsDenied then units = math.max(0, math.min(cost, room + capacity)) end
            blocks = blockMs and blockedUntil <= now
            if blocks then blockedUntil = now + blockMs end
          end
        elseif operation == 'refund' then
          units = -cost
        elseif operation == 'settle' then
          units = math.min(cost, room + capacity)
          if want > 0 then units = math.min(units, want - capacity + room) end
          units = math.max(0, units)
        elseif operation == 'renew' then
          -- A lease that is still held is taken again.
          units = held
          fits = held > 0
        end
        moves = units ~= 0 or blocks
        isUsual = false
      end
      if not isUsual and blockedUntil > 0 then
        changesAt = nil
        if blockedUntil > now then
          start = format('%s%s%d ', sub(counter, 1, -2), string.char(code - CAPITAL), blockedUntil)
        end
      end
      --@charge
      expiry = reset

      -- What is left then.
      if isUsual then
        room = room - units
      else
        if blockedUntil > expiry then expiry = blockedUntil end
        if expiry <= now and moves then
          record = place and ''
          changesAt = place
          isLost = true
        end
        if fits and not isAfterwards then
          room = room - units
        elseif moves then
          local delayedMs = delayMs
          --@again
          if retryMs >= 0 then retryMs = math.max(cost > room and wait or 0, blockedUntil - now) end
          if isTake then delayMs = delayedMs end
        end
        if not isTake then
          isNotable = true
          if isAfterwards then fits = true end
          if operation ~= 'peek' then retryMs = 0 end
        end
      end
    end

    if record then
      if isUsual then
        -- Neither of the following.
      elseif not place then
        -- In the order of the checks, so that it is found at once.
        changesAt = from > HEADER and from or HEADER
        last = changesAt - 1
        isBehind = false
        keepsTtl = false
      elseif isLost or expiryBefore and expiry < expiryBefore then
        newest = INFINITY
      end
      if isKept then
        if expiry > covered then covered = expiry end
      elseif expiry > newest then
        newest = expiry
      end
      if count == 1 then
        pieces = sub(text, 1, changesAt - 1) .. record
        size = 1
        from = last + 1
      elseif isBehind then
        pieces[1] = sub(source, 1, changesAt - 1) .. record .. sub(source, last + 1, -2)
      else
        pieces = pieces or { '', '', '', '', '', '', '', '', '', '', '' }
        pieces[size + 1] = sub(text, from, changesAt - 1)
        pieces[size + 2] = record
        size = size + 2
        from = last + 1
        if size > 98 then
          pieces = { table.concat(pieces, '', 1, size) }
          size = 1
        end
      end
    end

    -- Its answer. Every integer costs: what goes without saying is left out.
    if isNotable or delayMs then
      if room < 0 or blockedUntil > now then room = 0 end
      details = details or {}
      local allowed = home and (isTake or operation == 'peek') and '>' .. home or fits and 1 or 0
      details[i] = { allowed, retryMs, granted, delayMs or 0 }
    end
    reply[2 * i] = room
    reply[2 * i + 1] = expiry
  end
end

-- Everything is known: write what has changed, to live until it tells nothing more.
if others then others[key] = { pieces = pieces, size = size, from = from, newest = newest, covered = covered } end
for each = 1, #KEYS do
  if others then
    local known = others[each]
    text = texts[each]
    pieces = known and known.pieces
    size = known and known.size or 0
    from = known and known.from
    newest = known and known.newest
    covered = known and known.covered
  end
  if size > 0 then
    local rest = from > #text and ';' or sub(text, from)
    local value
    if count == 1 then
      value = pieces .. rest
    else
      pieces[size + 1] = rest
      value = table.concat(pieces, '', 1, size + 1)
    end
    local expires
    if newest <= covered then
      newest = covered
      expires = keepsTtl and INFINITY
    end
    expires = expires or tonumber(sub(text, 1, 15)) or 0
    -- A long value is searched for what has expired. Beyond 500 counters, those that expire first make room.
    if newest == INFINITY or #text > 8192 then
      local live = module('live-records')
      local records, last = live(sub(value, HEADER), now - IDLE_MS, 500)
      value = EMPTY .. sub(records, 2)
      newest = last
      expires = 0
    end
    newest = newest + IDLE_MS
    if newest <= expires and keepsTtl then
      -- All counters were read less than IDLE_MS ago from a key that lives longer than that: so it has a TTL to keep.
      call('SET', KEYS[each], value, 'KEEPTTL')
    elseif newest <= now then
      call('DEL', KEYS[each])
    else
      if newest < expires and expires <= LATEST then newest = expires end
      local digits = format('%d', newest)
      value = sub(EMPTY, 1, 15 - #digits) .. digits .. sub(value, 16)
      call('SET', KEYS[each], value, 'PXAT', digits)
    end
  end
end
if details then
  local size = 1 + 2 * count
  for each = 1, count do
    local detail = details[each]
    for field = 1, 4 do reply[size + field] = detail and detail[field] or field == 1 and 1 or 0 end
    size = size + 4
  end
end
return reply

-- counters: judges the checks of one request and charges all of them, or none. This file handles keys, columns and
-- operations. The algorithms are in files beside this one, and so are parts of this file: the composer
-- (src/redis/script.ts) puts a part in place of its line --@include. A part can use all locals declared before that line.
--
-- KEYS   each holds the counters of some rules for one subject; at most 100. No two checks name the same counter
-- ARGV   [1] operation: take, peek (a take that changes nothing), refund, settle (charges what a request cost beyond
--            its charge, even without room, up to a debt of the whole capacity), renew (of seats),
--            transfer (another region asks for this region's part of a counter), recall (this region wants it back);
--            then, if checks have further columns, a space and a 1 or 0 for each of those below, in their order;
--            and last, for tests, ' now=MS' (otherwise the script uses the server's own clock)
--        then for each check these columns:
--          counter    ';', its id (letters, digits, - and _), ':' and the letter of its algorithm. Another rule,
--                     algorithm or window has another id
--          limit, windowMs
--        and those that have a 1, each '' where a check has none:
--          key        number of its key in KEYS; 1 if there is no such column
--          cost       units to take, give back or settle; 1 if empty
--          extra      burst or number of buckets
--          want       units to lease beyond the cost, as far as there is room. Refund: units of that charge that are kept.
--                     Settle: the most units that may be used afterwards, if the cost would exceed them.
--                     Transfer: units that the owner has charged itself with, in place of those in this counter
--          block      ms for which everything is denied once the limit is exceeded
--          flags      1: count denied requests too; 2: shadow, never deny; 3: both
--          at         refund, settle, transfer: epoch ms at which the charge was made
--          seat       id of a seat: 16 letters, digits, - and _
--          owner, term, hold   (one digit for the three) transfer: the region that asks; ms for which it may use the part; ms for
--                     which its charges still count after that
--          borders    of a calendar window: epoch ms of four borders in a row, with spaces between them; the window of
--                     `windowMs` is between the second and the third. The clock of this server selects the window
-- reply  integers: now, then two for each check:
--          remaining  units that would still pass now. For a transfer refused because the counter is in use: units used
--          resetAt    epoch ms at which the whole limit is free again
--        then, unless a take passes and these are 1, 0, 0 and 0 for all of them, four more for each check:
--          allowed    1 or 0, by this check alone (renew: whether the seat was still held; transfer: whether it is transferred);
--                     or, for a take or peek, '>' and the name of the region that the counter was transferred to
--          retryMs    for a take or peek: wait until the cost fits; 0 if it does, -1 if it never will. For a transfer
--                     that is refused: wait until it is worth asking again. For a transferred counter: time for which
--                     its owner may use this part
--          granted    units leased beyond the cost
--          delayMs    wait until the request's turn, for rules that throttle
--
-- An algorithm consists of blocks of code, which the composer puts in place of --@judge, --@charge and --@again.
-- `read` brings the state up to now and sets room, capacity, wait (if the cost does not fit) and delayMs (if it
-- has any); `charge` moves the state by `units` and sets reset; with a chargedAt, it moves only the window
-- of that moment, if that window is still there. --@state names the stored numbers (or texts: those names end with
-- Text), --@letter the letter of the stored counters (never one that another algorithm has had; m and n are taken),
-- --@local other variables that the blocks share. --@keeps names the first ones of reset and the state, if most charges
-- do not change them: then a charge writes only the rest of the record.
-- An algorithm that needs functions of its own is a module instead, which returns the two as functions;
-- `module` makes it when a check needs it.
-- Neither block touches Redis. Waits and levels are whole numbers: (a - a % b) / b is a divided by b and rounded down.
--
-- A key's value is text: the epoch ms at which the key expires, in 15 digits; FORMAT, whose semicolon begins the first
-- record; the records of its counters; a semicolon.
-- A record is
--   the counter as in ARGV, reset, and its state, with spaces between them; while it is blocked, its letter is a
--   capital and the end of the block comes before reset
-- A counter that was transferred has this instead; docs/regions.md explains why:
--   ';', id, ':', m (n if this region wants it back), epoch ms until which nothing is counted here, epoch ms until
--   which the owner may use this part, owner
-- A value that does not have this form counts as no state. A key always has a TTL: the script writes the whole value,
-- with a new TTL or with KEEPTTL. docs/decisions explains why the value is text.
--
-- All reading and judging happens in memory, before the first write, because Redis does not undo what a script wrote
-- before an error. The script first assumes that a take passes. If a check then denies it, the script works out the
-- checks before that one again, as denied.
--
-- The script must mean the same on Redis' Lua and on gopher-lua, which Upstash runs: docs/decisions has the rules, and
-- a test checks every file here. The script has no functions on purpose: making one costs Redis time in each
-- run, and so does calling it.
local FORMAT, EMPTY, HEADER = ' weir3;', '000000000000000 weir3;', 22
-- Products of units and milliseconds stay whole numbers up to here, with room for twice the capacity.
local LARGEST = 4503599627370496
-- Windows of up to 34 years, until the year 6429.
local LONGEST, LATEST = 1099511627776, 140737488355328
-- A region transfers a counter this long after its last charge stopped counting. By then that charge is over by every other
-- region's clock, too, and a caller between two requests does not look idle. Keys live this much longer.
local IDLE_MS = 5000
-- The most buckets; the distance from the code of a capital letter to that of its small letter; the code of a colon.
local MAX_BUCKETS, CAPITAL, COLON = 100, 32, 58
local INFINITY = math.huge

local ARGV, KEYS, call = ARGV, KEYS, redis.call
local find, sub, byte, format = string.find, string.sub, string.byte, string.format
--@include call

local passes, details = isTake, nil
-- The table has its first slots from the start, because growing it later costs more.
local reply = count < 3 and { now, 0, 0 } or count < 5 and { now, 0, 0, 0, 0, 0, 0 }
  or { now, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
local i = 0

while i < count do
  local first = 2 + i * width
  i = i + 1

  -- If a text is not a number, the script ends here, before it has written anything.
  --@include arguments
  --@include record
  -- The new text of the record from `changesAt` on, if it changes, and when the record expires.
  local record, expiry

  -- The result of this check alone, and its numbers in the reply.
  local fits, isNotable, isAgain, isKept, delayMs, held, wait
  local room, capacity, retryMs, granted = 0, 0, 0, 0
  --@locals

  if owner and not isTransfer then
    -- This region has transferred the counter and counts nothing: the caller asks the owner.
    isAgain = passes and i > 1
    passes = false
    fits = isAfterwards
    expiry = transferredUntil
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
      if passes and not isShadow then
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
    if isTransfer then
      --@include transferring
    elseif not owner then
      --@include charging
    end

    if record then
      --@include placing
    end

    -- The answer for this check. Every integer costs, so the usual values are left out.
    if isNotable or delayMs then
      if room < 0 or blockedUntil > now then room = 0 end
      details = details or {}
      local allowed = owner and (isTake or operation == 'peek') and '>' .. owner or fits and 1 or 0
      details[i] = { allowed, retryMs, granted, delayMs or 0 }
    end
    reply[2 * i] = room
    reply[2 * i + 1] = expiry
  end
end

-- All checks are judged. Now the script writes.
--@include writing
if details then
  local size = 1 + 2 * count
  for each = 1, count do
    local detail = details[each]
    for field = 1, 4 do reply[size + field] = detail and detail[field] or field == 1 and 1 or 0 end
    size = size + 4
  end
end
return reply

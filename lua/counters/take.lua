-- take: decides what nearly every request asks: a take whose counters are all in one key, without any option but a
-- cost and an `extra` (burst or buckets). It is one straight piece of code, because in Redis' Lua a function costs time
-- when it is made and when it is called. What it does not know, it leaves to the files after it, before it has written
-- anything: they get the time and the value that it has read. Those can do everything, and need not be fast.
--
-- KEYS   [1] the counters of one subject. records.lua describes the value
-- ARGV   [1] 'take', and the names of the optional columns: 'take', 'take cost', 'take extra', 'take cost extra'
--        then for each check:
--          counter    ';', its id (letters, digits, - and _), ':' and the letter of its algorithm
--          limit, windowMs
--          cost, extra, if they are named in [1]; '' where a check has none
-- reply  one text: the clock as TIME gives it, seconds and microseconds; '+' if all checks pass and are charged, '-' if
--        one of them denies; the value of the key as it was before. The TypeScript twin (src/core/counting/counters.ts)
--        computes the outcomes from it, because every number of a reply costs as much as twenty steps of Lua.
--
-- Each algorithm has a section of this code, in its own file after `--@take`. The section gets
--   now, limit (and as text: limitText), windowMs, cost, extra (nil if none)
--   text, letterAt    the record is in `text`, its letter at `letterAt`; both are nil if the counter does not exist
--   done              the old text up to here, which is a semicolon, is already in `new`
--   prefix            what comes before a record that is new; nil for one that exists
-- and then
--   sets isKnown = false   if it does not know what it sees: then nothing is charged here
--   sets passes = false    if the check denies: then nothing is written
--   sets last              to the semicolon after the record, if the record exists
--   adds to new            the text after `done`, up to the semicolon after the record, with the charge
--   raises newest          to the moment at which the counter is free again, if that has changed
--   raises covered         to that moment, if it has not changed: the key lives longer than that
-- `break` leaves the take to the general part. This part trusts digits where only Weir writes: those of times in records
-- and headers, and all of a bucket. To check them would cost a bucket three percent.
local ARGV, KEYS, redis = ARGV, KEYS, redis
local names, width, costAt, extraAt = ARGV[1], 3, nil, nil
if names == 'take' then
  -- No column is optional.
elseif names == 'take cost' then
  costAt = 3
  width = 4
elseif names == 'take extra' then
  extraAt = 3
  width = 4
elseif names == 'take cost extra' then
  costAt = 3
  extraAt = 4
  width = 5
else
  width = nil
end
local time, value
local count = #ARGV
-- 1501: with 500 checks. The general part refuses more.
if width and KEYS[1] and not KEYS[2] and count > width and count <= 1501 and count % width == 1 then
  local string, key = string, KEYS[1]
  local find, sub, byte, format = string.find, string.sub, string.byte, string.format
  time = redis.call('TIME')
  -- A key of another type counts as no state: GET raises an error for it, which pcall returns as a table.
  value = redis.pcall('GET', key) or ''
  -- Arithmetic turns plain digits into numbers: tonumber costs three times as much.
  local millis, text = time[2] / 1000, value
  local now = time[1] * 1000 + (millis - millis % 1)
  if text == '' then text = '000000000000000 weir3;' end
  local size = #text
  -- Now has 13 digits. A long text would make a long reply.
  local isKnown, passes = size >= 22 and size <= 1024 and now >= 1000000000000 and now < 7000000000000
    and sub(text, 16, 22) == ' weir3;', true
  -- The new records so far, the end of the old text that they stand for (at first that of the header), the latest expiry
  -- that has changed, the latest that has not, and whether there is a new counter.
  local new, done, newest, covered, isNew = '', 22, 0, 0, false
  if isKnown then
    for at = 2, count, width do
      local counter, limitText, windowMs, cost, extra = ARGV[at], ARGV[at + 1], ARGV[at + 2] * 1, 1, nil
      local limit = limitText * 1
      if width > 3 then
        if costAt and ARGV[at + costAt] ~= '' then cost = ARGV[at + costAt] * 1 end
        if extraAt and ARGV[at + extraAt] ~= '' then extra = ARGV[at + extraAt] * 1 end
        local most = extra or 1
        local product = most * windowMs
        -- An empty bucket must be full again within 2^44 ms.
        if cost < 1 or most < 1 or cost % 1 + most % 1 ~= 0 or cost > 4503599627370496 or product > 17592186044416
          and (product > 4503599627370496 or product > limit * 17592186044416) then
          isKnown = false
          break
        end
      end
      -- A name that is found needs no look at its form: the record has one. A name is never a part of another, because it
      -- has a sign at its start and before its letter (src/redis/wire.ts).
      local place, letterAt = find(text, counter, done, true)
      local code, prefix, last = byte(counter, -1), nil, nil
      if not place then
        -- A new counter, unless the id is bad, or the record is out of order, blocked, transferred or of another
        -- algorithm.
        if not find(counter, '^;[%w_-]+:%l$') or find(text, sub(counter, 1, -2), 1, true) then
          isKnown = false
          break
        end
        prefix = sub(counter, 2)
        isNew = true
      end
      -- Products of units and milliseconds are exact up to 2^52. Windows last up to 2^40 ms, so a product below that needs
      -- no further look. A remainder differs from 0 for a number that is not whole, too large or none at all.
      local product = limit * windowMs
      if limit < 1 or product < limit or limit % 1 + windowMs % 1 ~= 0
        or product > 1099511627776 and (product > 4503599627370496 or windowMs > 1099511627776) then
        isKnown = false
        break
      -- The section of each algorithm is a branch here.
      --@take
      else
        isKnown = false
        break
      end
      done = last or done
    end
  end
  if isKnown and not passes then return time[1] .. ' ' .. time[2] .. '-' .. value end
  -- The header is at least IDLE_MS (5 s) after the end of every counter in the key. So only a counter that has changed can
  -- need a new expiry, and a new counter writes the header anyway, because there may be none. A new expiry is another
  -- 10 s later, so that most charges of a bucket, which move its end, need none.
  -- Longer times than 13 digits are for the general part.
  local expires
  if not isKnown then
    -- The general part finds out.
  elseif value == '' then
    isKnown = newest < 9999999000000
    expires = newest + 15000
  elseif newest > covered or isNew then
    isKnown = not isNew or find(text, '^00%d+ weir3;')
    expires = isKnown and sub(text, 3, 15) * 1
    if not isKnown then
      -- The header is damaged, or longer.
    elseif newest + 5000 > expires then
      -- A longer header does not begin with 00. It lacks its first digits here, so it may seem too early.
      isKnown = newest < 9999999000000 and byte(text, 2) == 48
      expires = newest + 15000
    elseif not isNew then
      expires = nil
    end
  end
  if isKnown then
    if done < size then new = new .. sub(text, done + 1) end
    if expires then
      local digits = format('%d', expires)
      redis.call('SET', key, '00' .. digits .. ' weir3;' .. new, 'PXAT', digits)
    elseif #new == size - 22 then
      -- The TTL stays. The key has one, because it holds a counter that is not new; and the key lives longer than that.
      redis.call('SETRANGE', key, '22', new)
    else
      redis.call('SET', key, sub(text, 1, 22) .. new, 'KEEPTTL')
    end
    return time[1] .. ' ' .. time[2] .. '+' .. value
  end
end

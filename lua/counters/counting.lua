-- counting: judges one check by its record, changes its counter, and says what is left. The twin of
-- src/core/counting/counters.ts.

-- How long until the cost fits: 0 if it does, -1 if it never will.
local function retryOf(check, judged, now)
  if check.cost > judged.capacity then return -1 end
  local algorithm = algorithmOf(check.letter)
  local waitMs = check.cost > judged.room and algorithm.wait(judged.state, now, check, check.cost) or 0
  return math.max(waitMs, judged.blockedUntil - now, 0)
end

-- The check and its counter at `now`: state, room, capacity, delay, blockedUntil, retry; the record and its key. With
-- an owner, this region has transferred the counter, and counts nothing.
local function judge(check, keys, now)
  local key = keys[check.key]
  local record = findRecord(key, check, now)
  local algorithm = algorithmOf(check.letter)
  local state, room, capacity, delay = algorithm.advance(record and record.state, now, check)
  local judged = {
    check = check, key = key, record = record, state = state, room = room, capacity = capacity, delay = delay,
    blockedUntil = record and record.blockedUntil or 0, owner = record and record.owner,
  }
  judged.retry = retryOf(check, judged, now)
  return judged
end

local function judgeAll(checks, keys, now)
  local all = {}
  for i = 1, #checks do all[i] = judge(checks[i], keys, now) end
  return all
end

-- Moves the counter by `units`, in what was judged. Nothing is written yet.
local function charge(judged, units, now, past)
  local check = judged.check
  local algorithm = algorithmOf(check.letter)
  local state, reset = algorithm.charge(judged.state, units, now, check, past)
  judged.state = state
  judged.reset = reset
  judged.room = judged.room - units
  judged.isChanged = judged.isChanged or units ~= 0
end

-- When the whole limit is free again, and the counter may be forgotten.
local function expiryOfCounter(judged) return math.max(judged.reset, judged.blockedUntil) end

-- Puts a changed counter into its key. An operation other than a take looks at all counters of the key if this one now
-- expires earlier, and forgets those that have expired. A take does so only if it drops its own.
local function save(judged, now, isTake)
  if not judged.isChanged then return end
  local check, expiry, record = judged.check, expiryOfCounter(judged), judged.record
  local text = ''
  if expiry > now then
    local start = check.counter
    -- A block that is over stays so, even if the clock goes back.
    if judged.blockedUntil > now then
      start = string.sub(start, 1, -2) .. string.upper(check.letter) .. string.format('%d ', judged.blockedUntil)
    end
    text = start .. algorithmOf(check.letter).store(judged.state, judged.reset)
  end
  if text == '' and not record then return end
  putRecord(judged.key, record, text, text ~= '' and expiry or 0)
  if record and not isTake and expiry < record.expiry then judged.key.mustLook = true end
end

local function remainingOf(judged, now)
  return judged.blockedUntil > now and 0 or math.max(0, judged.room)
end

-- Units to charge without room for them: up to a debt of the whole capacity.
local function withinDebt(judged) return math.max(0, math.min(judged.check.cost, judged.room + judged.capacity)) end

-- Changes an earlier charge, if its window is still kept, and adds two numbers to the reply: what remains, and when the
-- whole limit is free again. An earlier charge may weigh less than its units, so what remains is read anew.
local function amend(judged, units, past, now, reply)
  if judged.owner then
    reply[#reply + 1] = 0
    reply[#reply + 1] = judged.record.expiry
    return
  end
  charge(judged, units, now, past)
  save(judged, now, false)
  local algorithm = algorithmOf(judged.check.letter)
  local state, room = algorithm.advance(judged.state, now, judged.check)
  judged.state = state
  judged.room = room
  reply[#reply + 1] = remainingOf(judged, now)
  reply[#reply + 1] = expiryOfCounter(judged)
end

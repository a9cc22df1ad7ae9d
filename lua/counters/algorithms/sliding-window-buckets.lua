-- sliding-window-buckets: the window is cut into `extra` buckets (10 if not given). A window that ends now
-- touches that many buckets and one more at its far edge, which is counted whole: so no true window ever
-- holds more than the limit, and units come free at most one bucket late.
--
-- Record: when the counter is free again, the number of the current bucket, the units in it, in the one before, and so
-- on back to the edge.
-- A bucket ahead of now means that the clock went back. The bucket stays the current one, unless the clock went back by
-- more than the window.

traits.b = { id = 'sliding-window-buckets', hasBuckets = true }
algorithms.b = function()
  local function bucketMs(check) return math.ceil(check.windowMs / (check.extra or 10)) end

  -- The current bucket, all that the window can touch before it, and the one at the edge.
  local function keptBuckets(check) return math.ceil(check.windowMs / bucketMs(check)) + 1 end

  local function leavesAt(state, place, check) return (state.number - place + 1 + keptBuckets(check)) * bucketMs(check) end

  local function resetOf(state, now, check)
    for place = 1, #state.counts do
      if state.counts[place] > 0 then return leavesAt(state, place, check) end
    end
    return now
  end

  local function parse(text)
    local _, _, number, counts = string.find(text, '^%d+ (%d+) ([%d,]+)$')
    if not number then return nil end
    local state = { number = tonumber(number), counts = {} }
    for count in string.gmatch(counts, '%d+') do state.counts[#state.counts + 1] = tonumber(count) end
    return state
  end

  -- There are 101 counts at most.
  local function store(state, reset)
    local texts = {}
    for place = 1, #state.counts do texts[place] = string.format('%.0f', state.counts[place]) end
    return string.format('%d %d %s', reset, state.number, table.concat(texts, ',', 1, #texts))
  end

  local function advance(state, now, check)
    local kept, current = keptBuckets(check), math.floor(now / bucketMs(check))
    local isStored = state and #state.counts == kept and state.number - current <= kept
    local number = isStored and math.max(state.number, current) or current
    local counts, used = {}, 0
    for place = 1, kept do
      counts[place] = isStored and state.counts[place - number + state.number] or 0
      used = used + counts[place]
    end
    return { number = number, counts = counts }, check.limit - used, check.limit, 0
  end

  local function wait(state, now, check, cost)
    local missing, place = cost - check.limit, #state.counts + 1
    for i = 1, #state.counts do missing = missing + state.counts[i] end
    repeat
      place = place - 1
      missing = missing - state.counts[place]
    until missing <= 0
    return leavesAt(state, place, check) - now
  end

  -- A refund or a settlement changes only the bucket of the charge, if it is still kept.
  local function charge(state, units, now, check, past)
    local counts = {}
    for place = 1, #state.counts do counts[place] = state.counts[place] end
    local place = past and 1 + state.number - math.floor(past.at / bucketMs(check)) or 1
    if counts[place] then counts[place] = math.max(0, counts[place] + units) end
    local after = { number = state.number, counts = counts }
    return after, resetOf(after, now, check)
  end

  return { parse = parse, store = store, advance = advance, wait = wait, charge = charge }
end

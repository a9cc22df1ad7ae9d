-- leaky-bucket: requests are poured into a bucket of size `extra` (the limit if not given) that leaks at
-- limit / windowMs units per millisecond. A request that does not fit is denied. A rule that throttles makes a request
-- wait until everything before it has leaked out, so that requests leave at an even pace.
--
-- The content of this bucket is what a token bucket lacks, so both have the same record, arithmetic and section. This
-- one also computes the wait.

traits.k = { id = 'leaky-bucket' }
algorithms.k = function()
  local bucket = algorithmOf('t')

  local function advance(state, now, check)
    local after, room, capacity = bucket.advance(state, now, check)
    -- If this request is admitted, everything before it leaves at its limit.
    return after, room, capacity, after.at - now + ceilDivide(after.missing, check.limit)
  end

  return {
    parse = bucket.parse, store = bucket.store, advance = advance, wait = bucket.wait, charge = bucket.charge,
  }
end

-- settle: charges what a request cost beyond its charge, even without room, up to a debt of the whole capacity.
--
-- ARGV   arguments.lua describes the columns. This operation also has
--          at      epoch ms at which the charge was made
--          most    charges only so much that no more than these units are used afterwards
-- reply  as of a refund, and for each check
--          charged    how many of the units were charged

operations.settle = function(checks, keys, now)
  local all, reply = judgeAll(checks, keys, now), { now }
  for i = 1, #all do
    local judged, check = all[i], all[i].check
    local units = withinDebt(judged)
    if check.most then units = math.max(0, math.min(units, check.most - judged.capacity + judged.room)) end
    amend(judged, units, { at = check.at, kept = 0 }, now, reply)
    reply[#reply + 1] = judged.owner and 0 or units
  end
  return reply
end

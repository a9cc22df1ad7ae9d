-- refund: gives units of an earlier charge back, if its window is still kept.
--
-- ARGV   arguments.lua describes the columns. This operation also has
--          at      epoch ms at which the charge was made; now if empty. Seats are found by their id
--          kept    units of that charge that stay charged
-- reply  integers: now, then for each check
--          remaining, resetAt    as for a take

operations.refund = function(checks, keys, now)
  local all, reply = judgeAll(checks, keys, now), { now }
  for i = 1, #all do
    local check = all[i].check
    amend(all[i], -check.cost, { at = check.at or now, kept = check.kept or 0 }, now, reply)
  end
  return reply
end

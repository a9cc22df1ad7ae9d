-- peek: answers as a take would, with its reply, and changes nothing.

operations.peek = function(checks, keys, now)
  local all, reply = judgeAll(checks, keys, now), { now }
  for i = 1, #all do
    all[i].fits = all[i].retry == 0
    charge(all[i], 0, now)
    addOutcome(reply, all[i], now, 0)
  end
  return reply
end

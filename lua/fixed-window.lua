-- fixed-window: at most `limit` units in each window of `windowMs`; windows are aligned to the epoch.
--
-- State, packed as text: "<start of the window, epoch ms>:<units used in it>".
-- A state from another window (older, or from a clock that went back) is as good as none.
return function(state, now, limit, windowMs)
  local start = now - now % windowMs
  local used = 0
  if state then
    local seenStart, seenUsed = string.match(state, '^(%d+):(%d+)$')
    if tonumber(seenStart) == start then used = tonumber(seenUsed) end
  end

  return {
    used = used,
    remaining = math.max(0, limit - used),
    resetAt = start + windowMs,
    admits = function(cost) return used + cost <= limit end,
    -- Waiting helps at the end of the window, unless the cost can never fit.
    retryMs = function(cost) return cost > limit and -1 or start + windowMs - now end,
    charged = function(cost) return string.format('%.0f:%.0f', start, used + cost) end,
    ttlMs = start + windowMs - now,
  }
end

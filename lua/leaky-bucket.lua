-- leaky-bucket: requests are poured into a bucket of size `extra` (the limit if not given) that leaks at
-- limit / windowMs units per millisecond. What does not fit is denied. A rule that throttles lets a request wait
-- until all that was poured in before it has leaked out: then requests leave at an even pace.
--
-- The content of this bucket is what a token bucket lacks: same state, same arithmetic. It also tells the wait.

--@letter k
--@like token-bucket

--@read
local behind = missing % limit
delayMs = missingAt - now + (missing - behind) / limit + (behind > 0 and 1 or 0)

-- leaky-bucket: requests are poured into a bucket of size `extra` (the limit if not given) that leaks at
-- limit / windowMs units per millisecond. A request that does not fit is denied. A rule that throttles makes a request
-- wait until everything before it has leaked out, so that requests leave at an even pace.
--
-- The content of this bucket is what a token bucket lacks, so both have the same state and arithmetic. This one also
-- computes the wait.

--@letter k
--@like token-bucket

--@read
local behind = missing % limit
delayMs = missingAt - now + (missing - behind) / limit + (behind > 0 and 1 or 0)

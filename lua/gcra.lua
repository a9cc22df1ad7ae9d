-- gcra: the generic cell rate algorithm. Requests have an even spacing T = W / limit; each moves the
-- theoretical arrival time (TAT) of the next one T further. A request passes if that leaves TAT at most
-- `extra` spacings (the limit if not given) ahead of now.
--
-- TAT is the moment when a token bucket of the same size is full again: (TAT - now) * limit / W tokens are missing. So
-- gcra uses the state and the arithmetic of a token bucket, which also handles a clock that went back.

--@letter g
--@like token-bucket

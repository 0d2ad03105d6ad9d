"""The judge service: one queue, one pool of keys, one cache and one budget for all jobs.

`service.JudgeService` is what the rest of the daemon uses. Around it, without I/O and each with its own tests: `keys`
(keys, limits, outages), `fair_queue` (whose turn it is), `spending`, `retry` (what a failure means), `replies` (replies
as they come off the wire); and `http_client`, the only part that speaks HTTP.
"""

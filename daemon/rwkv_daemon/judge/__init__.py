"""The judge service: one queue, one pool of keys, one cache and one budget for all jobs.

`service.JudgeService` is what the rest of the daemon uses. Around it, without I/O and each with its own tests: `pool`
(keys, limits, outages), `waiting` (whose turn it is), `budget`, `retrying` (what a failure means), `reading` (replies
as they come off the wire); and `transport`, the only part that speaks HTTP.
"""

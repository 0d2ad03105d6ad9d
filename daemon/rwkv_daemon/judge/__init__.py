"""The judge service: one queue, one pool of keys, one cache and one budget for all jobs.

`judge_service.JudgeService` is what the rest of the daemon uses. Around it, without I/O and each with its own tests:
`key_pool` (keys, limits, outages), `request_queue` (whose turn it is), `spending`, `failures` (what a failure means),
`chat_completion` (replies as they come off the wire); and `http_client`, the only part that speaks HTTP.
"""

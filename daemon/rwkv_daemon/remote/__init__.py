"""Models behind OpenAI-compatible servers: the judge and `[endpoints.NAME]` ask through the same exchange.

`dispatcher.Exchange` keeps one queue, one pool of keys, one cache and one budget for all jobs of a model. Around it,
without I/O and each with its own tests: `key_pool` (keys, limits, outages), `request_queue` (whose turn it is),
`spending`, `failures` (what a failure means), `server_reply` (replies as they come off the wire); and `http_client`,
the only part that speaks HTTP.

`remote_model.RemoteModel` serves such a model to runners: over a socket that speaks the engine's protocol.
"""

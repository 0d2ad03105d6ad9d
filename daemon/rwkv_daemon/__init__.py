"""rwkv_daemon: what the node runs (queue, supervision, store, API). It never imports torch."""

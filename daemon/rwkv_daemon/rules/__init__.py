"""Pure tables and decisions. They import the protocol, and `rwkv_weights.local.file_names`, which is pure, too."""

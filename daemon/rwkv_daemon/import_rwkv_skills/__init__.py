"""Taking in results of rwkv-skills: its v3 files, its old summaries, and its database's tables as JSONL.

`discovery` finds what belongs together, `v3`, `tables` and `old_summaries` read the three layouts, `rescore` computes the
statistics from the samples, and `storing` stores each score in one transaction. Files are hostile until they have been
read whole once: bad ones are named with their line and leave nothing behind.
"""

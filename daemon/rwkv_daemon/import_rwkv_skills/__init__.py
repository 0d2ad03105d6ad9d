"""Import of rwkv-skills' results: its v3 files, its old summaries, and its database's tables as JSONL.

`discovery` finds the files of each score, `v3`, `tables` and `old_summaries` read the three layouts, `rescore` computes
the statistics from the samples, and `storing` stores each score in one transaction. Files are not trusted until they
have been read whole once: a bad file is reported with its line, and nothing of it is stored.
"""

"""Pushing an exported folder of training rows to a dataset repository of the Hugging Face hub.

`repo_name` says which names there can be, `foreign_files` which files of others stand in the way, `dataset_repo` speaks
with the hub and alone imports its library, and `pushing` decides: what is looked at before rows are written, and what
is pushed.
"""

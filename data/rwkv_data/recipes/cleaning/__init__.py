"""Cleaning of training problems: which of them stand too near a row of a benchmark, and which repeat an earlier one.

`words` says what a word is, `row_text` and `problem_text` which text of a row is compared, `rules` the rules.
"""

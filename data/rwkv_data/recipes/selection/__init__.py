"""Which measured samples become training data, and which become preference pairs: pure functions over values.

`problem_sample` is what they choose from, `selector` the rules for single samples; `short_long`, `silc` and
`thought_pair` make pairs (`preference_pair`), the last one with the variants of `thought_variants`.
"""

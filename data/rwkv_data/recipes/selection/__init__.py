"""Which measured samples become training data, and which become preference pairs: pure functions over values.

`problem_sample` is what they choose from, `selector` the rules for single samples, `short_long` and `silc` make pairs
(`preference_pair`).
"""

"""In which order the jobs of a recipe are read."""

from itertools import permutations

from rwkv_daemon.recipes.row_order import SampleSource
from rwkv_daemon.recipes.sampled_problems import in_recipe_order


def test_variants_come_behind_all_others_in_the_order_of_what_they_are_of() -> None:
    jobs = (SampleSource(9, "a"), SampleSource(4, "b"), SampleSource(12, "c", rewrites=7))
    variants = [SampleSource(20 + one.job, "d", variants_of=one.job) for one in jobs]
    for queued in permutations(variants):
        assert in_recipe_order((*jobs, *queued)) == [*jobs, *variants]

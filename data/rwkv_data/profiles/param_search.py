"""Searches for the sampling of a chain of thought: rwkv-skills' 192 points on a benchmark's own prompts and grader."""

from dataclasses import replace

from rwkv_data.definition.kind import Kind
from rwkv_data.definition.sampling_search import RWKV_SKILLS_GRID, Search


def param_search(kind: Kind) -> Kind:
    """Return the search over a kind's first stage, on the rows that are set aside for it. It runs only when named.

    If the kind is judged, the race uses the rule's grades, and the judge grades the points that stayed in it.
    """
    search = Search(stage=kind.stages[0].name, grid=RWKV_SKILLS_GRID)
    return replace(
        kind,
        name=f"param_search_{kind.name}",
        domain="param_search",
        search=search,
        repeats=len(search.points),
        part="search",
        metrics=("accuracy",),
        group_by="",
        default=False,
    )

r"""NuminaMath-CoT by source: competition problems with a worked solution that ends in a box (Li et al. 2024,
https://huggingface.co/datasets/AI-MO/NuminaMath-CoT).

    {"source": "olympiads", "problem": "Find all ...", "solution": "... $\\boxed{2}$.", "messages": [...]}

The catch: the set has no answers. The answer is the content of the solution's last box, so a problem whose solution has
no box, an empty one, or one that is cut off is left out and counted; proofs and many solutions of olympiads have none.
An answer of the AMC may be its letter (`\textbf{(B)}`), with or without the value. The 859,494 rows are of nine
sources, and all of them lie in the same files: the hub's client keeps those, so a second source of the set is read
without being fetched again.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from rwkv_data.definition import rows
from rwkv_data.definition.benchmark import Benchmark, Example, HubSource
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row
from rwkv_data.graders.maths.boxed import closes_box, last_box
from rwkv_data.graders.maths.grader import GRADER
from rwkv_data.profiles.free_response import free_response
from rwkv_data.profiles.maths_set import examples, maths_set

SOURCE: Final = HubSource("AI-MO/NuminaMath-CoT", "default", "train")
FILES: Final = ("train.jsonl", "data/train-*.parquet", "train-*.parquet")


def of_source(source: str) -> Callable[[Iterable[Row]], Iterator[Row]]:
    """Return the function that keeps the rows of one source."""
    return lambda raws: (raw for raw in raws if raw.get("source") == source)


def numina_row(raw: Row) -> dict[str, Any] | None:
    """A problem with its solution and the answer in the last box; None where there is no problem or no answer."""
    solution = str(raw.get("solution") or "")
    answer = last_box(solution) if _is_whole(solution) else None
    if not answer or not str(raw.get("problem") or "").strip():
        return None
    source = rows.text(raw, "source")
    return {"question": rows.text(raw, "problem"), "answer": answer, "solution": solution, "source": source}


def _is_whole(solution: str) -> bool:
    """Whether the last box is closed: the answer in one that is cut off may lack its end."""
    _, box, rest = solution.rpartition("\\boxed{")
    return not box or closes_box(rest)


def kinds() -> dict[str, Kind]:
    """Return the kinds of a maths set."""
    return maths_set(free_response(GRADER))


def benchmark(name: str, source: str, title: str, row: Row, wrong: str, more: tuple[Example, ...]) -> Benchmark:
    """Return the training set of one source. `row` is graded right and, with the answer `wrong`, wrong in every
    kind."""
    known = kinds()
    return Benchmark(
        name=name,
        version=1,
        domain="free_response",
        title=title,
        licence="Apache-2.0",
        split="train",
        rows=0,
        source=SOURCE,
        expand=of_source(source),
        from_source=numina_row,
        check_row=rows.check_question,
        local_files=FILES,
        kinds=known,
        examples=(*examples(known, row, row["answer"], wrong), *more),
        schema_verified=False,
        training=True,
    )

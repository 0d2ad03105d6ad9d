"""albatross: MATH-500 as the community measures RWKV (BlinkDL/Albatross, eval_math500.py).

The thinking block is opened and closed at once, without the `>` of its end, which the model writes. 16 rollouts at
temperature 1; reported are their mean accuracy (rollout accuracy there, avg@16 here) and pass@16.
"""

from rwkv_data.definition.grader import Grader
from rwkv_data.definition.kind import Kind
from rwkv_data.definition.stage import Row, Stage
from rwkv_data.profiles import ALBATROSS
from rwkvctl.protocol.engine import Sampling, Stops

NAME = "free_response.albatross"


def prompt(row: Row) -> str:
    """Return the problem with an empty thinking block, whose last `>` is left to the model."""
    return f"User: {row['question']}\n\nAssistant: <think></think"


def albatross(grader: Grader, *, group_by: str = "") -> Kind:
    """Return the kind of one stage, whose whole completion is graded."""
    profile, version = ALBATROSS
    stage = Stage(
        name="answer",
        mode="generate",
        prompt=prompt,
        sampling=Sampling(max_tokens=1500, temperature=1.0, top_p=0.28, top_k=32),
        stops=Stops(suffixes=("\nUser:",)),
    )
    return Kind(
        name=NAME,
        profile=profile,
        profile_version=version,
        stages=(stage,),
        grader=grader,
        repeats=16,
        metrics=("avg@16", "pass@16"),
        group_by=group_by,
        default=False,
    )

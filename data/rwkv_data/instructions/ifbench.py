"""The 58 rules of IFBench (Pyatkin et al. 2025, arXiv 2507.02833; allenai/IFBench), by their published names."""

from collections.abc import Mapping
from typing import Final

from rwkv_data.instructions import (
    ifbench_count,
    ifbench_custom,
    ifbench_format,
    ifbench_sentence,
    ifbench_words,
)
from rwkv_data.instructions.rule import InstructionRule

RULES: Final[Mapping[str, InstructionRule]] = {
    **ifbench_count.RULES,
    **ifbench_sentence.RULES,
    **ifbench_words.RULES,
    **ifbench_format.RULES,
    **ifbench_custom.RULES,
}

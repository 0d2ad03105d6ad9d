"""What a benchmark file is written with: the names that ours and an operator's own files import.

They keep their names and their place here, whatever is renamed or moved behind them.
"""

from rwkv_data.definition.answer import Answer, Grade, Reason
from rwkv_data.definition.benchmark import Benchmark, Example, HubSource, WebSource, by_name
from rwkv_data.definition.errors import RowError
from rwkv_data.definition.few_shot import FewShot as Shots
from rwkv_data.definition.grader import GradeFunction, Grader
from rwkv_data.definition.grader import SandboxPlace as Place
from rwkv_data.definition.kind import Domain, Kind
from rwkv_data.definition.stage import Row, Stage

__all__ = [
    "Answer",
    "Benchmark",
    "Domain",
    "Example",
    "Grade",
    "GradeFunction",
    "Grader",
    "HubSource",
    "Kind",
    "Place",
    "Reason",
    "Row",
    "RowError",
    "Shots",
    "Stage",
    "WebSource",
    "by_name",
]

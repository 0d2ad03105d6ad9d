"""The registry imports no heavy library."""

import json
import subprocess
import sys

LIGHT = """
import json, sys
from rwkv_data.definition import registry
from rwkv_data.prepare import prepared_sets
from rwkv_data.reference import show
from rwkv_data.scoring import metric_names, score
for name in registry.names():
    registry.load(name)
    show.show(registry.load(name))
heavy = {"datasets", "huggingface_hub", "sympy", "math_verify", "torch", "numpy", "pandas", "textual", "rich"}
print(json.dumps(sorted(heavy & set(sys.modules))))
"""


def test_all_benchmarks_load_without_anything_heavy() -> None:
    run = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == []

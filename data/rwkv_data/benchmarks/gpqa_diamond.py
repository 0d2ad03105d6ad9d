"""GPQA, the selection "diamond". Its rows, their secrecy and their order: see
rwkv_data.prepare.row_shapes.choice_gpqa."""

from rwkv_data.prepare.row_shapes.choice_gpqa import benchmark

BENCHMARK = benchmark("diamond", 198)

"""Parsing in tests, while garbage is collected."""

import ast
import gc

SOURCE = "def f(x):\n" + "".join(f"    y{number} = (x + {number}) * [x, {{1: x}}][{number}]\n" for number in range(500))


def test_a_parse_is_not_interrupted_by_the_garbage_collector_which_may_begin_another() -> None:
    def parses(phase: str, _info: object) -> None:
        if phase == "start":
            ast.parse("a = 1")

    often = gc.get_threshold()
    gc.callbacks.append(parses)
    gc.set_threshold(1)
    try:
        assert len(ast.parse(SOURCE).body) == 1
    finally:
        gc.set_threshold(*often)
        gc.callbacks.remove(parses)

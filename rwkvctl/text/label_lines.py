"""What was labelled, in sentences: for the command line, and for the program that reads files of labels."""

from collections.abc import Mapping
from typing import Any

from rwkvctl.text.shell_words import as_typed


def label_lines(made: Mapping[str, Any]) -> list[str]:
    """Return the lines about labels, of which `made` has the fields of a `rwkvctl.labels/1`."""
    lowest, highest = made.get("lowest"), made.get("highest")
    span = "" if lowest is None or highest is None else f", from {lowest:g} to {highest:g}"
    lines = [f"{made['name']}: {made['labelled']:,} of {made['rows']:,} rows of {made['benchmark']} have a label{span}"]
    if missing := ", ".join(f"{count:,} {why}" for why, count in made.get("unlabelled", {}).items()):
        lines.append(f"no label: {missing}")
    test = "=VALUE" if highest is None else f"<={highest:g}"
    dispatch = ["rwkvctl", "dispatch", "--only-datasets", made["benchmark"], "--set", f"where={made['field']}{test}"]
    return [*lines, f"to pick rows by it: {as_typed(dispatch)}"]

"""What was labelled, in sentences: for the command line, and for the program that reads files of labels."""

from collections.abc import Mapping
from typing import Any

from rwkvctl.protocol.states import REASONS
from rwkvctl.text.quantities import several
from rwkvctl.text.shell_words import as_typed


def label_lines(made: Mapping[str, Any]) -> list[str]:
    """Return the lines about labels, of which `made` has the fields of a `rwkvctl.labels/1`."""
    lowest, highest = made.get("lowest"), made.get("highest")
    span = "" if lowest is None or highest is None else f", from {lowest:g} to {highest:g}"
    lines = [f"{made['name']}: {made['labelled']:,} of {made['rows']:,} rows of {made['benchmark']} have a label{span}"]
    if missing := ", ".join(f"{count:,} {why}" for why, count in made.get("unlabelled", {}).items()):
        lines.append(f"no label: {missing}")
    test = "=VALUE" if highest is None else f"<={highest:g}"
    return [*lines, f"to pick rows by it: {dispatch_of(made['benchmark'], made['field'], test)}"]


def dispatch_of(benchmark: str, field: str, test: str) -> str:
    """Return the command that picks rows by their labels."""
    return as_typed(["rwkvctl", "dispatch", "--only-datasets", benchmark, "--set", f"where={field}{test}"])


def labelling_lines(made: Mapping[str, Any], *, check: bool) -> list[str]:
    """Return the lines about a labelling, of which `made` has the fields of a `rwkvctl.labelling/1`. With `check`
    nothing was changed."""
    job, what = made.get("job", ""), f"{several(made['rows'], 'row')} of {made['benchmark']} by {made['rule']}"
    why = made.get("detail") or REASONS[made["reason"]]
    match made["action"], made["reason"]:
        case "run", _:
            line = f"would label {what}" if check else f"{job} labels {what}"
        case "hold", _:
            line = f"{job or 'the job'} {'would be' if check else 'is'} held, and labels {what} later: {why}"
        case "skip", "done":
            line = f"{job} has labelled {what} already" + (f": {made['labels']}" if made.get("labels") else "")
        case "skip", _:
            line = f"{job} labels {what} already: {why}"
        case _:
            line = f"{job} {'would go' if check else 'goes'} on, and label{'' if check else 's'} {what}: {why}"
    if made["reason"] == "done" or check:
        return [line]
    return [line, f"when it is done, rows are picked by {dispatch_of(made['benchmark'], made['field'], '>=4')}"]

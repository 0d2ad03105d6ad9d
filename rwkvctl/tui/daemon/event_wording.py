"""The sentence of an event: what happened, then to which job. Pure."""


def news(job: str, text: str) -> str:
    """The daemon names the model, the benchmark and the kind before it says what became of the job: on a narrow screen
    that is what would be cut off. `m b k: done` becomes `done · m b k`."""
    whom, colon, what = text.partition(": ")
    return f"{what} · {whom}" if job and colon and len(whom.split(" ")) == 3 else text

"""`rwkvctl report`: the scores as one page."""

from pathlib import Path
from typing import Final

from rwkvctl.cli.context import Context
from rwkvctl.cli.parser import UsageError
from rwkvctl.cli.registry import verb
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.text.progress_meter import Meter
from rwkvctl.text.quantities import count, size

LARGEST: Final = 40 * 2**20
"""Bytes of a report: what a browser opens at once and a mail server may still take."""

MOST_SAMPLES: Final = 500


@verb
def report(
    context: Context, file: str, *, model: list[str] = [], benchmark: list[str] = [], baseline: list[str] = [],  # noqa: B006
    samples: int = 20, force: bool = False,
) -> int:  # fmt: skip
    """Write the scores as one HTML file, to be read without network, server or rwkvctl.

    It has the matrix of models and benchmarks with intervals and paired
    verdicts against a baseline that the reader chooses, the scores over the
    checkpoints, every run with its provenance, and samples, wrong ones first.
    Of long texts only the end is kept. The page says what is left out. The
    same store gives the same file. Scores of training sets are in no report.

    file: where to write it
    model: only these models: names or patterns
    benchmark: only these benchmarks: names or patterns
    baseline: the models to choose from as the baseline (the newest ones, if none is named)
    samples: at most this many samples per run, 0 for none
    force: replace an existing file

    $ rwkvctl report scores.html
    $ rwkvctl report g1.html --model 'rwkv7-g1*' --benchmark gsm8k mmlu --samples 50
    """
    from rwkvctl.export.output import refuse_existing, whole_file
    from rwkvctl.export.report import drill, facts, gather, page

    if not 0 <= samples <= MOST_SAMPLES:
        raise UsageError(f"rwkvctl report: --samples takes 0 to {MOST_SAMPLES}.")
    if not force:
        refuse_existing(Path(file))
    with Meter() as meter:
        found = gather.gather(context.client, gather.ReportFilters(model, benchmark, baseline), meter.show)
        plan = drill.plan([score["n"] for score in found.scores.values()], samples)
        known = facts.facts(found, drill.samples_of(context.client, found.scores, plan, meter.show))
    notes = page.notes(found, known, plan, samples, named=bool(baseline))
    text = page.page(found, known, notes)
    if (whole := len(text.encode(errors="backslashreplace"))) > LARGEST:
        detail = f"The report would be {size(whole)}, above the limit of {size(LARGEST)}."
        raise RefusedError("too-large", detail, "Choose fewer with --model and --benchmark.", Exit.REFUSED)
    with whole_file(Path(file), force=force) as out:
        out.write(text)
    shown = sum(len(run["samples"]) for run in known["runs"].values())
    said = f"wrote {file}: {count(len(found.scores))} runs, {count(shown)} samples, {size(whole)}"
    context.show_local("rwkvctl.report/1", {"file": file, "runs": len(found.scores), "samples": shown, "bytes": whole},
                       headline=[said])  # fmt: skip
    return Exit.OK

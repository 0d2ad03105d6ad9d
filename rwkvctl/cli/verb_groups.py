"""Verbs in groups for the overview, and words of other programs that lead to a verb."""

from typing import Final

from rwkvctl.cli.registry import did_you_mean

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "the queue": ("queue", "dispatch", "status", "jobs", "show", "logs", "stop", "pause", "resume", "hold", "release",
                  "retry", "priority", "delete", "undelete", "prune"),
    "results": ("scores", "samples", "compare", "gate", "baseline", "report", "export", "import", "regrade", "search",
                "judge", "review"),
    "a training run": ("watch", "feedback", "order"),
    "training data": ("recipe", "rewrite", "decontaminate"),
    "models and benchmarks": ("models", "endpoints", "weights", "benchmarks", "suites", "harness", "data",
                              "engine", "serve"),
    "the node": ("gpus", "zombies", "reap", "drain", "daemon", "service", "reload", "config", "doctor", "notify",
                 "metrics"),
    "records and the store": ("events", "job-log", "audit", "backup", "restore", "migrate", "rebuild"),
    "console and help": ("tui", "help", "man", "completion", "version"),
}  # fmt: skip
"""The first words of all verbs, by what they are about, in the order of the overview."""

TYPED: Final = {
    verb: words.split()
    for verb, words in {
        "status": "ps st stat info overview node nodes workers running",
        "jobs": "ls list job tasks task runs squeue qstat history",
        "tui": "top htop ui gui console dashboard interactive",
        "logs": "log tail stdout output",
        "dispatch": "run eval evaluate submit sbatch start launch enqueue add bench benchmark test exec schedule",
        "queue": "plan preview dry-run",
        "scores": "results result score leaderboard metric",
        "samples": "answers outputs completions sample",
        "compare": "diff cmp vs",
        "show": "describe inspect detail details get",
        "models": "model checkpoints checkpoint",
        "suites": "suite collection collections",
        "harness": "harnesses lm-eval lm_eval opencompass evalplus lighteval",
        "benchmarks": "datasets dataset evals",
        "weights download": "download pull fetch",
        "weights merge": "merge lora adapter peft pissa bone",
        "data prepare": "prepare",
        "decontaminate": "dedup dedupe deduplicate contamination leak leaks",
        "gpus": "gpu nvidia-smi devices device",
        "zombies": "procs processes",
        "config show": "settings env configure",
        "doctor": "check health diagnose setup init",
        "resume": "continue unpause",
        "retry": "rerun requeue restart again",
        "priority": "nice renice prio",
        "report": "html",
        "audit": "who whodunit",
        "version": "ver",
        "help": "usage commands",
        "serve": "server",
    }.items()
}
"""Words of other programs, by the verb that they mean here."""

STOPPERS: Final = frozenset(
    {"cancel", "kill", "rm", "remove", "abort", "terminate", "end", "del", "clear", "clean", "purge",
     "scancel", "qdel", "quit", "halt", "drop", "reset", "wipe"}
)  # fmt: skip
"""Words that mean to end or remove something: the error explains how, and proposes no verb."""

DESTRUCTIVE: Final = frozenset(
    {"stop", "reap", "drain", "restore", "rebuild", "migrate", "delete", "prune", "gpus drain", "gpus quarantine",
     "gpus forget", "service uninstall"}
)  # fmt: skip
"""Verbs that end or replace something: proposed for a slip of the finger only, never for another word."""

SLIP: Final = 0.8


def meant(word: str, known: list[str]) -> str:
    """What may have been meant by a word that begins no verb, as a sentence after a blank; empty if nothing."""
    if word in STOPPERS:
        return " `rwkvctl stop JOB` stops a job, `rwkvctl delete JOB` takes it out of every list. Nothing was done."
    named = next((verb for verb, words in TYPED.items() if word in words), "")
    if named:
        return f" Did you mean '{named}'?"
    closest = did_you_mean(word, known)
    proposed = closest.partition("'")[2].rpartition("'")[0]
    return "" if proposed in DESTRUCTIVE and not is_slip(word, proposed) else closest


def is_slip(word: str, verb: str) -> bool:
    """Return whether a word is this very verb, mistyped: its letters in another order, or nearly all of it."""
    from difflib import SequenceMatcher

    return sorted(word) == sorted(verb) or SequenceMatcher(None, word, verb).ratio() > SLIP

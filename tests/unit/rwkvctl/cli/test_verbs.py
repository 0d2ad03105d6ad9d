"""One registry feeds the parser, the help, the reference page and the completion."""

import inspect
from pathlib import Path

import pytest

from rwkvctl.cli import completion, registry
from rwkvctl.cli.commands.dispatch import question_about, summary, without_rows
from rwkvctl.cli.completion import candidates
from rwkvctl.cli.parser import UsageError, arguments, overview, parser_for, reference, unknown_verb
from rwkvctl.cli.reference import json_page
from rwkvctl.cli.registry import Verb, find, load_all
from rwkvctl.cli.selection import Filters, SelectionError, body
from rwkvctl.cli.verb_groups import DESTRUCTIVE, GROUPS, STOPPERS, TYPED, meant

ALL = [verb.words for verb in load_all()]
PROMISED = {
    "queue", "dispatch", "status", "logs", "stop", "resume", "scores", "samples", "jobs", "models", "benchmarks",
    "benchmarks show", "data prepare", "data list", "doctor", "config show", "daemon", "engine serve", "tui",
    "completion", "version", "help",
}  # fmt: skip
RWKV_SKILLS = {
    "--models",
    "--model-regex",
    "--model-select",
    "--only-jobs",
    "--skip-jobs",
    "--only-datasets",
    "--skip-datasets",
    "--min-param-b",
    "--max-param-b",
    "--domains",
    "--job-order",
    "--max-samples",
    "--limit",
    "--skip-missing-dataset",
    "--run-log-dir",
    "--overwrite",
    "--set",
    "--seed",
    "--numerics",
    "--priority",
}


def by_name(words: str) -> Verb:
    found = find(words.split())
    assert found is not None
    return found


def test_every_promised_verb_is_there() -> None:
    assert set(ALL) >= PROMISED


@pytest.mark.parametrize("words", ALL)
def test_every_verb_explains_itself(words: str) -> None:
    verb = by_name(words)
    assert verb.summary.endswith((".", "`."))
    assert verb.examples
    assert all(example.startswith(("rwkvctl ", "sudo rwkvctl ", "source", "RWKVCTL_")) for example in verb.examples)
    assert all(option.help for option in verb.options), [option.name for option in verb.options if not option.help]
    assert all(
        len(line) <= 80 for line in parser_for(verb).format_help().splitlines() if not line.startswith("  rwkvctl")
    )


@pytest.mark.parametrize("words", ALL)
def test_no_line_of_a_docstring_is_lost_in_the_help(words: str) -> None:
    """Nor anywhere else that the registry's words are shown: `Classes: ...` is text where no parameter is called so."""
    verb = by_name(words)
    shown = "".join(parser_for(verb).format_help().split())
    for line in (inspect.getdoc(verb.run) or "").splitlines():
        said = line.removeprefix("$ ").partition(": ")[2] if line.partition(": ")[0] in verb.helps else line
        assert "".join(said.removeprefix("$ ").split()) in shown, line


@pytest.mark.parametrize("words", ["queue", "dispatch"])
def test_filter_flags_of_rwkv_skills(words: str) -> None:
    flags = {flag for option in by_name(words).options for flag in option.flags}
    assert flags >= RWKV_SKILLS


def test_queue_takes_every_filter_that_dispatch_takes() -> None:
    groups = [{option.name for option in by_name(words).options if option.group} for words in ("queue", "dispatch")]
    assert groups[0] == groups[1]


def test_filters_become_a_selection() -> None:
    words = "--models a b --model-regex g1.* --max-samples 5 --set t=0 x=a=b --seed 7 --numerics fast --overwrite"
    words += " --min-param-b 0"
    values, _ = arguments(by_name("dispatch"), words.split())
    assert body(values["filters"], "/h") == {
        "models": ["a", "b"], "model_regex": ["g1.*"], "limit": 5, "settings": {"t": "0", "x": "a=b"}, "seed": 7,
        "numerics": "fast", "min_param_b": 0.0, "overwrite": True,
    }  # fmt: skip


def test_nothing_given_is_an_empty_selection() -> None:
    assert body(arguments(by_name("queue"), [])[0]["filters"], "/h") == {}


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        (Filters(model_regex=["("]), "--model-regex"),
        (Filters(limit=0), "--limit"),
        (Filters(set=["temperature"]), "--set takes name=value"),
        (Filters(min_param_b=2.0, max_param_b=1.0), "no model can match"),
    ],
)
def test_wrong_filters_are_refused_in_their_own_words(filters: Filters, says: str) -> None:
    with pytest.raises(SelectionError, match=says.replace("(", "\\(")):
        body(filters, "/h")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["status", "--sesion-id", "x"], "unknown flag '--sesion-id'. Did you mean '--session-id'?"),
        (["status", "extra"], "unknown argument 'extra'"),
        (["jobs", "--state", "dead"], "invalid choice"),
        (["samples"], "required"),
        (["jobs", "--limit", "x"], "invalid int"),
    ],
)
def test_usage_errors_are_one_sentence(words: list[str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        arguments(by_name(words[0]), words[1:])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_short_flag_from_the_docstring() -> None:
    values, _ = arguments(by_name("logs"), ["-f", "j1"])
    assert values["follow"] is True
    assert values["target"] == "j1"


def test_same_name_twice_is_refused() -> None:
    def status() -> int:
        return 0

    by_name("status")
    with pytest.raises(ValueError, match="two functions"):
        registry.verb(status)


def test_overview_lists_every_verb_and_exit_code() -> None:
    text = overview()
    assert all(f"  {words} " in text for words in ALL)
    assert "141" in text


def test_overview_has_every_verb_in_one_group() -> None:
    grouped = [first for firsts in GROUPS.values() for first in firsts]
    assert sorted(grouped) == registry.first_words(), "rwkvctl.cli.verb_groups.GROUPS"
    text = overview()
    assert text.index("the queue:") < text.index("  dispatch ") < text.index("results:") < text.index("  scores ")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("stop", "rwkvctl stop [JOBS ...] [--model MODEL] [--session-id ID] [--all] [--yes] [--timeout TIMEOUT]"),
        ("hold", "rwkvctl hold JOBS ... [--reason REASON]"),
        ("status", "rwkvctl status [--session-id ID] [--limit LIMIT] [--watch [WATCH]] [--plain]"),
        ("gpus reserve", "rwkvctl gpus reserve GPUS ... --for FOR [--until-exit EXIT] [--probe PROBE]"),
        ("gpus history", "rwkvctl gpus history [GPU] [--since SINCE] [--step STEP]"),
        ("review mark", "rwkvctl review mark SAMPLE right|wrong"),
        ("queue", "rwkvctl queue"),
    ],
)
def test_usage_shows_what_is_optional(words: str, expected: str) -> None:
    usage = parser_for(by_name(words)).format_help().partition("\n\n")[0]
    assert " ".join(usage.split()) == f"usage: {expected} [flags]"


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        *(("ps", "'status'"), ("ls", "'jobs'"), ("top", "'tui'"), ("eval", "'dispatch'"), ("run", "'dispatch'")),
        *(("list", "'jobs'"), ("job", "'jobs'"), ("log", "'logs'"), ("nodes", "'status'"), ("results", "'scores'")),
        *(("statsu", "'status'"), ("sampels", "'samples'"), ("gpu", "'gpus'")),
    ],
)
def test_a_word_that_is_no_verb_leads_to_one(typed: str, says: str) -> None:
    assert f"Did you mean {says}?" in str(unknown_verb(typed))


@pytest.mark.parametrize("typed", ["cancel", "rm", "kill", "clear", "scancel"])
def test_who_wants_an_end_is_told_how_and_nothing_is_proposed(typed: str) -> None:
    said = str(unknown_verb(typed))
    assert "`rwkvctl stop JOB` stops a job, `rwkvctl delete JOB` takes it out of every list. Nothing was done." in said
    assert "Did you mean" not in said


@pytest.mark.parametrize(
    "typed", ["step", "sloop", "shop", "train", "brain", "reboot", "rebase", "mirror", "reset2", "leap"]
)
def test_no_verb_that_destroys_is_proposed_for_another_word(typed: str) -> None:
    assert not any(f"'{verb}'" in meant(typed, registry.first_words()) for verb in DESTRUCTIVE)


def test_a_slip_of_the_finger_is_understood() -> None:
    assert "'stop'" in meant("stpo", registry.first_words())
    assert "'restore'" in meant("restor", registry.first_words())
    assert "'gpus drain'" in meant("gpus drian", ["gpus drain", "gpus forget"])


def test_everything_that_is_proposed_is_a_verb() -> None:
    assert all(by_name(words).words == words for words in TYPED)
    typed = [word for words in TYPED.values() for word in words]
    assert len(set(typed)) == len(typed)
    assert not set(typed) & (STOPPERS | set(registry.first_words()))
    assert not set(TYPED) & DESTRUCTIVE


def test_reference_page_is_fresh() -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "verbs.md"
    assert page.read_text(encoding="utf-8") == reference(), "run: rwkvctl help --markdown > docs/verbs.md"


def test_json_page_is_fresh() -> None:
    page = Path(__file__).resolve().parents[4] / "docs" / "json.md"
    assert page.read_text(encoding="utf-8") == json_page.page(), (
        "run: python -m rwkvctl.cli.reference.json_page > docs/json.md"
    )


def rows_of(action: str, reason: str, number: int) -> list[dict[str, str]]:
    return [{"model": "m", "benchmark": f"b{n}", "action": action, "reason": reason} for n in range(number)]


@pytest.mark.parametrize(
    ("rows", "most", "expected"),
    [
        (rows_of("run", "run", 50), 50, ""),
        (rows_of("run", "run", 51), 50, "Queue 51 jobs: 1 model on 51 benchmarks?"),
        (rows_of("resume", "resume", 3), 2, "Queue 3 jobs: 1 model on 3 benchmarks?"),
        (rows_of("run", "run", 5000), 0, ""),
        (rows_of("skip", "done", 60), 50, ""),
        (rows_of("hold", "data-missing", 2), 50, "Queue 2 jobs that would all be held (data-missing)?"),
        (rows_of("hold", "data-missing", 2), 0, "Queue 2 jobs that would all be held (data-missing)?"),
        (rows_of("hold", "data-missing", 2) + rows_of("run", "run", 1), 50, ""),
        (rows_of("hold", "weights-hashing", 2), 50, ""),
    ],
)
def test_what_is_asked_before_jobs_are_queued(rows: list[dict[str, str]], most: int, expected: str) -> None:
    assert question_about(rows, most) == expected


def test_what_has_no_rows_is_left_out_unless_it_is_to_be_held() -> None:
    assert body(Filters(skip_missing_dataset=True), "/h") == {}
    assert body(Filters(hold_missing=True), "/h") == {"hold_missing": True}
    with pytest.raises(SelectionError, match="cannot be combined"):
        body(Filters(hold_missing=True, skip_missing_dataset=True), "/h")
    assert without_rows(rows_of("skip", "data-missing", 2) * 2 + rows_of("skip", "done", 3)) == ["b0", "b1"]


def test_summary_of_a_second_dispatch() -> None:
    rows = [{"action": "skip", "reason": "done"}, {"action": "skip", "reason": "queued"}]
    assert summary({"plan": {"rows": rows}}) == "0 new, 2 already queued/done"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["sta"], ["status"]),
        (["data", ""], ["label", "list", "own", "prepare", "rows"]),
        (["benchmarks", "s"], ["show"]),
        (["jobs", "--state", "gen"], ["generating"]),
        (["dispatch", "--numerics", ""], ["exact", "exact-fp16-state", "fast", "fast-fp16-state", "fp32"]),
        (["samples", "j1", "--wr"], ["--wrong"]),
        (["completion", ""], ["bash", "fish", "words", "zsh"]),
        (["status", "-o", "t"], ["table", "tsv"]),
        (["nothing", ""], []),
    ],
)
def test_completion_from_the_registry(typed: list[str], expected: list[str]) -> None:
    assert candidates(typed) == expected


def test_completion_asks_for_ids_and_offers_plain_words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "ask", lambda *_: ["j1", "j2", "k3", "j$(reboot)", "j 4", "j\x1b"])
    assert candidates(["samples", "j"]) == ["j1", "j2"]
    assert candidates(["stop", "j1", "j"]) == ["j1", "j2"]
    assert candidates(["dispatch", "--models", "x", "j"]) == ["j1", "j2"]

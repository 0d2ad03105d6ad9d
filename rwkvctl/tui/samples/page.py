"""One sample as a page to read: prompt and completion of each stage, where the answer was found, how it was graded and
by whom, what the judge was asked, and how other jobs did. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rwkvctl.protocol.replies import ExchangeReply
from rwkvctl.protocol.views import FindingView, JobView, SameView, SampleView, StageView
from rwkvctl.text.quantities import duration
from rwkvctl.text.sanitize import safe_line
from rwkvctl.tui.samples.columns import MARKS
from rwkvctl.tui.samples.outline import OTHER, REASONS, WORDS
from rwkvctl.tui.widgets.strips import Pieces
from rwkvctl.tui.widgets.wrapped_text import Line, Part, lines_of, plain_line

PROMPT_LINES: Final = 9
PROMPT_CHARS: Final = 1_500
"""Of a long prompt only so much of its end is shown at first: that is where the question is."""

LABEL: Final = 11
FLAGS: Final = {
    "answer_correct": "the answer is right, the grader is wrong",
    "thought_contains_correct_answer": "the right answer is in the reasoning",
    "instruction_following_error": "it did not follow the instruction", "world_knowledge_error": "a wrong fact",
    "math_error": "an arithmetic error", "reasoning_logic_error": "a wrong reasoning step",
}  # fmt: skip
"""What the checker may find, in words."""

Spans = Sequence[tuple[int, int]]


@dataclass
class ShownSample:
    """One sample with all that the page shows; `places` are the words of each completion that another run has not.
    `same` is None, and `is_complete` false, until other runs and the checker's finding were asked for."""

    job: str
    view: SampleView
    item: JobView | None = None
    configuration: Sequence[tuple[str, str]] = ()
    same: Sequence[SameView] | None = None
    is_complete: bool = False
    finding: FindingView | None = None
    exchange: ExchangeReply | None = None
    whole_prompts: bool = False
    places: Sequence[Spans] = field(default_factory=tuple)


def mark_of(value: float | None, reason: str) -> tuple[str, str]:
    """Return the sign of a verdict with its word, and a role."""
    code = REASONS.index(reason) if reason in REASONS else OTHER
    mark, role = MARKS[code]
    if value is not None and 0 < value < 1:
        mark, role = f"{value:.2f}", "warn"
    return f"{mark} {WORDS[code] if code < OTHER else safe_line(reason)}", role


def summary(told: ShownSample) -> Pieces:
    """Return the verdict in one line, for above the page."""
    view = told.view
    said, role = mark_of(view.value, view.reason)
    found = "nothing" if view.extracted is None else shortened(view.extracted, 40)
    pieces: list[tuple[str, str]] = [(f" {said}", role), ("  extracted ", "dim"), (found, "bold")]
    pieces += [("  by ", "dim"), (safe_line(view.route), "")] if view.route else []
    pieces += [("  expected ", "dim"), (shortened(view.expected, 40), "bold")]
    return pieces + ([("  cut off", "warn")] if is_cut(view) else [])


def is_cut(view: SampleView) -> bool:
    """Return whether generation stopped at the token limit."""
    return any(stage.stop == "length" for stage in view.stages)


def shortened(text: str, most: int) -> str:
    """Return the beginning of a text in one line."""
    shown = safe_line(text.strip()[: 4 * most])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def place_of(text: str, extracted: str | None, route: str) -> tuple[int, int] | None:
    """Return the span of the extracted answer in a completion: in its last box, else its last occurrence as a word.
    None if it does not occur, since the rule derived it."""
    needle = (extracted or "").strip()
    if not needle:
        return None
    if "boxed" in route:
        start = text.find(needle, max(0, text.rfind("boxed{")))
        return (start, start + len(needle)) if start >= 0 else None
    end = len(text)
    while (start := text.rfind(needle, 0, end)) >= 0:
        if alone(text, start, start + len(needle)):
            return start, start + len(needle)
        end = start + len(needle) - 1
    return None


def alone(text: str, start: int, end: int) -> bool:
    """Return whether a span of a text is not part of a longer word or number."""
    before, after = text[start - 1 : start], text[end : end + 1]
    return not (before.isalnum() and text[start].isalnum()) and not (after.isalnum() and text[end - 1].isalnum())


def parts_of(told: ShownSample) -> list[Part]:
    """Return the page of a sample: prompts and completions by stage, grading, judge, other runs, and settings."""
    parts: list[Part] = []
    last = len(told.view.stages) - 1
    for number, stage in enumerate(told.view.stages):
        parts += [prompt_part(stage, whole=told.whole_prompts), completion_part(told, number, last=number == last)]
    parts.append(grading_part(told))
    parts += exchange_parts(told.exchange) if told.exchange else []
    parts += [same_part(told.same)] if told.same else []
    return parts + ([settings_part(told.configuration)] if told.configuration else [])


def prompt_part(stage: StageView, *, whole: bool) -> Part:
    """Return the part with the prompt; of a long one only the end."""
    text = stage.prompt
    shown = text if whole else ending(text)
    title = [("prompt ", "title"), (safe_line(stage.stage), "bold"), (f"  {stage.prompt_tokens:,} tokens", "dim")]
    if len(shown) < len(text):
        title.append((f"  the last {len(shown):,} of {len(text):,} characters, p shows all", "info"))
    return Part(title, lines_of([(shown, "")]), f"prompt of {stage.stage}", text)


def ending(text: str) -> str:
    """The last lines of a text, and not too much of them."""
    lines = text[-PROMPT_CHARS:].split("\n")
    return "\n".join(lines[-PROMPT_LINES:])


def completion_part(told: ShownSample, number: int, *, last: bool) -> Part:
    """Return the part with the completion, with the answer highlighted where it was found."""
    stage, view = told.view.stages[number], told.view
    stopped = ("cut off at the token limit", "warn") if stage.stop == "length" else (f"stopped: {stage.stop}", "dim")
    title = [("completion ", "title"), (safe_line(stage.stage), "bold")]
    title += [(f"  {stage.generated_tokens:,} tokens", "dim")]
    title += [(f"  {took(stage.seconds)}", "dim")] if stage.seconds else []
    title += [("  ", ""), stopped, (f"  {safe_line(stage.engine)}" if stage.engine else "", "dim")]
    found = place_of(stage.completion, view.extracted, view.route) if last else None
    spans = [(*place, "accent") for place in (told.places[number] if number < len(told.places) else ())]
    pieces = cut_out(stage.completion, found, spans)
    lines = lines_of(pieces)
    if stage.logprobs:
        lines += choices(stage.logprobs)
    return Part(title, lines, f"completion of {stage.stage}", stage.completion)


def took(seconds: float) -> str:
    """Return a duration; a short one has fractions of a second."""
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)


def cut_out(text: str, found: tuple[int, int] | None, spans: Iterable[tuple[int, int, str]]) -> list[tuple[str, str]]:
    """Return a text in pieces that highlight the answer's place, then the words that differ."""
    pieces: list[tuple[str, str]] = []
    at = 0
    marked = [span for span in spans if found is None or span[1] <= found[0] or span[0] >= found[1]]
    for start, end, role in sorted([*marked, *([(*found, "badge")] if found else [])]):
        pieces += [(text[at:start], ""), (text[start:end], role)]
        at = end
    return [*pieces, (text[at:], "")]


def choices(logprobs: Sequence[float]) -> list[Line]:
    """Return the log-likelihood of each choice, the likeliest marked."""
    best = max(range(len(logprobs)), key=logprobs.__getitem__)
    return [
        plain_line([(f"{'▸' if place == best else ' '} choice {place + 1}  ", "bold" if place == best else "dim"),
                    (f"{value:.4f}", "")])
        for place, value in enumerate(logprobs)
    ]  # fmt: skip


def fact(label: str, text: str, role: str = "", more: str = "") -> list[Line]:
    """Return a named text, which may have several lines."""
    return lines_of([(label.ljust(LABEL), "dim"), (text.replace("\n", "\n" + " " * LABEL), role), (more, "dim")])


def grading_part(told: ShownSample) -> Part:
    """Return the part on grading: extracted and expected answer, the verdict, and what decided it."""
    view = told.view
    text = view.stages[-1].completion if view.stages else ""
    found = place_of(text, view.extracted, view.route)
    where = f"   rule {view.route}" if view.route else ""
    where += f" (characters {found[0]:,}–{found[1]:,})" if found else ""
    extracted = ("nothing", "warn") if view.extracted is None else (view.extracted, "bold")
    said, role = mark_of(view.value, view.reason)
    value = "" if view.value is None else f"   value {view.value:g}"
    lines = [*fact("extracted", *extracted, where), *fact("expected", view.expected, "bold")]
    lines += fact("verdict", said, role, value)
    lines += fact("why", view.detail) if view.detail else []
    lines += fact("parts", "  ".join(f"{name} {amount:g}" for name, amount in view.parts.items())) if view.parts else []
    lines += fact("cut off", "the token limit ended it before it was complete", "warn") if is_cut(view) else []
    lines += judged(view.judge) + checked(told.finding)
    return Part([("grading", "title")], lines, "grading", "\n".join(line.text for line in lines))


def judged(judge: Mapping[str, object]) -> list[Line]:
    """Return what the judge decided, and what it cost."""
    if not judge:
        return []
    usage, latency = judge.get("usage"), judge.get("latency_s")
    replies = judge.get("replies")
    facts = [str(judge.get("status", "")), str(judge.get("model", ""))]
    facts += [took(latency)] if isinstance(latency, (int, float)) and latency else []
    if isinstance(usage, dict):
        facts += [f"{usage.get('prompt_tokens', 0):,} + {usage.get('completion_tokens', 0):,} tokens"]
        facts += [f"${usage['cost']:.4f}"] if usage.get("cost") else []
    facts += ["from the cache"] if judge.get("cached") else []
    count = len(replies) if isinstance(replies, list) else 0
    return fact("judge", "  ".join(word for word in facts if word), "info", f"   {count} replies, r reads them")


def checked(finding: FindingView | None) -> list[Line]:
    """Return what the checker says about a wrong answer."""
    if finding is None:
        return []
    said = finding.finding
    words = [text for name, text in FLAGS.items() if said.get(name) is True]
    doubt = "   needs review" if finding.needs_review and not finding.reviewed else ""
    doubt = f"   a person decided: {finding.reviewed}" if finding.reviewed else doubt
    lines = fact("checker", ", ".join(words) or "the answer is wrong, nothing else", "warn" if doubt else "", doubt)
    return lines + (fact("", str(said["reason"])) if said.get("reason") else [])


def message_part(rule: str, message: Mapping[str, str]) -> Part:
    """Return one message of a judge request as a part of the page."""
    role, text = message.get("role", "?"), message.get("content", "")
    title = [("judge ", "title"), (safe_line(role), "bold"), (f"  {safe_line(rule)}", "dim")]
    return Part(title, lines_of([(text, "")]), f"judge prompt, role {role}", text)


def exchange_parts(reply: ExchangeReply) -> list[Part]:
    """Return the judge's requests and replies, a part for each message."""
    parts = [message_part(reply.rule, message) for request in reply.asked for message in request]
    if reply.problem:
        parts.append(Part([("judge", "title")], lines_of([(reply.problem, "warn")]), "judge", reply.problem))
    said = reply.said.get("replies")
    for number, text in enumerate(said if isinstance(said, list) else [], 1):
        title = [("judge ", "title"), (f"reply {number}", "bold")]
        parts.append(Part(title, lines_of([(str(text), "")]), f"reply {number} of the judge", str(text)))
    return parts


def same_part(same: Sequence[SameView]) -> Part:
    """Return the part that lists the same row in other jobs, a line each."""
    lines = [plain_line(same_line(one)) for one in same]
    title = [("same sample in other runs", "title"), (f"  {len(same)}  d shows one side by side", "dim")]
    return Part(title, lines, "other runs", "\n".join(line.text for line in lines))


def same_line(one: SameView) -> Pieces:
    """Return a line on the same row in another job: job, model, verdict, and extracted answer."""
    said, role = mark_of(one.value, one.reason)
    found = "nothing" if one.extracted is None else shortened(one.extracted, 40)
    return [
        (f"{one.job:<6}", "bold"), (f"{safe_line(one.model)} {safe_line(one.kind)}", ""), (f" v{one.version}  ", "dim"),
        (f"{said}  ", role), (found, ""),
    ]  # fmt: skip


def settings_part(pairs: Sequence[tuple[str, str]]) -> Part:
    """Return the part with the settings: seed, sampling, limits."""
    lines = [plain_line([(f"{name:<34} ", "dim"), (value, "")]) for name, value in pairs]
    return Part([("settings of the job", "title")], lines, "settings", "\n".join(line.text for line in lines))

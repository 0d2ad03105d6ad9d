"""A kind of a benchmark: the stages of the prompt, few-shot examples, the number of repeats, and the grader."""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from rwkv_data.definition import row_filter, row_order, row_range, row_window, settings
from rwkv_data.definition.answer import Answer, Grade
from rwkv_data.definition.errors import DataError, SettingError
from rwkv_data.definition.few_shot import FewShot
from rwkv_data.definition.grader import GradeFunction, Grader, SandboxPlace
from rwkv_data.definition.row_fields import RowFields
from rwkv_data.definition.row_filter import RowFilter
from rwkv_data.definition.row_range import RowRange
from rwkv_data.definition.row_selection import Part, RowsByIndex, count, part_of, share_of
from rwkv_data.definition.row_window import Extent, Window
from rwkv_data.definition.sampling_search import Search
from rwkv_data.definition.stage import Row, Stage
from rwkvctl.protocol.engine import Sampling, StopKind, Turn

Domain = Literal["multi_choice", "free_response", "instruction_following", "code", "param_search", "language_model"]

_PICK_OF: Final[Mapping[str, Callable[[str], object]]] = {
    "rows": row_range.parse,
    "where": row_filter.parse,
    "order": row_order.parse,
}
PICKS: Final = tuple(_PICK_OF)
"""Settings that pick rows of the prepared set; `order` also says which of them are asked first."""

_HERE = SandboxPlace()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One way of asking: a profile's stages, a grader, how often, and what is reported.

    `name` is the job kind (`free_response`), for a profile other than the usual one with its name behind it
    (`free_response.lm-eval`). Kinds that are not `default` run only when they, or their profile, are named.
    `metrics` names what `scoring.metric_names` knows ("accuracy", "avg@K", "pass@J" with J <= K = `repeats`, a
    part of the grade, a corpus measure); the first one is the headline. `group_by` names the row's field whose values
    get a score each (subjects), or is empty.

    `share` below 1 asks only that share of the rows, always the same ones. `part` asks only the rows set aside for
    choosing settings ("search"), or only the others ("report"). `attempts`, unless 0, bounds rows x repeats: fewer
    repeats, then a share. `max_runtime_s`, unless 0, ends the job after so much time at work; like the grader's
    workers it decides no sample and is in no key. With a `search`, the "repeats" of a row are the points of its grid.
    `rows` picks by index in the prepared set before anything else does, then `where` by the rows' fields, then a
    `window` by their day, where they have one. `order`, unless empty, names the field by whose numbers these are asked
    (see `row_order`). Part, share, attempts and limit are of what these leave, in its order.
    """

    name: str
    profile: str
    profile_version: int
    stages: tuple[Stage, ...]
    grader: Grader
    repeats: int = 1
    seed: int = 42
    metrics: tuple[str, ...] = ("accuracy",)
    group_by: str = ""
    shots: FewShot | None = None
    default: bool = True
    domain: Domain | None = None
    share: float = 1.0
    part: Part = "all"
    attempts: int = 0
    max_runtime_s: float = 0.0
    search: Search | None = None
    rows: RowRange | None = None
    where: RowFilter | None = None
    order: str = ""
    window: Window | None = None

    @property
    def job(self) -> str:
        """The job kind without its profile: `free_response` for `free_response.lm-eval`."""
        return self.name.partition(".")[0]

    @property
    def samples_tokens(self) -> bool:
        """Whether anything is generated; otherwise repeats and seeds have no effect."""
        return any(stage.mode == "generate" for stage in self.stages)

    def prompt(self, stage: int, row: Row) -> str:
        """Return what a stage sends for a row: the first stage's prompt with the row's examples, or a later stage's
        tail."""
        text = self.stages[stage].prompt(row)
        return self.shots.prompt(row, text) if self.shots and stage == 0 else text

    @property
    def takes_chat(self) -> bool:
        """Whether a chat API can be asked so: in one turn of the user, with one reply."""
        return len(self.stages) == 1 and self.stages[0].user is not None and not (self.shots and self.shots.count)

    @property
    def chooses(self) -> bool:
        """Whether a stage compares the log-probabilities of given texts."""
        return any(stage.mode == "choose" for stage in self.stages)

    def turns(self, row: Row) -> tuple[Turn, ...]:
        """Return the row as a conversation for a chat API. Only of a kind that `takes_chat`."""
        user = self.stages[0].user
        assert user is not None, f"{self.name} is no turn of a conversation"
        return (Turn(role="user", content=user(row)),)

    def sampling(self, stage: int, repeat: int) -> Sampling:
        """Return the sampling parameters of a stage; in a search, `repeat` selects the point of the grid."""
        stages = self.stages
        if self.search:
            for name, text in self.search.points[repeat].items():
                stages = settings.with_setting(stages, name, text)
        return stages[stage].sampling

    def asked(
        self, rows: Sequence[Row], pool: Sequence[Row] = (), limit: int | None = None, extent: Extent | None = None
    ) -> list[Row]:
        """Return the rows that are asked, each with its examples. `extent`: theirs, if they have labels. Raises
        SettingError if there are too few examples, or if `where` or `order` names a field that the rows have not."""
        whole = self.shots.attach(rows, pool) if self.shots else list(rows)
        return [whole[index] for index in self.chosen(self.inside(extent or Extent.of(rows)), rows, limit)]

    @property
    def looks_at_rows(self) -> bool:
        """Whether the rows' texts decide which of those `inside` are asked."""
        return self.part != "all" or self.share < 1

    def chosen(self, inside: Sequence[int], rows: RowsByIndex, limit: int | None = None) -> Sequence[int]:
        """Return the indices of the rows that are asked, in order, of those `inside`."""
        return share_of(part_of(inside, self.part, rows), self.share, rows)[:limit]

    def inside(self, extent: Extent) -> Sequence[int]:
        """Return the indices that `rows`, `where`, the window and `order` leave, in the order in which they are
        asked."""
        found: Sequence[int] = self.rows.within(extent.rows) if self.rows else range(extent.rows)
        if self.where:
            matches = self._matching(extent)
            found = [index for index in found if matches[index]]
        if self.window and self.window.leaves_out:
            within = set(self.window.indices(extent))
            found = [index for index in found if index in within]
        return self._in_order(found, extent) if self.order else found

    def pinned(self, extent: Extent) -> "Kind":
        """Return this kind with the labels that `where` and `order` name fixed to their present version, so that it
        asks the same rows whatever labels are made later."""
        if extent.fields is None:
            return self
        pinned = extent.fields.pinned
        where = self.where.renamed(pinned) if self.where else None
        return replace(self, where=where, order=pinned(self.order) if self.order else "")

    def _matching(self, extent: Extent) -> bytes:
        assert self.where is not None
        return _fields(extent).matching(self.where)

    def _in_order(self, inside: Sequence[int], extent: Extent) -> Sequence[int]:
        """Return those of some rows that `order` leaves, in its order."""
        ordered = _fields(extent).ordered(self.order)
        if len(inside) == extent.rows:
            return ordered
        within = inside if isinstance(inside, range) else set(inside)
        return [index for index in ordered if index in within]

    def _inside_count(self, extent: Extent) -> int:
        """Return the length of `inside` without a list of it where that can be: a plan asks often."""
        if self.window and self.window.leaves_out:
            return len(self.inside(extent))
        bounds = self.rows.within(extent.rows) if self.rows else range(extent.rows)
        matches = self._matching(extent)[bounds.start : bounds.stop] if self.where else b"\1" * len(bounds)
        if not self.order:
            return matches.count(1)
        left = bytes(bounds.start) + matches + bytes(extent.rows - bounds.stop)
        return sum(map(left.__getitem__, _fields(extent).ordered(self.order)))

    @property
    def picks_rows(self) -> bool:
        """Whether `rows`, `where` or `order` may leave rows out, so that a score is not the whole set's."""
        return self.rows is not None or self.where is not None or bool(self.order)

    @property
    def unpicked(self) -> "Kind":
        """This kind without `rows`, `where` and `order`."""
        return replace(self, rows=None, where=None, order="")

    def rows_problem(self, extent: Extent) -> str:
        """Return why the rows that are meant cannot be told, or that there are none; empty if they can be asked."""
        if self.window and (problem := self.window.problem(extent)):
            return problem
        if not self.picks_rows:
            return ""
        picks = " ".join(f"{name}={text}" for name, text in self.picks.items() if text)
        try:
            return "" if self._inside_count(extent) else f"{picks} leaves none of its {extent.rows:,} rows"
        except DataError as error:
            return str(error)

    @property
    def picks(self) -> dict[str, str]:
        """The settings that pick rows with their present values."""
        rows, where = self.rows.text if self.rows else "", self.where.text if self.where else ""
        texts = (rows, where, row_order.spelled(self.order))
        return dict(zip(PICKS, texts, strict=True))

    def rows_asked(self, extent: Extent, limit: int | None = None) -> int:
        """Return how many rows of a set are asked. Raises DataError where `rows_problem` says why it is not known."""
        asked = count(self._inside_count(extent), self.part, self.share)
        return asked if limit is None else min(asked, limit)

    @contextlib.contextmanager
    def grading(self, place: SandboxPlace = _HERE) -> Iterator[GradeFunction]:
        """Yield the grading function for many samples: `with kind.grading() as grade: grade(row, answer)`."""
        with self.grader.opened(place) as grade:
            yield lambda row, answer: _failed(answer) or grade(row, answer)

    def grade(self, row: Row, answer: Answer) -> Grade:
        """Grade one sample. Many are cheaper inside `grading()`."""
        with self.grading() as grade:
            return grade(row, answer)

    def stop(self, answer: Answer) -> StopKind:
        """How the sample ended, for counting truncated samples. It is `Answer.stop`, except that an answer is not
        truncated if it was complete before the last stage reached its length limit."""
        whole = self.stages[-1].whole
        if answer.stop == "length" and "length" not in answer.stops[:-1] and whole and whole(answer.text):
            return "stop_suffix"
        return answer.stop

    def chance(self, row: Row) -> float | None:
        """Return the accuracy of random choice on this row; None where answers are free."""
        choices = self.stages[-1].choices
        count = len(choices(row)) if choices else 0
        return 1 / count if count > 1 else None

    def configuration(self) -> dict[str, Any]:
        """Return what enters the generation key, as plain JSON values. The grader is no part of it: see
        `grading_key`."""
        plain: dict[str, Any] = {
            "kind": self.name,
            "profile": self.profile,
            "profile_version": self.profile_version,
            "stages": [stage.configuration() for stage in self.stages],
            "repeats": self.repeats,
            "seed": self.seed,
        }
        if self.shots and self.shots.count:
            plain["shots"] = self.shots.configuration()
        if self.share < 1:
            plain["share"] = self.share
        if self.part != "all":
            plain["part"] = self.part
        if self.search:
            plain["search"] = self.search.configuration()
        plain |= {name: text for name, text in self.picks.items() if text}
        if self.window and self.window.leaves_out:
            plain["window"] = self.window.settings
        return plain

    def grading_key(self) -> dict[str, object]:
        """Return what enters the grade key beside the generation key."""
        return self.grader.key

    def settings(self) -> dict[str, settings.Value]:
        """Return every setting that a dispatch may override, with its present value."""
        known: dict[str, settings.Value] = {"k": self.repeats if self.share == 1 else self.share}
        if self.samples_tokens:
            known["seed"] = self.seed
        known |= settings.of_stages(self.stages)
        if self.shots:
            known |= {"shots": self.shots.count, "shot_seed": self.shots.seed}
        if self.window:
            known |= self.window.settings
        known |= self.picks
        if self.search:
            known |= settings.of_search(self.search)
            del known["k"], known["order"]  # it drops points by the rows that it asks first
        known |= {"part": self.part, "attempts": self.attempts, "max_runtime_s": self.max_runtime_s}
        return known | {"workers": self.grader.workers} | dict(self.grader.options)

    def with_settings(self, values: Mapping[str, str]) -> "Kind":
        """Return this kind with settings replaced (`{"cot.temperature": "0.5", "k": "4"}`). Raises SettingError for one
        that is unknown or does not fit."""
        kind, known = self, self.settings()
        for given, text in values.items():
            kind = kind._with_setting(settings.full_name(self.stages, given, known), text)
        return kind

    def _with_setting(self, name: str, text: str) -> "Kind":
        """Return this kind with one setting (a known one, by its full name) replaced."""
        if name == "k":
            return self.with_repeats(settings.repeats(text))
        if name == "part":
            return replace(self, part=settings.part(text))
        changed: dict[str, Any]
        if name in PICKS:
            changed = {name: _PICK_OF[name](text)}
            return replace(self, **changed)
        if name in {"seed", "attempts", "max_runtime_s"}:
            changed = {name: settings.of_kind(name, text)}
            return replace(self, **changed)
        if self.shots and name in {"shots", "shot_seed"}:
            return replace(self, shots=settings.with_few_shot(self.shots, name, text))
        if name == "workers" or name in self.grader.options:
            return replace(self, grader=settings.with_grading(self.grader, name, text))
        if self.window and name in row_window.SETTINGS:
            return replace(self, window=self.window.with_setting(name, text))
        if self.search and (name.startswith("grid.") or name in {"rungs", "keep"}):
            search = settings.with_search(self.search, name, text)
            return replace(self, search=search, repeats=settings.points_of(search))
        return replace(self, stages=settings.with_setting(self.stages, name, text))

    def full_names(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the settings under their full names, so that two spellings of one are one; unknown names stay as they
        are."""
        known = self.settings()
        return {
            settings.full_name(self.stages, name, known) if settings.has(self.stages, name, known) else name: text
            for name, text in values.items()
        }

    def has_setting(self, name: str) -> bool:
        """Whether a setting of that name, with or without its stage, exists here."""
        return settings.has(self.stages, name, self.settings())

    def with_known_settings(self, values: Mapping[str, str]) -> "Kind":
        """Return this kind with those settings replaced that it has."""
        return self.with_settings({name: text for name, text in values.items() if self.has_setting(name)})

    def with_repeats(self, k: float) -> "Kind":
        """Return this kind with k samples a row, or below 1 one sample of that share of the rows. avg@k follows;
        pass@j, maj@j and pass^j keep their j unless there are fewer samples than that."""
        repeats, share = (1, k) if k < 1 else (int(k), 1.0)
        if repeats > 1 and not self.samples_tokens:
            raise SettingError("nothing is sampled here, so each row is asked once: k must be 1 or a share")
        renamed = [_renamed(metric, k, repeats) for metric in self.metrics]
        return replace(self, repeats=repeats, share=share, metrics=tuple(dict.fromkeys(renamed)))

    def sized(self, extent: Extent) -> "Kind":
        """Return this kind for a set: `attempts` turned into repeats and a share."""
        asked = self.rows_asked(extent)
        if self.search:
            return self
        if not self.attempts or asked * self.repeats <= self.attempts:
            return self
        return self.with_repeats(
            self.attempts // asked if asked <= self.attempts else self.share * self.attempts / asked
        )


def _fields(extent: Extent) -> RowFields:
    if extent.fields is None:
        raise SettingError("the rows were prepared without their fields: prepare them again")
    return extent.fields


def _renamed(metric: str, k: float, repeats: int) -> str:
    for mark in ("@", "^"):
        name, found, number = metric.partition(mark)
        if found:
            return f"{name}{mark}{k:g}" if name == "avg" else f"{name}{mark}{min(repeats, math.ceil(float(number)))}"
    return metric


def _failed(answer: Answer) -> Grade | None:
    """Return a grade without a verdict for a sample that the engine could not produce; None for any other."""
    if answer.stop == "error":
        return Grade(None, None, "", "error", "the engine returned an error for this sample")
    return None

"""The keys of every screen that shows jobs: they act on the marked jobs, else on the one under the cursor."""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from textual.binding import Binding, BindingType

from rwkvctl.protocol.states import ACTIVE, TERMINAL
from rwkvctl.protocol.views import JobView, PauseView
from rwkvctl.tui.jobs import actions
from rwkvctl.tui.jobs.act import Act
from rwkvctl.tui.jobs.actions import Undo
from rwkvctl.tui.screen import ConsoleScreen
from rwkvctl.tui.widgets.table import VTable

VERBS: Final[tuple[Binding, ...]] = (
    Binding("s", "stop_jobs", "Stop…"),
    Binding("p", "pause_jobs", "Pause…"),
    Binding("e", "retry_jobs", "Retry or resume", show=False),
    Binding("H", "hold_jobs", "Hold…", key_display="H", show=False),
    Binding("u", "release_jobs", "Release held jobs", show=False),
    Binding("U", "undo", "Undo the last change", key_display="U", show=False),
    Binding("plus", "priority(1)", "Raise priority", key_display="+", show=False),
    Binding("minus", "priority(-1)", "Lower priority", key_display="-", show=False),
    Binding("l", "logs", "Logs"),
)


class PauseChoice(NamedTuple):
    """A line of the pause menu: its words, what it does, and what undoes that."""

    words: str
    act: Act
    undo: Undo


class JobScreen(ConsoleScreen):
    """A screen with jobs. Subclasses put `VERBS` among their bindings, so that help shows them as the screen's own."""

    BINDINGS: ClassVar[list[BindingType]] = [*VERBS]

    @property
    def chosen_jobs(self) -> Sequence[str]:
        """Return the ids of the jobs that keys act on."""
        raise NotImplementedError

    @property
    def why_no_job(self) -> str:
        """Return why no job is chosen, as a sentence for the operator who pressed a key that needs one."""
        panel = self.panel
        return panel.why_no_row if isinstance(panel, VTable) else "No job is selected."

    def jobs_meant(self) -> list[str]:
        """Return the ids of the jobs that a key acts on; if there are none, tell the operator why."""
        ids = list(self.chosen_jobs)
        if not ids:
            self.console_app.say(self.why_no_job, "warn")
        return ids

    @property
    def still_loading(self) -> bool:
        """Return whether the jobs are still being fetched, after telling the operator so. For keys that do something
        else where no job is chosen: they must not do that only because they were pressed early."""
        panel = self.panel
        loading = isinstance(panel, VTable) and panel.is_loading
        if loading:
            self.console_app.say(self.why_no_job, "warn")
        return loading

    def known(self, ids: Sequence[str]) -> list[JobView]:
        """Return the chosen jobs that the state knows."""
        jobs = self.console_app.state.jobs
        return [jobs[job] for job in ids if job in jobs]

    def act(self, acts: Sequence[Act], undo: Undo = lambda _: ()) -> None:
        """Carry out an act, if anything may be changed now."""
        if acts and self.console_app.may_write():
            actions.expect(self.console_app, acts)
            self.run_worker(actions.do(self.console_app, acts, undo), group="act", exit_on_error=False)

    def action_stop_jobs(self) -> None:
        """Ask whether to stop the chosen jobs."""
        if ids := self.jobs_meant():
            self.run_worker(actions.ask_stop(self.console_app, ids), group="ask")

    def action_retry_jobs(self) -> None:
        """Resume failed, stopped and paused jobs where they left off."""
        chosen = self.jobs_meant()
        if not chosen:
            return
        jobs = [job for job in self.known(chosen) if job.state in {"failed", "stopped", "paused"}]
        ids = [job.id for job in jobs]
        if not ids:
            self.console_app.say("e retries failed jobs and resumes stopped or paused ones; none is selected")
        failed = all(job.state == "failed" for job in jobs)
        back = actions.pause if all(job.state == "paused" for job in jobs) else actions.stop
        self.act([actions.retry(ids) if failed else actions.resume(ids)] if ids else [], lambda ids: [back(ids)])

    def action_hold_jobs(self) -> None:
        """Ask for a reason, then hold the chosen jobs."""
        ids = self.jobs_meant()
        if ids and self.console_app.may_write():
            self.console_app.say(
                f"hold {', '.join(ids[: actions.NAMED])}: type a reason; enter holds, esc cancels", for_s=60
            )
            self.console_app.frame.ask("H", "", done=lambda why: self._hold(ids, why.strip()))

    def _hold(self, ids: list[str], why: str) -> None:
        self.act([actions.hold(ids, why)], lambda ids: [actions.release(ids)])

    def action_release_jobs(self) -> None:
        """Release the chosen jobs that were held by hand; undoing it holds them again with the same reasons."""
        chosen = self.jobs_meant()
        if not chosen:
            return
        held = [job for job in self.known(chosen) if (job.state, job.reason) == ("held", "held")]
        why = {job.id: job.detail for job in held}
        if not held:
            self.console_app.say("u releases jobs that were held with H; none is selected (U undoes the last change)")
            return
        self.act(
            [actions.release(list(why))],
            lambda ids: [actions.hold([job], why[job]) for job in ids if job in why],
        )

    def action_undo(self) -> None:
        """Undo the last change, on whichever screen it was made."""
        self.act(actions.undo(self.console_app))

    def action_priority(self, by: int) -> None:
        """Start the chosen jobs earlier or later."""
        chosen = self.jobs_meant()
        jobs = [job for job in self.known(chosen) if job.state not in TERMINAL]
        if chosen and not jobs:
            self.console_app.say("+ and - change the priority of jobs that are not over; none is selected")
        asked_for = self.console_app.wanted_priorities
        before = {job.id: asked_for.get(job.id, job.priority) for job in jobs}
        self.act(
            [actions.priority(job, number + by) for job, number in before.items()],
            lambda ids: [actions.priority(job, before[job]) for job in ids],
        )

    def action_logs(self) -> None:
        """Show the log of the chosen job, or the daemon's if none is chosen."""
        if self.still_loading:
            return
        self.console_app.go("logs", next(iter(self.chosen_jobs), "daemon"))

    def action_pause_jobs(self) -> None:
        """Open the menu of what to pause or resume: jobs, a model, the queue, the node."""
        if self.console_app.may_write() and not self.still_loading:
            self.run_worker(self._pause(), group="ask")

    async def _pause(self) -> None:
        from rwkvctl.tui.shell.dialogs import Menu

        choices = pause_choices(self.known(self.chosen_jobs), self.console_app.state.pauses)
        place = await self.console_app.push_screen_wait(Menu("Pause or resume", [choice.words for choice in choices]))
        if place is not None:
            self.act([choices[place].act], choices[place].undo)


def pause_choices(jobs: Sequence[JobView], pauses: Sequence[PauseView]) -> list[PauseChoice]:
    """Return the menu lines of what can be paused or resumed: the jobs, their models, the queue, the node."""
    found: list[PauseChoice] = []
    standing = {(pause.scope, pause.name) for pause in pauses}
    going = [job.id for job in jobs if job.state in ACTIVE or job.state == "queued"]
    paused = [job.id for job in jobs if job.state == "paused"]
    if going:
        words = f"pause {spelt(going)}"
        found.append(PauseChoice(words, actions.pause(going), lambda ids: [actions.resume(ids)]))
    if paused:
        words = f"resume {spelt(paused)}"
        found.append(PauseChoice(words, actions.resume(paused), lambda ids: [actions.pause(ids)]))
    found += [of_model(model, off=("model", model) in standing) for model in dict.fromkeys(job.model for job in jobs)]
    off, drained = ("queue", "") in standing, ("node", "") in standing
    words = "resume the queue" if off else "pause the whole queue: waiting jobs now, running jobs at their next batch"
    found.append(PauseChoice(words, actions.wide(off=off), lambda _: [actions.wide(off=not off)]))
    words = "end the drain: this node starts jobs again" if drained else "drain this node: start no new jobs"
    found.append(PauseChoice(words, actions.drain(off=drained), lambda _: [actions.drain(off=not drained)]))
    return found


def of_model(model: str, *, off: bool) -> PauseChoice:
    """Return the menu line that pauses all jobs of a model, or resumes them."""
    words = f"resume all jobs of {model}" if off else f"pause all jobs of {model}"
    return PauseChoice(words, actions.wide(off=off, model=model), lambda _: [actions.wide(off=not off, model=model)])


def spelt(ids: Sequence[str]) -> str:
    """Return the ids separated by commas; of those after the first NAMED only how many there are."""
    return ", ".join(ids[: actions.NAMED]) + (
        f" and {len(ids) - actions.NAMED} more" if len(ids) > actions.NAMED else ""
    )

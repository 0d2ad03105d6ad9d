"""A real node under faults, and the proof that nothing was lost: `python tests/chaos [--seed N] [--seconds S]`.

The seed is printed first: the same seed draws the same faults at the same moments. (What they hit depends on the
machine's speed, so a failure may take a few runs to come back.) Exit code 1 if a rule does not hold.
"""

import argparse
import contextlib
import random
import secrets
import sys
import time

import invariants
from faults import strike
from world import World, databases, plainly, world

ROWS = 24
TIMEOUT_S = 600.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--seconds", type=float, default=180.0, help="how long faults go on")
    parser.add_argument("--jobs", type=int, default=54)
    parser.add_argument("--postgres", action="store_true", help="keep the store in a PostgreSQL server, and crash it")
    parser.add_argument("--stub", action="store_true", help="engines that compute nothing, and take half a second")
    parser.add_argument("--keep", action="store_true", help="leave the home where it is")
    given = parser.parse_args()
    if given.postgres and databases.server_programs() is None:
        parser.error("--postgres needs a PostgreSQL server, and there is no initdb on this machine")
    where = " --postgres" if given.postgres else ""
    print(f"chaos: --seed {given.seed} --seconds {given.seconds:g} --jobs {given.jobs}{where}", flush=True)
    with world(keep=given.keep, postgres=given.postgres, real_engine=not given.stub) as here:
        broken = night(here, random.Random(given.seed), given.seconds, given.jobs)
    for sentence in broken:
        print(f"VIOLATED {sentence}")
    print(f"chaos: {'every rule holds' if not broken else f'{len(broken)} rules do not hold'} (seed {given.seed})")
    return 1 if broken else 0


def night(here: World, draw: random.Random, seconds: float, jobs: int) -> list[str]:
    """Dispatch, disturb, let it recover, look."""
    if not here.node.real_engine:
        here.node.engines_do(slow_s=0.5)  # or all would be done before the first fault
    here.start()
    wanted = dispatch(here, jobs)
    if not here.small_disk:
        print("no disk of our own (needs root): it is never full")
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        time.sleep(draw.uniform(0.1, 2.5))
        if done := strike(here, draw):
            print(f"{time.monotonic() - begun:6.1f} s  {done}", flush=True)
        here.keep_up()
    here.judge.behave = plainly
    recover(here)
    invariants.wait_until_settled(here, 120)
    broken = invariants.violated(here, wanted)
    print(f"{time.monotonic() - begun:6.1f} s  {len(wanted)} jobs, {sum(wanted.values())} samples, looked at")
    return [*here.broken, *broken, *against_undisturbed(here)]


def dispatch(here: World, jobs: int) -> dict[str, int]:
    """So many jobs of three manners; job -> samples."""
    manners = (
        ("demo_arith", "free_response"),
        ("demo_choice", "multi_choice_plain"),
        ("judged_sums", "free_response_judge"),
    )
    wanted = {}
    for number in range(jobs):
        benchmark, kind = manners[number % len(manners)]
        settings = {"temperature": "2.5"} if kind != "multi_choice_plain" else {}
        limit = ROWS + number if kind == "multi_choice_plain" else ROWS
        for name in here.node.dispatch(
            only_datasets=[benchmark], only_jobs=[kind], limit=limit, seed=number, settings=settings
        ):
            wanted[name] = limit
    here.jobs = list(wanted)
    return wanted


def recover(here: World) -> None:
    """Until every job has ended; stopped and failed ones are asked to go on, as an operator would in the morning."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        here.keep_up()
        with contextlib.suppress(Exception):  # it may be starting again, or the disk may be full still
            if not here.node.real_engine:
                here.node.engines_do()
            here.node.api.post("/v1/resume", {"all": True})
            found = here.node.api.get("/v1/jobs", limit=1000).value["items"]
            if all(job["state"] == "done" for job in found):
                return
        time.sleep(1.0)


def against_undisturbed(here: World) -> list[str]:
    """The first jobs once more, on a quiet node."""
    with world(real_engine=here.node.real_engine) as quiet:
        quiet.start()
        again = list(dispatch(quiet, 3))
        for name in again:
            quiet.node.wait_for_state(name, "done")
        return list(invariants.reference_differs(here, quiet, dict(zip(here.jobs, again, strict=False))))


if __name__ == "__main__":
    sys.exit(main())

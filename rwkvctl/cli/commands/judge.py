"""`rwkvctl judge`: how the judge is doing, what it costs, and how far it can be trusted."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import judge_tables
from rwkvctl.protocol.errors import Exit
from rwkvctl.scoreboard.judge_health import REMEDY, failing


@verb
def judge(context: Context) -> int:
    """The judge and the checker: endpoints, rates, outages, tokens and cost, jobs that wait, and calibration.

    A judge is configured in config.toml ([judge], [[judge.endpoints]]), or by the variables JUDGE_MODEL, JUDGE_BASE_URL
    and JUDGE_API_KEY in the daemon's environment. The checker, which explains each wrong answer, runs only if it is
    turned on: by a [checker] table, by CHECKER_MODEL, or by the setting `checker`, which uses the judge for it.

    Exit code 1 if replies of an endpoint could not be read: its samples stay unjudged.

    $ rwkvctl judge
    $ rwkvctl judge --json
    """
    answer = context.client.get("/v1/judge")
    context.show(answer, judge_tables.judges(answer.value["judges"]))
    for line in answer.value.get("calibrations", ()):
        context.say(f"calibration: {line}")
    endpoints = [one for item in answer.value["judges"] for one in item.get("endpoints", ())]
    fails = list(filter(None, (failing(one["name"], one.get("counts", {})) for one in endpoints)))
    for line in fails:
        context.say(f"{line}; {REMEDY}")
    return Exit.FAILED if fails else Exit.OK


@verb
def judge_retry(context: Context) -> int:
    """Try all keys again now, after you have fixed what was wrong with the judge.

    $ rwkvctl judge retry
    """
    answer = context.change("/v1/judge/retry", {})
    if context.as_json:
        context.show(answer)
    context.say("all keys will be tried again")
    return Exit.OK

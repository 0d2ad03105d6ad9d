"""`rwkvctl judge`: how the judge is doing, what it costs, and how far it can be trusted."""

from rwkvctl import judgeviews
from rwkvctl.context import Context
from rwkvctl.protocol.errors import Exit
from rwkvctl.verbs import verb


@verb
def judge(context: Context) -> int:
    """The judge and the checker: endpoints, rates, outages, tokens and cost, jobs that wait, and calibration.

    A judge is configured in config.toml ([judge], [[judge.endpoints]]), or by the variables JUDGE_MODEL, JUDGE_BASE_URL
    and JUDGE_API_KEY in the daemon's environment. The checker, which says of each wrong answer what is wrong with it,
    is served by the judge unless [checker] names another.

    $ rwkvctl judge
    $ rwkvctl judge --json
    """
    answer = context.client.get("/v1/judge")
    context.show(answer, judgeviews.judges(answer.value["judges"]))
    for line in answer.value.get("calibrations", ()):
        context.say(f"calibration: {line}")
    return Exit.OK


@verb
def judge_retry(context: Context) -> int:
    """Try every key again at once: somebody has put right what was wrong with the judge.

    $ rwkvctl judge retry
    """
    answer = context.change("/v1/judge/retry", {})
    if context.as_json:
        context.show(answer)
    context.say("every key is tried again")
    return Exit.OK

"""`rwkvctl endpoints`: the models behind OpenAI-compatible servers, what their servers do, and what they cost."""

from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import verb
from rwkvctl.cli.tables import endpoint_tables
from rwkvctl.protocol.errors import Exit


@verb
def endpoints(context: Context) -> int:
    """The models behind endpoints: state, requests, tokens and cost, budget, and what their servers do not do.

    A table [endpoints.NAME] in config.toml makes an OpenAI-compatible server a model: `rwkvctl dispatch --models NAME`.
    Over api = "chat" it is asked in kinds of one turn (free_response.chat and the like); over api = "completions" it is
    sent the prompts that checkpoints get. Endpoints run only when they are named, because they cost money. All jobs
    share an endpoint's keys, limits and budget; during an outage they wait.

    $ rwkvctl endpoints
    $ rwkvctl queue --models qwq --only-datasets math_500 --only-jobs free_response.chat
    """
    answer = context.client.get("/v1/endpoints")
    context.show(answer, endpoint_tables.endpoints(answer.value["items"]))
    for line in endpoint_tables.remarks(answer.value["items"]):
        context.say(line)
    return Exit.OK


@verb
def endpoints_retry(context: Context) -> int:
    """Try all keys again now, after you have fixed what was wrong, and find out anew what the servers do.

    $ rwkvctl endpoints retry
    """
    answer = context.change("/v1/endpoints/retry", {})
    if context.as_json:
        context.show(answer)
    context.say("all keys will be tried again")
    return Exit.OK

"""`rwkvctl suites`: what is measured together."""

import json

from rwkvctl.cli.client import Answer, Record
from rwkvctl.cli.context import Context
from rwkvctl.cli.registry import did_you_mean, verb
from rwkvctl.cli.tables import suite_tables
from rwkvctl.protocol.errors import Exit, RefusedError
from rwkvctl.text.quantities import several


@verb
def suites(context: Context, suite: str = "") -> int:
    """The suites of benchmarks.toml: benchmarks that are measured together, with their settings.

    A suite is a table [suites.NAME] of benchmarks.toml, which lies beside config.toml, with
    benchmarks = ["gsm8k", "mmlu"], and maybe kinds, profiles, a limit, settings, and a search for
    the best settings of some models; docs/own-benchmarks.md has an example. `rwkvctl reload`
    puts a change in force.

    `queue`, `dispatch` and `watch add` take --suite. Their other flags leave out some of it, and
    --set and --limit win over what it says.

    suite: only this one, with each benchmark, kind, number of rows and changed setting

    $ rwkvctl suites
    $ rwkvctl suites nightly
    $ rwkvctl dispatch --suite nightly --models 'rwkv7-g1d-*'
    """
    answer = context.client.get("/v1/suites")
    items = answer.value["items"]
    if not suite:
        context.show(answer, suite_tables.suites(items))
        return Exit.OK
    found = [item for item in items if item["name"] == suite]
    if not found:
        known = [item["name"] for item in items]
        hint = f"There are {', '.join(known)}.{did_you_mean(suite, known)}" if known else suite_tables.NONE
        raise RefusedError("no-such-suite", f"There is no suite {suite}.", hint, Exit.NOT_FOUND)
    value = answer.value | {"items": found}
    item = found[0]
    context.show(Answer(json.dumps(value).encode(), value), suite_tables.kinds(item), headline=[*summary(item), ""])
    if not context.as_json:
        if item.get("problem"):
            context.say(item["problem"])
        kinds = item.get("kinds", ())
        for one in kinds:
            if one.get("problem"):
                context.say(f"{one['benchmark']} {one['kind']}: {one['problem']}")
        lack_rows = (one["benchmark"] for one in kinds if one.get("rows") is None and not one.get("problem"))
        if missing := list(dict.fromkeys(lack_rows)):
            names = " ".join(missing)
            context.say(f"{several(len(missing), 'benchmark')} without rows: `rwkvctl data prepare {names}`")
    return Exit.OK


def summary(item: Record) -> list[str]:
    """Return what a suite says beside its kinds."""
    headline = [f"{item['name']}: {item['description']}" if item.get("description") else item["name"]]
    if item.get("limit"):
        headline.append(f"only the first {item['limit']:,} rows of each")
    if item.get("objective"):
        headline.append(f"the best checkpoint of a training run is the best in {', '.join(item['objective'])}")
    if item.get("hold_back"):
        headline.append("a feedback shows 40 % of the rows; the others are held back")
    if item.get("search_models"):
        newest = "the newest data version of each size of " if item.get("search_newest") else ""
        headline.append(f"searches are of {newest}{', '.join(item['search_models'])}")
    return headline

"""A whole recipe on a live node: a teacher and a writer behind endpoints, rewriting, variants, pairs and a mix, while
everything that takes part is killed again and again. Each question is paid for once, and the files are those of an
undisturbed run."""

import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field

import fake_judge
import pytest
from random_kills import MortalServer, RandomKills, are_done, until_done
from sums_recipes import ATTEMPT, BOX, EXCERPT, REASONING, SUMS, configure, prepare, recipe_run, shown

from rwkv_daemon.rules.work_keys import random_key
from rwkv_data.writers.split_thoughts import MARK

K, SEED = 6, 7
CASE = re.compile(r"Case (\d{4}): ")
ANNA, TRAIN, SHELLS, SPIDERS = SUMS
WRONG = "I add first. That makes \\boxed{1000}."
UNSURE = "Now I try to picture it, but I lose count."
CHECK = "I count it backwards, which gives the same number."
SAMPLE = f"""
[[sample]]
models = ["teacher"]
datasets = ["own_cases"]
kinds = ["free_response.chat"]
seed = {SEED}
settings = {{k = {K}, temperature = 1.0}}

[rewrite]
rule = "thought-solution"
"""
SELECT = '[select]\nrule = "k-correct"\nk = 2\nseed = 5\n'
PAIRS = '[pairs]\nrules = ["short-long", "fcs", "fcs+1", "fcs+reflection"]\n'
MIX = 'seed = 3\n[[mix]]\nrecipe = "r1"\nweight = 2\n[[mix]]\nrows = "chat"\nweight = 1\n'
RECIPES = ("r1", "r2", "r3")
FILES = {"r1": ("messages", "train.jsonl"), "r2": ("trl-preference", "pairs.jsonl"), "r3": ("parquet", "mixed")}
KEYS = {who: [f"{who}-key-{number}" for number in ("one", "two", "three")] for who in ("teacher", "writer")}
CASES_PER_KILL = 0.8
"""So many problems that samples, rewritings and variants are all being asked for while kills go on."""


def question(case):
    return f"Case {case:04}: {list(SUMS)[case % len(SUMS)]}"


def thoughts(case):
    """The thoughts of a completion, whose solution is right but in the case of the spiders."""
    right = f"I take it step by step, and find \\boxed{{{SUMS[list(SUMS)[case % len(SUMS)]]}}}."
    each = ([WRONG, UNSURE, right, CHECK, f"Once more: {right}"], [right, UNSURE], [UNSURE, WRONG], [WRONG])
    return each[case % len(SUMS)]


def sample(case, number):
    """What the teacher says of a case in a sample: 0 between tags; 1 so, too, and longer; 2 without a form; 3 wrong;
    4 right and cut off; 5 as long as the longest or the shortest, in other words."""
    first, *others = thoughts(case)
    some = [f"This is try {number}. {first}", *others]
    many = [*some, *(f"For the {count}th time: {UNSURE}" for count in range(9))]
    answer = "6" if case % len(SUMS) == 3 else list(SUMS.values())[case % len(SUMS)]
    said, solution = "\n\n".join(some), f"So it is \\boxed{{{answer}}}."
    tagged = number == 0 or (number == 5 and case % 2 == 1)
    if number == 1:
        return fake_judge.Do(solution, message={"reasoning_content": "\n\n".join(many)}, usage=used(90))
    if number == 3:
        return fake_judge.Do(f"{WRONG} This is try {number}.", usage=used(12))
    if number == 4:
        return fake_judge.Do(f"{said}\n\n{solution} And then", finish="length", usage=used(120))
    text = f"<think>{said}</think>\n\n{solution}" if tagged else f"{said}\n\n{solution}"
    return fake_judge.Do(text, usage=used(30 if tagged else 40))


def used(tokens):
    return {"prompt_tokens": 100, "completion_tokens": tokens}


def writes(asked):
    """What the writer says. Of every third case its first rewriting is of no use, and of every third it is cut off."""
    case, anew = int(CASE.search(asked.prompt)[1]), asked.document["temperature"] > 0
    if found := REASONING.search(asked.prompt):
        return fake_judge.Do(found[1].replace("\n\n", f"\n{MARK}\n"), usage=used(len(found[1])))
    if found := EXCERPT.search(asked.prompt):
        return fake_judge.Do(str(found[1] == CHECK), usage=used(1))
    attempt = ATTEMPT.search(asked.prompt)[1]
    text = (
        f"<|begin_of_thought|>\n\n{attempt}\n\n<|end_of_thought|>\n\n"
        f"<|begin_of_solution|>\n\nIn short \\boxed{{{BOX.findall(attempt)[-1]}}}.\n\n<|end_of_solution|>"
    )
    if case % 3 == 0 and not anew:
        return fake_judge.Do("no form at all", usage=used(4))
    if case % 3 == 1 and not anew:
        return fake_judge.Do(text[:40], finish="length", usage=used(20))
    return fake_judge.Do(text, usage=used(100))


@dataclass
class Models:
    """Teacher and writer behind one server. A sample is told by its seed, so that it says the same whenever it is
    asked. With `refuses`, the second key of each is throttled now and then, and the third is refused for good in its
    eighth request: by the next daemon it is tried again."""

    cases: int
    delay_s: float = 0.0
    refuses: bool = False
    requests: Counter[str] = field(default_factory=Counter)

    def __post_init__(self):
        places = ((case, number) for case in range(self.cases) for number in range(K))
        self.numbers = {
            (case, random_key(SEED, case, number, 0) & (2**31 - 1)): number for case, number in places
        }  # fmt: skip

    def __call__(self, asked):
        found = CASE.search(asked.prompt)
        if found is None:
            return fake_judge.Do("seven, eight")  # a trial
        self.requests[asked.key] += 1
        if self.refuses and asked.key.endswith("two") and self.requests[asked.key] % 10 == 0:
            return fake_judge.Do("slower", status=429, headers={"retry-after-ms": "100"})
        if self.refuses and asked.key.endswith("three") and self.requests[asked.key] == 8:
            return fake_judge.Do("who is this?", status=401)
        if asked.key.startswith("writer"):
            does = writes(asked)
        else:
            does = sample(int(found[1]), self.numbers[int(found[1]), asked.document["seed"]])
        does.delay_s = self.delay_s
        return does


def of_recipe(asked):
    """Whether a request is a question of the recipe, and no trial of what the server does."""
    return CASE.search(asked.prompt) is not None


def begun(node, fake, folder, cases):
    """Start a node that asks the server, and run three recipes on it: answers, pairs, and a mix of the answers with
    rows of one's own. The first samples, and the second is run after it, so that jobs have the same numbers
    everywhere."""
    node.settings |= {"XDG_CONFIG_HOME": str(folder / "config")}
    tables = {}
    for who, keys in KEYS.items():
        path = folder / f"{who}.keys"
        path.write_text("".join(f"{key}\n" for key in keys))
        path.chmod(0o600)
        tables[who] = {
            "base_url": fake.url, "model": f"{who}-model", "revision": "r1", "keys_file": str(path), "concurrency": 1,
            "prompt_price": 2.0, "completion_price": 6.0,
        }  # fmt: skip
    configure(node, endpoints__teacher=tables["teacher"], writer=tables["writer"])
    node.start()
    prepare(node, folder, "cases", {question(case): SUMS[list(SUMS)[case % len(SUMS)]] for case in range(cases)})
    chat = folder / "chat.jsonl"
    chat.write_text("".join(json.dumps(greeting(number)) + "\n" for number in range(cases)))
    node.cli("data", "rows", str(chat))
    for text in (SAMPLE + SELECT, SAMPLE + PAIRS, MIX):
        recipe_run(node, folder, text)


def paid_by(node):
    """What the jobs of each recipe have paid to whom, as `recipe show` and the console say it."""
    of_all = {name: shown(node, name).get("paid", ()) for name in RECIPES}
    sums = ((name, one) for name, some in of_all.items() for one in some)
    return {(name, one["to"], what): one[what] for name, one in sums for what in ("tokens", "cost")}


def greeting(number):
    said = (("user", f"Greet visitor number {number}."), ("assistant", f"Welcome, visitor {number}, to this house."))
    return {"messages": [{"role": role, "content": text} for role, text in said]}


def exported(node, folder):
    """The bytes of every file that the recipes give, by its name; each export agrees with the store."""
    place = folder / f"of-{node.home.parent.name}"
    place.mkdir()
    for name, (form, file) in FILES.items():
        node.cli("recipe", "export", name, "--format", form, "--to", str(place / file))
        node.cli("recipe", "verify", str(place / file))
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


KILLS = int(os.environ.get("TEST_KILLS", "40"))
"""How often something is killed in the slow test. 300 kills took 345 s (2026-11-28, with the undisturbed run): 146 of
the daemon, 65 of the server, 59 of runners, 30 of the process that makes rows. 2,360 questions were paid for once, and
181 times one was again, after a kill of the daemon in whose moment it was in flight."""


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(4, marks=pytest.mark.timeout(900)),
        pytest.param(KILLS, marks=[pytest.mark.slow("kills"), pytest.mark.timeout(600 + 10 * KILLS)]),
    ],
)
def test_whatever_is_killed_each_question_is_paid_once_and_the_files_are_the_same(new_node, tmp_path, kills):
    cases, while_rows_are_made = max(8, int(CASES_PER_KILL * kills)), max(1, kills // 8)
    with fake_judge.in_thread(fake_judge.FakeJudge(behave=Models(cases))) as fake:
        undisturbed = new_node()
        begun(undisturbed, fake, tmp_path, cases)
        until_done(undisturbed, fake, lambda: are_done(undisturbed, RECIPES))
        expected, paid_undisturbed = exported(undisturbed, tmp_path), paid_by(undisturbed)
        undisturbed.close()
    server = MortalServer(fake_judge.FakeJudge(behave=Models(cases, delay_s=0.1, refuses=True), port=fake.port))
    server.start()
    try:
        node = new_node()
        begun(node, server.fake, tmp_path, cases)
        identities = {one["name"]: one["identity"] for one in node.api.get("/v1/endpoints").value["items"]}
        disturbed = RandomKills(node, server, identities, of_recipe, RECIPES, seed=kills)
        disturbed.go_on(kills - while_rows_are_made)
        done = len(disturbed.paid())
        server.fake.behave.delay_s = 0.0
        disturbed.go_on_while_rows_are_made(while_rows_are_made)
        disturbed.finish()
    finally:
        server.kill()
    paid, again = disturbed.times_paid()
    print(f"{disturbed}; {len(paid)} questions, {done} of them meanwhile; {again} again after a reply that was lost")
    assert len(paid) == sum(map(of_recipe, fake.asked)), "both have asked the same number of questions"
    assert {asked.key for asked in disturbed.paid()} == {key for keys in KEYS.values() for key in keys}
    assert {asked.status for asked in server.fake.asked} == {200, 401, 429}
    assert kills < 40 or (done and {"daemon", "server"} <= disturbed.done.keys()), str(disturbed)
    assert paid_by(node) == pytest.approx(paid_undisturbed, rel=1e-9)
    assert {who for _, who, _ in paid_undisturbed} == {"teacher", "writer"}
    found = exported(node, tmp_path)
    assert "paid to writer" in found["train.jsonl.card.md"].decode()
    assert found.keys() == expected.keys()
    assert {name for name in found if found[name] != expected[name]} == set(), str(disturbed)

"""A harness for tests, of the standard library alone: its task says what it does. It writes what lm_eval writes.

`tasks` lists its tasks; `fetch TASK CACHE` fetches its rows; `run TASK BASE_URL OUT [--limit N]` measures, `evalplus`
in place of `run` writes what evalplus writes. It is copied into the folder of own tasks, so that its processes are
known by their command lines. What it sees of the machine it prints after `REPORT`.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TASKS = {
    "sums": "asks four rows",
    "exit3": "as sums, and ends with exit code 3",
    "empty": "writes nothing, and ends with exit code 0",
    "nan": "its metric is NaN",
    "both": "a group of two tasks",
    "short": "a group of which one task has no result",
    "gap": "writes three samples of four",
    "torn": "its results are no JSON",
    "other": "has the results of another task",
    "norows": "asked no row",
    "spy": "reports what it sees",
    "hang": "says nothing for ever",
    "chatty": "talks for ever",
    "unfetched": "its rows cannot be fetched",
    "slow": "as sums; its rows are fetched once a file `go` is beside this program",
    "leaves": "as sums; starts a process in a session of its own before",
}
ROWS = 4


def main() -> int:
    if sys.argv[1] == "tasks":
        print(*TASKS, sep="\n")
        return 0
    if sys.argv[1] == "lingers":
        time.sleep(600)
    if sys.argv[1] == "fetch":
        return fetch(*sys.argv[2:])
    task, base, out = sys.argv[2:5]
    print(f"measures {task}", flush=True)
    if task == "spy":
        print("REPORT", json.dumps(report(base)), flush=True)
    if task == "leaves":
        subprocess.Popen([sys.executable, __file__, "lingers"], start_new_session=True)
    while task in {"hang", "chatty"}:
        if task == "chatty":
            print("still here", flush=True)
        time.sleep(0.05)
    if task == "empty":
        print("cannot find the rows", flush=True)
        return 0
    limit = int(sys.argv[6]) if sys.argv[5:6] == ["--limit"] else ROWS
    if sys.argv[1] == "evalplus":
        write_evalplus(task, base, Path(out))
    else:
        write(task, base, Path(out), limit)
    return 3 if task == "exit3" else 0


def fetch(task: str, cache: str) -> int:
    """Write into the cache what this process sees of the machine, under a name that is new each time."""
    if task == "unfetched":
        print("the hub has no such rows", flush=True)
        return 3
    while task == "slow" and not Path(__file__).with_name("go").exists():
        time.sleep(0.05)
    seen = {"environment": dict(os.environ), "interfaces": [name for _, name in socket.if_nameindex()]}
    (Path(cache) / f"rows-{time.time_ns()}").write_text(json.dumps(seen))
    return 0


def write(task: str, base: str, out: Path, limit: int) -> None:
    """Measure and write."""
    folder = out / "model"
    folder.mkdir()
    parts = {"both": ["left", "right"], "short": ["left", "right"]}.get(task, [])
    measured = [part for part in parts or [task] if task != "short" or part != "right"]
    results: dict[str, dict[str, Any]] = {}
    for one in measured:
        samples = [sample(base, one, row) for row in range(limit)]
        right = sum(each["exact_match"] for each in samples) / limit
        results[one] = {"alias": one, "exact_match,none": right, "exact_match_stderr,none": 0.1}
        kept = samples[:-1] if task == "gap" else samples
        lines = "".join(json.dumps(each) + "\n" for each in kept)
        (folder / f"samples_{one}_2026-01-01T00-00-00.jsonl").write_text(lines)
    if task == "nan":
        results[task]["exact_match,none"] = float("nan")
    groups = {task: {"alias": task, "exact_match,none": 0.5}} if parts else {}
    effective = 0 if task == "norows" else limit
    file = {
        "results": {"elsewhere" if one == "other" else one: values for one, values in (results | groups).items()},
        "groups": groups,
        "group_subtasks": {task: parts} if parts else {},
        "versions": dict.fromkeys(results, 1.0),
        "n-shot": dict.fromkeys(results, 0),
        "n-samples": {one: {"original": ROWS, "effective": effective} for one in measured},
    }
    text = json.dumps(file)
    (folder / "results_2026-01-01T00-00-00.json").write_text(text[: len(text) // 2] if task == "torn" else text)


def write_evalplus(task: str, base: str, out: Path) -> None:
    """Measure and write as evalplus does: a problem passes the base tests if its sum is right, and the others if it is
    the first. `short` has a problem without a verdict."""
    (out / task).mkdir()
    every = {}
    for row in reversed(range(ROWS)):
        one = sample(base, task, row)
        base_status = "pass" if one["exact_match"] else "fail"
        plus_status = None if task == "short" and row == 0 else base_status if row == 0 else "fail"
        verdict = {"solution": one["resps"][0][0], "base_status": base_status, "plus_status": plus_status}
        every[f"Sums/{row}"] = [verdict]
        with (out / task / "model_openai_temp_0.0.raw.jsonl").open("a") as replies:
            replies.write(json.dumps({"task_id": f"Sums/{row}", "solution": one["resps"][0][0]}) + "\n")
    file = {"date": "2026-01-01 00:00", "hash": "5ddc62", "eval": every}
    (out / task / "model_openai_temp_0.0_eval_results.json").write_text(json.dumps(file))


def sample(base: str, task: str, row: int) -> dict[str, Any]:
    prompt = f"{task}: 17+{row}="
    status, reply = ask(base, "/completions", {"prompt": prompt, "max_tokens": 8, "temperature": 0})
    assert status == 200, reply
    text = reply["choices"][0]["text"]
    return {
        "doc_id": row, "doc": {}, "target": str(17 + row), "resps": [[text]], "filtered_resps": [text],
        "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {}}}, "filter": "none", "metrics": ["exact_match"],
        "exact_match": float(text == str(17 + row)), "doc_hash": f"d{row}", "target_hash": f"t{row}",
    }  # fmt: skip


def ask(base: str, path: str, body: object = None, *, token: str | None = None) -> tuple[int, Any]:
    """Return (status, decoded body)."""
    bearer = os.environ["RWKVCTL_API_KEY"] if token is None else token
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {bearer}"} if bearer else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, data, headers), timeout=60) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def report(base: str) -> dict[str, Any]:
    """What this process can see, read, write and reach. LOOK names paths, with commas; PORT is one of the node's."""
    out, root = Path(os.environ["RWKVCTL_OUT"]), base.removesuffix("/v1")
    look = os.environ["LOOK"].split(",")
    cache = Path(os.environ["RWKVCTL_CACHE"])
    writable = [str(out), str(cache), os.environ["TMPDIR"], os.environ["HOME"], "/tmp", "/dev/shm"]
    ours = [str(Path(__file__).parent), str(Path(sys.prefix)), str(Path.cwd().parents[2])]
    refused = ["/", "/etc", "/usr", *ours, *look]
    remount = subprocess.run(["mount", "-o", "remount,rw", "/"], capture_output=True, check=False)
    return {
        "environment": dict(os.environ),
        "cache": {path.name: path.read_text() for path in cache.iterdir() if path.is_file()},
        "read": [path for path in look if is_readable(Path(path))],
        "written": [path for path in refused if can_write(Path(path))],
        "not_written": [path for path in writable if not can_write(Path(path))],
        "environments": [one for one in map(environ_of, Path("/proc").glob("[0-9]*/environ")) if "RWKVCTL_HOME" in one],
        "port": connects(int(os.environ["PORT"])),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "capabilities": [line for line in Path("/proc/self/status").read_text().splitlines() if line[:3] == "Cap"],
        "remounted": remount.returncode == 0,
        "status": {
            "models": ask(base, "/models")[0],
            "no token": ask(base, "/models", token="")[0],
            "wrong token": ask(base, "/completions", {"prompt": "x"}, token="sk-1")[0],
            "health": ask(root, "/health", token="")[0],
            "generate": ask(base, "/generate", {})[0],
            "score": ask(base, "/score", {})[0],
            "stats": ask(base, "/stats")[0],
            "bad": ask(base, "/completions", {"max_tokens": 1})[0],
        },
    }  # fmt: skip


def is_readable(path: Path) -> bool:
    """Whether a file has content here, or a folder entries, other than those that lead to what this run is shown."""
    try:
        if not path.is_dir():
            return path.is_file() and bool(path.read_bytes())
        return any(one.is_file() for one in path.iterdir())
    except OSError:
        return False


def environ_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def can_write(folder: Path) -> bool:
    file = folder / f"written-{os.getpid()}"
    try:
        file.write_text("x")
        file.unlink()
    except OSError:
        return False
    return True


def connects(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.exit(main())

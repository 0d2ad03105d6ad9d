"""The stub engine speaks the engine's protocol on its Unix socket, from the standard library, and computes nothing.

It starts in a twentieth of a second, torch alone takes two; hundreds are started, so it imports neither http.server nor
dataclasses, which were half of that. Tests of daemon, runner, store and console use it;
`tests/integration/engine/test_engine_process.py` plays the same requests to it and to the real engine.

A token is a byte (its id is the byte + 1, as in the built-in checkpoint's vocabulary). An answer follows from the
weights' bytes, the prompt's ids and, unless it is greedy, the sample's key: batches, restarts and the number of engines
do not change it. Of sums like `17+25=` three of four are right, or as many of 256 as `right N` in the comment of the
weights' archive says. A sample without stops and with more than ENDLESS
tokens to go never ends by itself: it grows by a byte a millisecond.

`stub.json` beside the engines' folders says how all of them behave, and is looked at before each answer:
  answers    how many answers each engine gives before it holds back the next ones
  slow_s     seconds that each answer takes
  texts      {part of a prompt: completion, or several of which the key takes one}, in place of the computed one
  dies_on    part of a prompt at which the process crashes
  hangs_on   part of a prompt after which nothing is answered any more, and the step counter stands still
  raw        what follows the header of the next answer (as Latin-1), in place of its lines

Of the routes of OpenAI's API it has /v1/models and /v1/completions, for one prompt that is text and without a stream.
"""

import argparse
import hashlib
import json
import os
import re
import select
import signal
import socket
import socketserver
import struct
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from rwkvctl.settings import process_locks

UNLOADED = 5
DOES_NOT_LOAD, NO_SERVICE, QUEUE, SLOTS, MOST_SAMPLES, ENDLESS, SHOWN = 3, 1, 1024, 64, 4096, 4096, 500
LOOK_S, TTL_S = 0.03, 600.0
SUM = re.compile(r"(\d+)\+(\d+)=$")
STREAM = {"content-type": "application/x-ndjson", "transfer-encoding": "chunked"}
Json = dict[str, Any]
Ids = tuple[int, ...]


class BadItemError(Exception):
    """An item is refused, and its request with it."""


class BusyError(Exception):
    """The queue has no room for the request."""


def encode(text: str) -> Ids:
    return tuple(byte + 1 for byte in text.encode())


def decode(ids: Ids) -> str:
    return bytes(token - 1 for token in ids if token).decode(errors="replace")


class Answer:
    """One line that is still to be given. `prompt` is the text that steering looks at."""

    def __init__(
        self, item: str, group: str, prompt: str, line: Json, index: int = 0, most: int = 0, *, endless: bool = False
    ) -> None:
        self.item, self.group, self.prompt, self.line = item, group, prompt, line
        self.index, self.most, self.endless = index, most, endless
        self.cancelled, self.began = False, time.monotonic()

    @property
    def error(self) -> Json:
        """What is answered in its place once it has been cancelled."""
        return {"id": self.item, "index": self.index, "stop": "error", "error": "cancelled"}

    @property
    def text(self) -> str:
        """What there is of it by now."""
        return "x" * int(1000 * (time.monotonic() - self.began)) if self.endless else self.line.get("text", "")[:-1]


class Engine:
    """State of the stub engine, shared by all connections."""

    def __init__(self, options: argparse.Namespace, weights: bytes) -> None:
        self.options, self.weights = options, weights
        self.began, self.lock = time.monotonic(), threading.Lock()
        self.kept: dict[tuple[str, int], Ids] = {}
        self.flying: list[Answer] = []
        self.answered = self.decoded = self.beats = 0
        self.hung, self.raw_sent = False, ""

    @cached_property
    def steering_file(self) -> Path | None:
        return self.options.liveness.parent.parent / "stub.json" if self.options.liveness else None

    def steering(self) -> Json:
        """How a test wants the engines to behave now."""
        try:
            return dict(json.loads(self.steering_file.read_bytes())) if self.steering_file else {}
        except FileNotFoundError:
            return {}

    def beat(self) -> None:
        """Move the step counter that a supervisor watches."""
        with self.lock:
            self.beats += 1
            if self.liveness is not None and not self.hung:
                os.pwrite(self.liveness, struct.pack("<QQ", self.beats, time.monotonic_ns()), 0)

    @cached_property
    def liveness(self) -> int | None:
        path = self.options.liveness
        return None if path is None else os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @cached_property
    def right(self) -> int:
        """Of how many sums in 256 the answer is right."""
        with zipfile.ZipFile(self.options.model) as archive:
            found = re.search(rb"right (\d+)", archive.comment)
        return int(found[1]) if found else 192

    def draw(self, text: str) -> bytes:
        return hashlib.sha256(self.weights + text.encode()).digest()

    def prompt(self, item: Json, text: str, ids: str) -> Ids | None:
        """The ids an item starts from; None where it goes on from something that is not kept."""
        if sum(item.get(name) is not None for name in (text, ids, "continue_from")) != 1:
            raise BadItemError(f"set exactly one of {text}, {ids}, continue_from")
        if (origin := item.get("continue_from")) is not None:
            kept = self.kept.get((origin["id"], origin.get("index", 0)))
            return None if kept is None else (*kept, *encode(origin.get("tail", "")))
        given = item.get(ids)
        begin = encode(item[text]) if given is None else (*given, *encode(item.get("tail", "")))
        return begin if begin[:1] == (0,) else (0, *begin)

    def generate(self, item: Json) -> list[Answer]:
        number, keys, most = item.get("n", 1), item.get("keys", ()), item.get("sampling", {}).get("max_tokens", 256)
        if not 1 <= number <= MOST_SAMPLES or len(keys) > number or most < 1:
            raise BadItemError("n, keys or max_tokens is out of range")
        prompt = self.prompt(item, "text", "ids")
        return [self.sample(item, prompt, n, keys[n] if n < len(keys) else n) for n in range(number)]

    def sample(self, item: Json, prompt: Ids | None, index: int, key: int) -> Answer:
        named, group, keep = (
            {"id": item["id"]} | ({"index": index} if index else {}),
            item.get("group", ""),
            item.get("keep"),
        )
        if prompt is None:
            return Answer(item["id"], group, "", named | {"stop": "error", "error": "gone"}, index)
        sampling, stops, text = item.get("sampling", {}), item.get("stops", {}), decode(prompt)
        most, suffixes = sampling.get("max_tokens", 256), stops.get("suffixes") or stops.get("tokens")
        natural = "stop_suffix" if suffixes else "stop_token" if stops.get("end_of_text", True) else "length"
        whole = encode(self.completion(text, key if sampling.get("temperature") else 0))
        ids, stop = whole[:most], natural if len(whole) < most else "length"
        if keep:
            self.kept[item["id"], index] = (*prompt, *ids)
        cached = {"cached": len(prompt) - 1} if item.get("continue_from") else {}
        usage = {"prompt": len(prompt), "generated": len(ids) + (stop != "length")} | cached
        line = named | {
            "ids": ids,
            "text": decode(ids),
            "stop": stop,
            "usage": usage,
            "prompt_ids": prompt,
            "ttl_s": TTL_S,
        }
        return Answer(item["id"], group, text, line, index, most, endless=natural == "length" and most > ENDLESS)

    def completion(self, prompt: str, key: int) -> str:
        for part, text in self.steering().get("texts", {}).items():
            if part in prompt:
                return str(text[key % len(text)] if isinstance(text, list) else text)
        drawn = self.draw(f"{prompt}\0{key}")
        if found := SUM.search(prompt):
            return str(int(found[1]) + int(found[2]) + (drawn[1] % 9 + 1) * (drawn[0] >= self.right))
        return f"The answer is {drawn[2] % 100}."

    def score(self, item: Json) -> list[Answer]:
        context = self.prompt(item, "context", "context_ids")
        line: Json = {"id": item["id"], "error": "gone"}
        if context is not None:
            head = item.get("context") or ""
            moved = len(head) - len(head.rstrip()) if item.get("split") == "lm-eval" else 0
            draws = [(text, self.draw(f"{decode(context)}\0{text}")) for text in item.get("continuations", ())]
            scores = [
                {
                    "logprob": -(d[0] + d[1] / 256) / 8 * bool(text),
                    "tokens": len(encode(text)) + moved,
                    "greedy": d[0] < 32,
                }
                for text, d in draws
            ]
            line = {"id": item["id"], "scores": scores, "usage": {"prompt": len(context)}}
        return [Answer(item["id"], item.get("group", ""), decode(context or ()), line)]

    def take(self, body: bytes, kind: str) -> list[Answer]:
        """The answers of a request's items, all or none."""
        answers: list[Answer] = []
        for number, line in enumerate(body.split(b"\n"), 1):
            try:
                answers += getattr(self, kind)(json.loads(line)) if line.strip() else ()
            except (ValueError, LookupError, TypeError, AttributeError, BadItemError) as error:
                raise BadItemError(f"line {number}: text, ids or another field: {error}") from error
        if not answers:
            raise BadItemError("the body holds no item")
        with self.lock:
            if self.waiting + len({answer.item for answer in answers}) > self.queue:
                raise BusyError
            self.flying += answers
        return sorted(answers, key=lambda answer: answer.endless)

    @property
    def queue(self) -> int:
        return int(self.options.queue or QUEUE)

    @property
    def slots(self) -> int:
        return int(self.options.slots or SLOTS)

    @property
    def waiting(self) -> int:
        return max(0, len(self.flying) - self.slots)

    def may_give(self, answer: Answer, wanted: Json) -> bool:
        """Whether an answer is due; a prompt may be one at which the engine dies or hangs."""
        if (part := wanted.get("dies_on")) and part in answer.prompt:
            signal.raise_signal(signal.SIGSEGV)  # sent to the process, it would end a moment after the answer
        self.hung |= bool((part := wanted.get("hangs_on")) and part in answer.prompt)
        with self.lock:
            given = not self.hung and not answer.endless and self.answered < wanted.get("answers", self.answered + 1)
            self.answered += given
            self.decoded += given * len(answer.line.get("ids", ()))
        return given

    def health(self) -> Json:
        options = self.options
        return {
            "ok": True, "model": options.name or options.model.stem, "weights_sha256": options.weights_sha256,
            "numerics": options.numerics, "device": "cpu", "attempt": options.attempt, "engine_version": "0.0.0",
            "torch_version": "0.0.0", "vocabulary": 257, "pid": os.getpid(), "device_id": "",
        }  # fmt: skip

    def stats(self) -> Json:
        up, flying, waiting = time.monotonic() - self.began, len(self.flying), self.waiting
        room = max(0, min(4 * self.slots, self.queue) - waiting)
        return {
            "slots": self.slots, "running": flying - waiting, "waiting": waiting, "room": room, "steps": self.beats,
            "prefill_tokens": 0, "decode_tokens": self.decoded, "prefill_tokens_per_s": 0.0,
            "decode_tokens_per_s": self.decoded / up, "occupancy": min(1.0, flying / self.slots), "cache_hits": 0,
            "cache_misses": 0, "kept": len(self.kept), "finished": self.answered, "uptime_s": up, "rss_bytes": 10**7,
            "cached_tokens": 0, "cache_bytes": 0, "cache_host_bytes": 0, "spills": 0, "shrunk": 0, "notes": [],
        }  # fmt: skip

    def now(self, group: str, asked: dict[str, str]) -> Json:
        """A sample that has not been answered, by its name and place among them."""
        found = [answer for answer in self.flying if answer.group == group]
        if not found:
            return {"count": 0}
        found.sort(key=lambda one: (len(one.item), one.item, one.index))
        name, step = (asked.get("id", ""), int(asked.get("index", "0"))), int(asked.get("step", "0"))
        wanted = (len(name[0]), *name)
        place = next((n for n, one in enumerate(found) if (len(one.item), one.item, one.index) >= wanted), 0)
        one = found[(place + step) % len(found)]
        shown = {
            "prompt": one.prompt[-SHOWN:],
            "text": one.text[-SHOWN:],
            "tokens": len(one.text),
            "max_tokens": one.most,
        }
        return {"count": len(found), "place": found.index(one), "id": one.item, "index": one.index} | shown


class Connection(socketserver.StreamRequestHandler):
    """One client. Answers stream as chunks; one that leaves takes its items along."""

    engine: Engine

    def handle(self) -> None:
        """Answer one request after the other, until the client says that it was the last or has gone."""
        self.close_connection = False
        while not self.close_connection and (line := self.rfile.readline()):
            method, self.path, _ = line.decode("latin-1").split()
            self.headers = dict(self.fields())
            self.close_connection = self.headers.get("connection") == "close"
            {"GET": self.get, "POST": self.post, "DELETE": self.delete}.get(method, self.no_method)()

    def fields(self) -> Iterator[tuple[str, str]]:
        while field := self.rfile.readline().decode("latin-1").strip():
            name, _, value = field.partition(":")
            yield name.lower(), value.strip()

    def get(self) -> None:
        asked = urlsplit(self.path)
        match asked.path.strip("/").split("/"):
            case ["v1", "health" | "stats" as what]:
                self.reply(getattr(self.engine, what)())
            case ["v1", "models"]:
                self.reply({"object": "list", "data": [{"id": self.engine.health()["model"], "object": "model"}]})
            case ["v1", "groups", group, "now"]:
                self.now(group, dict(parse_qsl(asked.query)))
            case ["v1", "requests", item, "tail"]:
                self.tail(self.found(item))
            case _:
                self.refuse(404, "no_such_route", f"{self.path} is not served here")

    def now(self, group: str, asked: dict[str, str]) -> None:
        try:
            self.reply(self.engine.now(group, asked))
        except ValueError:
            self.refuse(400, "bad_request", "index and step must be whole numbers")

    def tail(self, found: list[Answer]) -> None:
        """What is new of the samples of an item, until they are answered or the client has gone."""
        if not found:
            self.refuse(404, "no_such_request", "no such item is in flight")
            return
        seen = dict.fromkeys(found, 0)
        self.begin(200, STREAM)
        while live := [one for one in found if one in self.engine.flying]:
            for one in live:
                if piece := one.text[seen[one] :]:
                    seen[one] += len(piece)
                    self.chunk({"id": one.item, "index": one.index, "text": piece})
            time.sleep(LOOK_S)
        self.wfile.write(b"0\r\n\r\n")

    def delete(self) -> None:
        found = self.found(self.path.rpartition("/")[2])
        for answer in found:
            answer.cancelled = True
        if found:
            self.reply({"cancelled": len({answer.item for answer in found})})
        else:
            self.refuse(404, "no_such_request", "no such item is in flight")

    def post(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/v1/completions":
            self.complete(body)
            return
        kind = {"/v1/generate": "generate", "/v1/score": "score"}.get(self.path)
        if kind is None:
            self.refuse(404, "no_such_route", f"{self.path} is not served here")
            return
        try:
            answers = self.engine.take(body, kind)
        except BadItemError as error:
            self.refuse(400, "bad_item", str(error))
        except BusyError:
            self.refuse(429, "queue_full", "the queue is full", {"retry-after": "1"})
        else:
            self.answer(answers)

    def complete(self, body: bytes) -> None:
        """Answer a request of OpenAI's API once all its samples are due."""
        try:
            asked = json.loads(body)
            sampling = {"max_tokens": asked.get("max_tokens", 16), "temperature": asked.get("temperature", 1.0)}
            item = {"id": f"cmpl-{id(body)}", "text": asked["prompt"], "n": asked.get("n", 1), "sampling": sampling}
            answers = self.engine.take(json.dumps(item | {"stops": {"end_of_text": True}}).encode(), "generate")
        except (ValueError, LookupError, TypeError, BadItemError) as error:
            self.reply({"error": {"message": str(error), "type": "invalid_request_error"}}, 400)
            return
        try:
            if not all(self.wait_for(answer) for answer in answers):
                self.close_connection = True
                return
            lines = [answer.line for answer in answers]
            choices = [
                {"index": n, "text": one["text"], "finish_reason": "length" if one["stop"] == "length" else "stop"}
                for n, one in enumerate(lines)
            ]
            prompt, generated = lines[0]["usage"]["prompt"], sum(one["usage"]["generated"] for one in lines)
            usage = {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}
            self.reply({"object": "text_completion", "choices": choices, "usage": usage})
        except OSError:
            self.close_connection = True
        finally:
            self.engine.flying[:] = [one for one in self.engine.flying if one not in answers]

    def found(self, quoted: str) -> list[Answer]:
        """The answers in flight of an item."""
        return [one for one in self.engine.flying if one.item == unquote(quoted) and not one.cancelled]

    def answer(self, answers: list[Answer]) -> None:
        """Give each answer when it is due; those of a client that has gone are forgotten."""
        try:
            self.begin(200, STREAM)
            if (raw := self.engine.steering().get("raw", "")) and raw != self.engine.raw_sent:
                self.engine.raw_sent = raw
                self.wfile.write(raw.encode("latin-1"))
                self.close_connection = True
                return
            for answer in answers:
                self.engine.beat()  # read
                if not self.wait_for(answer):
                    self.close_connection = True
                    return
                self.chunk(answer.error if answer.cancelled else answer.line)
                self.engine.flying.remove(answer)
                self.engine.beat()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True
        finally:
            self.engine.flying[:] = [one for one in self.engine.flying if one not in answers]

    def wait_for(self, answer: Answer) -> bool:
        """Until an answer may be given, or has been cancelled; False once the client has gone."""
        while not answer.cancelled and not self.engine.may_give(answer, wanted := self.engine.steering()):
            if select.select([self.connection], [], [], LOOK_S)[0] and not self.connection.recv(1, socket.MSG_PEEK):
                return False
        time.sleep(0.0 if answer.cancelled else wanted.get("slow_s", 0.0))
        return True

    def chunk(self, line: Json) -> None:
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def begin(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} -", *(f"{name}: {text}" for name, text in headers.items())]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def reply(self, value: Json, status: int = 200, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value, ensure_ascii=False).encode()
        self.begin(status, {"content-type": "application/json", "content-length": str(len(data))} | (headers or {}))
        self.wfile.write(data)

    def refuse(self, status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> None:
        self.reply({"code": code, "detail": detail, "hint": ""}, status, headers)

    def no_method(self) -> None:
        self.close_connection = True  # its body is not read
        self.refuse(405, "no_such_method", "this method is not served here")


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 1024
    engine: Engine
    unwanted = False

    def service_actions(self) -> None:
        """Move the step counter; `serve_forever` calls this every half second."""
        self.engine.beat()

    def handle_error(self, *_: object) -> None:
        """A client that left in the middle is no error of ours."""


def answers_at(path: Path) -> bool:
    """Whether somebody listens on a socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def main() -> int:
    """`python -m rwkv_engine serve MODEL --socket PATH ...`, with the flags that the daemon gives."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("model", type=Path)
    for name in ("socket", "liveness", "daemon-lock"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--idle-unload-s", type=float, default=600.0)
    for name in ("name", "numerics", "device", "weights-sha256", "inodes", "attempt"):
        parser.add_argument(f"--{name}", default="")
    for name in ("memory-bytes", "slots", "queue", "threads"):
        parser.add_argument(f"--{name}", type=int, default=0)
    options = parser.parse_args()
    found = options.model.stat()
    inode = f"{found.st_dev}:{found.st_ino}"
    if options.inodes not in {"", inode, f"{inode}:{found.st_ctime_ns}"}:
        sys.stderr.write(f"cannot read {options.model}: it is not the file that was asked for\n")
        return DOES_NOT_LOAD
    if not zipfile.is_zipfile(options.model):
        sys.stderr.write(f"{options.model.name} is not a checkpoint\n")
        return DOES_NOT_LOAD
    if answers_at(options.socket):
        sys.stderr.write(f"cannot listen on {options.socket}: another process answers there\n")
        return NO_SERVICE
    options.socket.unlink(missing_ok=True)
    os.umask(0o177)
    engine = Engine(options, hashlib.sha256(options.model.read_bytes()).digest())
    engine.beat()  # the real one has its liveness file before its socket
    with Server(str(options.socket), Connection) as server:
        Connection.engine = server.engine = engine
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        if options.daemon_lock:
            threading.Thread(target=until_unwanted, args=(server,), daemon=True).start()
        server.serve_forever()
    options.socket.unlink(missing_ok=True)
    return UNLOADED if server.unwanted else 0


def until_unwanted(server: Server) -> None:
    """End it once no daemon holds its lock and nobody has work for it, as the real engine does."""
    options, since, answered = server.engine.options, time.monotonic(), 0
    while time.monotonic() - since < options.idle_unload_s:
        busy = server.engine.flying or server.engine.answered != answered
        answered = server.engine.answered
        if busy or any(path and process_locks.is_held(path) for path in (options.liveness, options.daemon_lock)):
            since = time.monotonic()
        time.sleep(max(LOOK_S, min(1.0, options.idle_unload_s / 4)))
    sys.stderr.write(f"no daemon runs, and there was no work for {options.idle_unload_s:g} s: the engine exits\n")
    server.unwanted = True
    server.shutdown()


if __name__ == "__main__":
    sys.exit(main())

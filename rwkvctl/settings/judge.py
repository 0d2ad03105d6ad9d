"""Settings of the judge: the tables [judge] and [checker] of config.toml, and the variables that rwkv-skills reads.

    [judge]
    model = "judge-x"                 # the name under which scores record the judge
    budget = 20.0                     # money, in the currency of the prices; 0: no limit
    [[judge.endpoints]]
    base_url = "https://judge.example/v1"
    keys_file = "/etc/rwkvctl/judge.keys"
    requests_per_min = 500            # per key

Pure: `rwkvctl.settings.config` hands over tables and environment. Keys never appear in a representation, a message or
an error. Standard library only, as the command line imports this.
"""

import dataclasses
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from rwkvctl.protocol.errors import ConfigError
from rwkvctl.settings.secret import Secret, is_word

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OPENAI = "https://api.openai.com/v1"
"""Where rwkv-skills' client goes if only a model and a key are given."""

_LOCAL_NETWORKS = tuple(
    ipaddress.ip_network(net) for net in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
)


def setting(default: Any, help_text: str) -> Any:
    """Return a field with its help."""
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointConfig:
    """One OpenAI-compatible server. Limits count per key; 0 means none."""

    base_url: str = setting("", "base URL of the API, with its /v1")
    name: str = setting("", "name to show (default: its host)")
    model: str = setting("", "the model's name at this endpoint (default: [judge] model)")
    keys_file: str = setting("", "a file of keys, one a line, or credential:NAME; others must not be able to read it")
    requests_per_min: int = setting(0, "requests a key may send in any minute")
    tokens_per_min: int = setting(0, "tokens, of prompts and replies, a key may use in any minute")
    concurrency: int = setting(16, "requests a key may have in flight")
    prompt_price: float = setting(0.0, "price of a million prompt tokens")
    completion_price: float = setting(0.0, "price of a million completion tokens")
    structured: bool = setting(
        True, "request replies by JSON Schema if the rule has one, until the endpoint refuses it"
    )
    max_tokens: int = setting(0, "tokens of a reply, for judges that think; 0: the rule's own limit")
    allow_plain_http: bool = setting(False, "send keys and answers unencrypted to a host that is not local")
    proxy: str = setting("", "URL of an HTTP proxy")
    ca_file: str = setting("", "certificates to trust instead of the usual ones")
    key: Secret | None = field(default=None, metadata={"help": "", "internal": True})

    @property
    def label(self) -> str:
        """Name under which the endpoint is shown: its own, else host and port of its URL."""
        return self.name or urlsplit(self.base_url).netloc


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeConfig:
    """A judge: endpoints that serve the same model, and what it may cost."""

    model: str = setting("", "the name under which scores record the judge")
    timeout_s: float = setting(120.0, "a reply that is not complete after this time is dropped and requested again")
    max_tries: int = setting(10, "failures of one request, while others succeed, before its sample stays unjudged")
    max_reply_bytes: int = setting(1_048_576, "a longer reply is cut off and counts as a failure")
    budget: float = setting(0.0, "money to spend in all; 0: no limit")
    budget_tokens: int = setting(0, "tokens to use in all; 0: no limit")
    budget_resets: str = setting("never", "never, or daily at 00:00 UTC")
    job_budget: float = setting(0.0, "money to spend on one job; 0: no limit")
    job_budget_tokens: int = setting(0, "tokens to use on one job; 0: no limit")
    max_runtime_s: float = setting(0.0, "time to judge one job; samples left after it stay unjudged; 0: no limit")
    max_prompt_chars: int = setting(20_000, "length of the checker's prompt")
    endpoints: tuple[EndpointConfig, ...] = field(default=(), metadata={"help": "", "internal": True})


Table = TypeVar("Table", bound="DataclassInstance")

_MODEL = {"judge": ("JUDGE_MODEL", "LLM_JUDGE_MODEL"), "checker": ("CHECKER_MODEL", "LLM_CHECKER_MODEL", "JUDGE_MODEL")}
_KEY = {
    "judge": ("JUDGE_API_KEY", "OPENAI_API_KEY", "API_KEY"),
    "checker": ("CHECKER_API_KEY", "LLM_CHECKER_API_KEY", "JUDGE_API_KEY", "OPENAI_API_KEY", "API_KEY"),
}
_BASE_URL = {
    "judge": ("JUDGE_BASE_URL", "LLM_JUDGE_BASE_URL", "API_BASE"),
    "checker": (
        "CHECKER_BASE_URL",
        "LLM_CHECKER_BASE_URL",
        "JUDGE_BASE_URL",
        "LLM_JUDGE_BASE_URL",
        "API_BASE",
    ),
}


def load(
    table: Mapping[str, Any] | None, environ: Mapping[str, str], *, section: str = "judge", origin: str = "config.toml"
) -> JudgeConfig | None:
    """Return the judge's configuration, or None. `section` is "judge" or "checker"; without a configuration of its own
    nothing is checked, unless the setting `checker` lets the judge do it. Raises ConfigError."""
    config = parse(table, section=section, origin=origin) if table is not None else None
    given = from_environment(environ, section=section)
    own = any(environ.get(name) for name in environ if name.startswith(("CHECKER_", "LLM_CHECKER_")))
    if given is None or (section == "checker" and not own):
        return checked(config, f"{origin}: [{section}]") if config is not None else None
    if given.endpoints or config is None:
        config = dataclasses.replace(config or given, model=given.model, endpoints=given.endpoints)
    else:
        served = tuple(dataclasses.replace(one, model="") for one in config.endpoints)
        config = dataclasses.replace(config, model=given.model, endpoints=served)
    if given.max_tries != JudgeConfig().max_tries:
        config = dataclasses.replace(config, max_tries=given.max_tries)
    return checked(config, f"environment and [{section}]")


def parse(table: Mapping[str, Any], *, section: str = "judge", origin: str = "config.toml") -> JudgeConfig:
    """Return the configuration of a table of config.toml. Raises ConfigError naming the setting that is unknown or
    wrong."""
    where = f"{origin}: [{section}]"
    entries = table.get("endpoints", [])
    if not isinstance(entries, Sequence) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ConfigError(f"{where}: endpoints must be tables, [[{section}.endpoints]].")
    endpoints = tuple(
        filled(EndpointConfig(), entry, f"{origin}: [[{section}.endpoints]] {number}")
        for number, entry in enumerate(entries, 1)
    )
    rest = {name: value for name, value in table.items() if name != "endpoints"}
    return dataclasses.replace(filled(JudgeConfig(), rest, where), endpoints=endpoints)


def from_environment(environ: Mapping[str, str], *, section: str = "judge") -> JudgeConfig | None:
    """Return the configuration of rwkv-skills' variables; None unless one names a model.

    A key from the environment goes to the endpoint from the environment (or OpenAI's) and nowhere else.
    """
    model = _first(environ, _MODEL[section])
    base_url, key = _first(environ, _BASE_URL[section]), _first(environ, _KEY[section])
    if not model:
        return None
    endpoint = EndpointConfig(base_url=_tidy_url(base_url or OPENAI), key=Secret(key.strip()) if key else None)
    tries = JudgeConfig().max_tries
    if section == "checker":
        workers = _number(environ, "CHECKER_MAX_WORKERS", endpoint.concurrency)
        endpoint = dataclasses.replace(endpoint, concurrency=max(workers, 1))
        retries = _number(environ, "CHECKER_MAX_RETRIES", tries - 1)
        tries = retries + 1 if retries >= 0 else 1_000_000  # -1 means for ever
    config = JudgeConfig(model=model, max_tries=tries, endpoints=(endpoint,) if base_url or key else ())
    if section == "checker":
        longest = _number(environ, "CHECKER_MAX_PROMPT_CHARS", config.max_prompt_chars)
        config = dataclasses.replace(config, max_prompt_chars=longest)
    return config


def checked(config: JudgeConfig, where: str) -> JudgeConfig:
    """Return the configuration with the model's name filled in. Raises ConfigError if it cannot work or is not safe."""
    if not config.endpoints:
        raise ConfigError(f"{where}: no endpoint is given; add a table of endpoints with a base_url.")
    models = {endpoint.model for endpoint in config.endpoints if endpoint.model}
    model = config.model or (models.pop() if len(models) == 1 else "")
    if not model:
        raise ConfigError(f"{where}: set model, the name under which scores record the judge.")
    for number, endpoint in enumerate(config.endpoints, 1):
        _check_url(endpoint, f"{where} endpoint {number}")
        if endpoint.concurrency < 1:
            raise ConfigError(f"{where} endpoint {number}: concurrency must be at least 1.")
        if endpoint.key is not None:
            check_key(endpoint.key.reveal(), f"{where}: the key in the environment")
    if config.budget_resets not in {"never", "daily"}:
        raise ConfigError(f"{where}: budget_resets must be never or daily, not {config.budget_resets!r}.")
    if config.timeout_s <= 0 or config.max_tries < 1 or config.max_reply_bytes < 1:
        raise ConfigError(f"{where}: timeout_s, max_tries and max_reply_bytes must be more than 0.")
    return dataclasses.replace(config, model=model)


def check_key(text: str, where: str) -> None:
    """Raise ConfigError for a text that cannot be a key and would break a header. The message never shows it."""
    if not is_word(text):
        raise ConfigError(f"{where} is not a key: it is empty or holds blanks or unprintable characters.")


def _check_url(endpoint: EndpointConfig, where: str) -> None:
    try:
        url = urlsplit(endpoint.base_url)
        host, _ = url.hostname or "", url.port
    except ValueError as error:
        raise ConfigError(f"{where}: base_url is not a URL ({error}).") from None
    if url.scheme not in {"http", "https"} or not host:
        raise ConfigError(f"{where}: base_url must be an http or https URL.")
    if url.username or url.password or url.query or url.fragment:
        raise ConfigError(f"{where}: base_url must hold no user, password or query; put keys into keys_file.")
    if url.scheme == "http" and not endpoint.allow_plain_http and not is_local(host):
        raise ConfigError(
            f"{where}: {host} is not local, so http would send the key and the answers unencrypted; use https, or set "
            "allow_plain_http = true."
        )


def is_local(host: str) -> bool:
    """Whether a host is loopback or a private address, written as an address: what a name resolves to may change."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or any(address in net for net in _LOCAL_NETWORKS if net.version == address.version)


def settings_of(
    table: "type[DataclassInstance]", without: frozenset[str] = frozenset()
) -> "tuple[dataclasses.Field[Any], ...]":
    """Return the fields of a table that a file may set, except those named in `without`."""
    return tuple(f for f in dataclasses.fields(table) if not f.metadata.get("internal") and f.name not in without)


def filled(blank: Table, table: Mapping[str, Any], where: str) -> Table:
    """Return `blank` with a table's values. Raises ConfigError."""
    known = {f.name for f in settings_of(type(blank))}
    values: dict[str, Any] = {}
    for name, raw in table.items():
        if name not in known:
            raise ConfigError(f"{where}: unknown setting '{name}'; there are: {', '.join(sorted(known))}.")
        values[name] = _converted(name, raw, type(getattr(blank, name)), where)
    if "base_url" in values:
        values["base_url"] = _tidy_url(values["base_url"])
    return dataclasses.replace(blank, **values)


def _converted(name: str, raw: object, wanted: type, where: str) -> object:
    """Return the value in the setting's type. A wrong one is not repeated: it may be a key in the wrong place."""
    value = float(raw) if wanted is float and type(raw) is int else raw
    if type(value) is not wanted:
        raise ConfigError(f"{where}: {name} must be {wanted.__name__}, not {type(raw).__name__}.")
    if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
        raise ConfigError(f"{where}: {name} must be a finite number and not negative, is {value}.")
    return value


def _tidy_url(text: str) -> str:
    return text.strip().rstrip("/").removesuffix("/chat/completions")


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    try:
        return int(text) if text else default
    except ValueError:
        raise ConfigError(f"environment: {name} must be a whole number, not {text!r}.") from None

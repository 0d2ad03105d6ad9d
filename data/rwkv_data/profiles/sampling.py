"""The sampling parameters and stops of rwkv-skills, by use (its configs/_templates.toml)."""

from msgspec.structs import replace

from rwkvctl.protocol.engine import Sampling, Stops

UNPENALISED = (" ", "\t", *"0123456789")
COT_STOPS = Stops(tokens=("\n\n", "User"))
FINAL_STOPS = Stops(tokens=("}\\", " }\\"))

FREE_RESPONSE_COT = Sampling(
    max_tokens=4096,
    temperature=0.3,
    top_k=500,
    top_p=0.4,
    presence=0.5,
    frequency=0.1,
    decay=0.99,
    unpenalised=UNPENALISED,
)
MATH_COT = Sampling(
    max_tokens=4096,
    temperature=0.55,
    top_k=66,
    top_p=0.79,
    presence=0.14,
    frequency=0.01,
    decay=0.997,
    unpenalised=UNPENALISED,
)
AIME24_COT = replace(MATH_COT, max_tokens=16384)
FREE_RESPONSE_FINAL = Sampling(max_tokens=64, temperature=1.0, top_k=1, top_p=0.3, decay=0.99, unpenalised=UNPENALISED)

"""The state of an exchange as `ServiceStats`."""

from collections.abc import Mapping

from rwkv_daemon.remote.dispatcher import Exchange
from rwkv_daemon.remote.key_pool import EndpointState
from rwkv_daemon.remote.server_reply import TokenUsage
from rwkv_daemon.remote.service_stats import (
    RECENT_S,
    EndpointStats,
    FlightStats,
    JobStats,
    KeyStats,
    ServiceStats,
    quantile,
)


def snapshot(exchange: Exchange, jobs: Mapping[str, tuple[int, int, int]]) -> ServiceStats:
    """Return the state of the exchange; `jobs` maps each job to its numbers of waiting,
    judged (or answered) and unjudged samples."""
    now = exchange.clock.now()
    endpoints = tuple(_endpoint(exchange, endpoint, now) for endpoint in exchange.pool.endpoints)
    since = exchange.outage_since
    return ServiceStats(
        model=exchange.model,
        parked=exchange.parked,
        queue=len(exchange.queue.requests()),
        in_flight=len(exchange.in_flight),
        rate=sum(endpoint.rate for endpoint in endpoints),
        outages=exchange.outages,
        outage_s=exchange.outage_s + (now - since if since is not None else 0.0),
        usage=exchange.budget.spent,
        endpoints=endpoints,
        jobs=tuple(_job(exchange, job, *counts) for job, counts in jobs.items()),
        flights=tuple(
            FlightStats(
                ", ".join(request.jobs),
                request.question.label,
                now - request.asked_at,
                request.tries + 1,
                request.last_error,
            )
            for request in sorted(exchange.in_flight, key=lambda request: request.asked_at)
        ),
        budget=exchange.budget.config.budget,
        budget_tokens=exchange.budget.config.budget_tokens,
        budget_resets=exchange.budget.config.budget_resets,
        from_cache=exchange.from_cache,
    )


def _endpoint(exchange: Exchange, endpoint: EndpointState, now: float) -> EndpointStats:
    keys = [key for key in exchange.pool.keys if key.endpoint is endpoint]
    recent = [seconds for at, seconds in endpoint.latencies if at > now - RECENT_S]
    latencies = [seconds for _, seconds in endpoint.latencies]
    return EndpointStats(
        name=endpoint.config.label,
        model=endpoint.config.model or exchange.model,
        in_flight=sum(key.in_flight for key in keys),
        room=sum(int(key.allowed) for key in keys if key.usable),
        rate=len(recent) / RECENT_S,
        p50_s=quantile(latencies, 0.5),
        p95_s=quantile(latencies, 0.95),
        counts=dict(endpoint.counts),
        usage=endpoint.usage,
        structured=endpoint.style.structured,
        keys=tuple(KeyStats(key.name, key.state(now), key.in_flight, int(key.allowed)) for key in keys),
    )


def _job(exchange: Exchange, job: str, waiting: int, judged: int, unjudged: int) -> JobStats:
    budget = exchange.budget
    over = budget.refusal(job, TokenUsage(1, 1, 0.0)) if waiting else ""
    return JobStats(job, waiting, judged, unjudged, budget.of(job), over or (exchange.parked if waiting else ""))

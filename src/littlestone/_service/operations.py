"""The routes for whoever runs the service: whether it lives, whether it is ready, and metrics."""

import os
import time
from contextlib import suppress

from fastapi import APIRouter, Depends
from starlette.responses import PlainTextResponse, Response

from littlestone._display import library_version
from littlestone._learners.base import PrivateLearner
from littlestone._learners.causes import PrivateCauses
from littlestone._report.report import counts_of
from littlestone._service import schemas
from littlestone._service.dependencies import Service, ServiceDependency, require_role, wait_for
from littlestone._service.limits import Refused, unavailable
from littlestone._service.metrics import (
    MEDIA_TYPE,
    Family,
    MetricSample,
    exposition,
    process_families,
    single,
)
from littlestone._service.schemas import METRICS, json_response, problems
from littlestone._store.files import wal_file

public = APIRouter(tags=["public"])
private = APIRouter(tags=["operator"])

UNWRITABLE = "the file of the learner, or its folder, cannot be written to"


def why_not_ready(service: Service) -> str | None:
    """Return why rounds cannot be accepted now; None if they can."""
    if (problem := _problem(service)) is not None:
        return problem
    writable = (os.access(path, os.W_OK) for path in (service.path, service.path.parent))
    return None if all(writable) else UNWRITABLE


@public.get("/live", response_model=schemas.LiveResponse, responses=problems(429))
async def live() -> Response:
    """Return 200 if the process answers: restart it if not."""
    return json_response(schemas.LiveResponse(status="ok"))


@public.get("/ready", response_model=schemas.HealthResponse, responses=problems(429, 503))
async def ready(service: ServiceDependency) -> Response:
    """Return 200 if rounds can be accepted, 503 with the reason if not."""
    return _health(service, why_not_ready(service))


@public.get("/healthz", response_model=schemas.HealthResponse, responses=problems(429, 503))
async def healthz(service: ServiceDependency) -> Response:
    """Return 200 if rounds are accepted, 503 with the reason if not; the disk is not looked at."""
    return _health(service, _problem(service))


def _problem(service: Service) -> str | None:
    """Return why rounds are not accepted, or a topic is not read; None if all is well."""
    feeder = service.feeder
    return service.writer.problem or (None if feeder is None else feeder.error)


def _health(service: Service, why: str | None) -> Response:
    if why is not None:
        raise unavailable(why)
    rounds = service.events.state.published.rounds
    return json_response(schemas.HealthResponse(status="ok", rounds=rounds))


@public.get("/metrics", response_class=PlainTextResponse, responses=METRICS | problems(429))
async def metrics(service: ServiceDependency) -> Response:
    """Return public figures for Prometheus: rounds, releases, guarantee, requests, uptime."""
    return _exposed([*_public_families(service), service.requests.family(private=False)])


@private.get(
    "/private/metrics",
    dependencies=[Depends(require_role("operator"))],
    response_class=PlainTextResponse,
    responses=METRICS | problems(401, 403, 429, 503),
)
async def private_metrics(service: ServiceDependency) -> Response:
    """Return all figures for Prometheus. **Private**: mistakes, null rounds, commits, memory."""
    families = [*_public_families(service), service.requests.family(private=True)]
    # If the store is lost or closed, the other figures are wanted all the more.
    with suppress(Refused), service.inspections.slot():
        families += await wait_for(service.writer.inspect(_learner_families))
    writer = service.writer
    families += [
        single("batches_under_way", "gauge", "Batches not answered yet.", service.batches.taken),
        single("queued_jobs", "gauge", "Jobs that wait for the writer.", writer.queued),
        single("event_streams", "gauge", "Open streams of events.", service.watchers.taken),
        single("commit_failures_total", "counter", "Commits that failed.", writer.times.failures),
        writer.times.family(),
        *process_families(service.path, wal_file(service.path)),
    ]
    if service.audit is not None:
        lost = service.audit.failures
        families.append(
            single("audit_failures_total", "counter", "Lines of the audit log lost.", lost)
        )
    return _exposed(families)


def _exposed(families: list[Family]) -> Response:
    text = exposition(families)
    return Response(text.encode(), headers={"Content-Type": MEDIA_TYPE})


def _public_families(service: Service) -> list[Family]:
    """Return what is public: each figure is also in `/guarantee`, `/hypothesis` or `/ready`."""
    config, promised, state = service.config, service.guarantee, service.events.state
    published, spent = state
    facts = {
        "version": library_version(),
        "learner": config.chosen.learner_name,
        "class": config.spec,
        "unit": promised.unit,
    }
    plan, ready = config.chosen.plan, why_not_ready(service) is None
    return [
        Family("info", "gauge", "What is served.", [MetricSample(1, facts)]),
        single("rounds_total", "counter", "Rounds so far.", published.rounds),
        single("horizon_rounds", "gauge", "Rounds that are planned for.", plan.horizon),
        single("releases_total", "counter", "Published rules.", len(published.releases)),
        single("final", "gauge", "1 if the rule cannot change.", int(published.final is not None)),
        single("guarantee_epsilon", "gauge", "Of all that is published.", promised.epsilon),
        single("guarantee_delta", "gauge", "Of all that is published.", promised.delta),
        single("spent_epsilon", "gauge", "Of the guarantee, so far.", float(spent.epsilon)),
        single("spent_delta", "gauge", "Of the guarantee, so far.", float(spent.delta)),
        single("ready", "gauge", "1 if rounds can be accepted.", int(ready)),
        single("uptime_seconds", "gauge", "Since the start.", time.time() - service.started),
    ]


def _learner_families(learner: PrivateLearner) -> list[Family]:
    counts = counts_of(learner.rounds, learner.null_rounds, learner.beyond_cap, learner.mistakes)
    if isinstance(learner, PrivateCauses):
        counts["missed"] = learner.missed
    del counts["rounds"]
    return [
        single(f"{name}_total", "counter", f"{name.replace('_', ' ').capitalize()}: private.", n)
        for name, n in counts.items()
    ]

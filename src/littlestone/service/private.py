"""The routes that need a token: a feeder writes rounds, an operator looks at the private side."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from littlestone.learners.base import PrivateLearner
from littlestone.learners.trace import Sample
from littlestone.report.result import counts_of, ledger_rows
from littlestone.service import schemas
from littlestone.service.dependencies import ServiceDependency, body_of, require_role, run_in_thread
from littlestone.service.limits import unavailable
from littlestone.service.parsing import parse_block, rows_at_fault
from littlestone.service.public import as_json
from littlestone.service.schemas import BODIES, problems

router = APIRouter()


@router.post(
    "/rounds",
    dependencies=[Depends(require_role("feeder"))],
    tags=["feeder"],
    response_model=schemas.ReceiptResponse,
    responses=problems(400, 401, 403, 408, 409, 413, 415, 422, 429, 503),
    openapi_extra={"requestBody": BODIES["rounds"]},
)
async def rounds(
    request: Request,
    service: ServiceDependency,
    bad_rows: Annotated[
        Literal["refuse", "null"],
        Query(description="What becomes of a batch with rows that cannot be read."),
    ] = "refuse",
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=200,
            pattern=r"^[\x21-\x7e]+$",
            description="Names the batch, so that sending it again is not a second round.",
        ),
    ] = None,
) -> Response:
    """Learn a batch of rows: a round each, in order. The answer comes when they are on disk.

    A batch with a row that cannot be read is refused whole (422) and changes nothing. **What is
    refused is outside the privacy guarantee: the refusal tells that there was a bad row.** With
    `bad_rows=null` such rows become null rounds, which is inside. Sent again with the same
    `Idempotency-Key`, a batch gets the same receipt, with `again` true; other bytes under a known
    key get 409. The last 100,000 keys are remembered.
    """
    if service.writer.over is not None:
        raise unavailable(service.writer.over)
    with service.batches.one():
        body = await body_of(request, service.limits, service.limits.body)
        given = body.data, body.form, service.wanted, service.limits
        block = await service.feeding.do(len(body.data), parse_block, *given)
        if block.nulls and bad_rows == "refuse":
            raise rows_at_fault(block.bad, block.nulls, len(block))
        digest = body.digest(bad_rows)
        receipt = await run_in_thread(service.writer.learn(block, idempotency_key, digest))
    return as_json(
        {
            "first": receipt.first,
            "rounds": receipt.rounds,
            "null_rounds": receipt.nulls,
            "again": receipt.again,
        }
    )


@router.get(
    "/private/trace",
    dependencies=[Depends(require_role("operator"))],
    tags=["operator"],
    response_model=schemas.TraceResponse,
    responses=problems(401, 403, 422, 429, 503),
)
async def trace(
    service: ServiceDependency,
    samples: Annotated[int, Query(ge=0, le=5000, description="At most so many.")] = 200,
) -> Response:
    """Mistakes, votes, rate, null rounds, ledger. **Private**: exact, for the data owner."""
    with service.looks.one():
        seen = await run_in_thread(service.writer.look(_seen))
    since = service.news.releases[-1]["round"] - 1
    return as_json(_told(*seen, since, samples))


Seen = tuple[tuple[Sample, ...], dict[str, int], list[tuple[str, str, str, str]]]


def _seen(learner: PrivateLearner) -> Seen:
    """What there is to see of a learner, in values that do not change when it goes on."""
    counts = counts_of(learner.rounds, learner.null_rounds, learner.beyond_cap, learner.mistakes)
    return learner.trace, counts, ledger_rows(learner)


def _told(
    found: tuple[Sample, ...],
    counts: dict[str, int],
    ledger: list[tuple[str, str, str, str]],
    since: int,
    most: int,
) -> dict[str, Any]:
    now = found[-1]
    before = [sample.mistakes for sample in found if sample.round <= since]
    ours, stood = now.mistakes - (before[-1] if before else 0), counts["rounds"] - since
    counted = counts["counted_rounds"]
    return {
        **counts,
        "rate": counts["mistakes"] / counted if counted else None,
        "mistakes_of_rule": ours,
        "rate_of_rule": ours / stood if stood else None,
        "voters": sum(votes for _, votes in now.votes),
        "votes": _votes(now),
        "samples": [_sample(sample) for sample in _thinned(found, most)],
        "ledger": [
            dict(zip(schemas.SpentResponse.model_fields, line, strict=True)) for line in ledger
        ],
    }


def _sample(sample: Sample) -> dict[str, Any]:
    return {"round": sample.round, "mistakes": sample.mistakes, "votes": _votes(sample)}


def _votes(sample: Sample) -> list[dict[str, Any]]:
    return [{"sentence": str(rule), "votes": votes} for rule, votes in sample.votes]


def _thinned(found: tuple[Sample, ...], most: int) -> list[Sample]:
    """At most so many, spread evenly, the last among them.

    >>> [sample.round for sample in _thinned(tuple(Sample(n, 0, ()) for n in range(10)), 4)]
    [1, 4, 6, 9]
    """
    if most >= len(found):
        return list(found)
    return [found[(at + 1) * len(found) // most - 1] for at in range(most)]

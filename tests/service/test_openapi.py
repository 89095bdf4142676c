"""The service against its own description: whatever fits it, or does not, is answered as it says.

Schemathesis makes the requests; the service is real.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from effort import scaled
from littlestone._service.tokens import Role
from littlestone._store.request import LearnRequest
from running_service import Running, bearing, running

TASK = LearnRequest(
    spec="thresholds:score:0:100:5",
    label="bad",
    epsilon=1.0,
    delta=1e-9,
    horizon=100_000,
    user="who",
    cap=9,
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
ROLES: dict[str, Role] = {
    "/rounds": "feeder", "/private/trace": "operator", "/private/metrics": "operator"
}  # fmt: skip
ROUTES = [
    ("GET", "/hypothesis"), ("GET", "/releases"), ("GET", "/evidence"), ("GET", "/guarantee"),
    ("GET", "/live"), ("GET", "/ready"), ("GET", "/metrics"),
    ("GET", "/private/metrics"), ("GET", "/private/trace"), ("POST", "/predict"),
    ("POST", "/rounds"),
]  # fmt: skip
CASES = [
    (verb, path, kind)
    for verb, path in ROUTES
    for kind in ("positive", "negative")
    if kind == "positive" or path in ("/releases", "/predict", "/rounds", "/private/trace")
]
"""A route that takes nothing cannot be asked wrongly."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("openapi") / "run.db", task=TASK) as found:
        yield found


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as found:
        yield found


@pytest.mark.parametrize(("verb", "path", "kind"), CASES)
def test_every_route_answers_as_described(
    served: Running, session: requests.Session, verb: str, path: str, kind: str
) -> None:
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    mode = schemathesis.GenerationMode(kind)
    operation = schema[path][verb]
    statuses: set[int] = set()

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=scaled(40, least=10),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answered(case: schemathesis.Case[Any]) -> None:
        response = case.call(session=session, headers=bearing(ROLES.get(path)), timeout=60)
        case.validate_response(response, checks=CHECKS)
        statuses.add(response.status_code)

    answered()
    assert (200 in statuses) if kind == "positive" else (422 in statuses), statuses

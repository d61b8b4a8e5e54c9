"""The OpenAPI document: current, valid, and kept by the API under fuzzing."""

import io
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
import schemathesis
import yaml
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from apps.accounts.services import membership_set
from apps.core.clock import utc_now
from tests.spine_world import SYSTEM, make_node, submit
from tests.world import World, job_exits, job_runs

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "openapi.yaml"


def generated() -> str:
    out = io.StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    return out.getvalue()


def test_the_committed_document_is_current_and_valid() -> None:
    """When this fails: manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml"""
    assert DOCUMENT.read_text() == generated()


def test_it_says_what_one_needs() -> None:
    schema: dict[str, Any] = yaml.safe_load(DOCUMENT.read_text())
    assert schema["openapi"].startswith("3.1")
    operations = [op for verbs in schema["paths"].values() for op in verbs.values()]
    assert all(op.get("summary") for op in operations)
    assert len({op["operationId"] for op in operations}) == len(operations)
    for op in operations:
        assert "application/problem+json" in op["responses"]["422"]["content"]
    submit_op = schema["paths"]["/api/v1/jobs"]["post"]
    assert {p["name"] for p in submit_op["parameters"]} >= {"Berth-Tenant", "Idempotency-Key", "Accept-Language"}
    assert submit_op["requestBody"]["content"]["application/json"]["examples"]


CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.slow
def test_fuzzing_finds_no_fault_and_no_broken_promise(lasting_world: World) -> None:
    """Generated requests to every operation, about real and about unknown things, by someone who may do everything."""
    world, node = lasting_world, make_node()
    membership_set(actor=SYSTEM, tenant=world.acme, user=world.olga.user, role="owner", now=utc_now())  # type: ignore[arg-type]
    job = submit(world.alice.actor, world.acme)  # type: ignore[arg-type]
    job_exits(node, job_runs(node, job.id), b"log\n", b"tar")
    known = {"job_id": str(job.id), "node": "gpu-01"}
    schema = schemathesis.openapi.from_wsgi("/api/v1/schema", get_wsgi_application())
    answers: Counter[int] = Counter()
    for operation in schema.get_all_operations():
        answers += fuzz(cast("Any", operation).ok(), known, world.olga.headers)
    assert answers.total() > 200
    assert {200, 201, 404, 422} <= set(answers)


def fuzz(operation: Any, known: dict[str, str], headers: dict[str, str]) -> Counter[int]:
    """Tries generated requests to one operation; returns how often which status came."""
    answers: Counter[int] = Counter()

    @settings(
        max_examples=10, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy())
    def attempt(case: Any) -> None:
        for name in case.path_parameters or {}:
            case.path_parameters[name] = known[name] if answers.total() % 3 else str(uuid.UUID(int=7))
        own = {"Idempotency-Key", "Range", "Accept-Language"}
        case.headers = {name: value for name, value in (case.headers or {}).items() if name in own} | headers
        answers[case.call_and_validate(checks=CHECKS).status_code] += 1

    attempt()
    return answers

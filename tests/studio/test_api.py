"""The API as it is documented, fuzzed: no fault of ours, no traceback, and nothing spent by what is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from .conftest import Running

pytestmark = pytest.mark.xdist_group("studio")

REQUESTS, ALL_REQUESTS, PARTS = 300, 10_000, 4


def spent(studio: Running) -> str:
    """The last link of the ledger's log, whose hash covers everything before it."""
    with closing(sqlite3.connect(f"file:{studio.folder}/home.ledger?mode=ro", uri=True)) as connection:
        return str(connection.execute("SELECT seq, chain FROM events ORDER BY seq DESC LIMIT 1").fetchone())


def test_the_description_is_complete(studio: Running) -> None:
    described = studio.client.get("/api/openapi.json").json()
    for path, methods in described["paths"].items():
        assert path.startswith("/api/")
        for method, known in methods.items():
            assert known["description"], (method, path)
            assert {"401", "403", "422"} <= known["responses"].keys()
    shown = studio.client.get("/api").text
    assert all(path in shown for path in described["paths"])
    order = described["components"]["schemas"]["VectorOrder"]["properties"]
    assert all(known.get("description") for name, known in order.items() if name != "mechanism")


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_documented_breaks_whatever_is_sent(studio: Running, full: bool, part: int) -> None:
    import schemathesis  # here, since every worker reads this file

    schema = schemathesis.openapi.from_dict(studio.client.get("/api/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations()][part::PARTS]
    quota = -(-(ALL_REQUESTS if full else REQUESTS) // PARTS)
    studio.account()  # there must be something to lose
    sent = 0

    def fuzz(operation: Any, each: int) -> None:
        modes = [operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]

        @seed(sent)  # another one each time, and the same in every run
        @settings(
            max_examples=each,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
            deadline=None,
        )
        @given(case=st.one_of(modes))
        def send(case: Any) -> None:
            nonlocal sent
            before = spent(studio)
            answer = case.call(
                base_url=studio.address,
                session=studio.client.session,
                timeout=120,
                headers={"authorization": f"Bearer {studio.token}"},
            )
            sent += 1
            assert answer.status_code < 500, (case.as_curl_command(), answer.text)
            assert "Traceback" not in answer.text
            assert 'File "' not in answer.text
            if answer.status_code >= 400:
                assert spent(studio) == before
                assert "error" in answer.json() or answer.status_code == 405

        send()

    while sent < quota:  # some have nothing to vary, the others make up for them
        each = -(-(quota - sent) // len(operations))
        for operation in operations:
            fuzz(operation, each)
    assert "unexpected" not in studio.log
    studio.ledger.check()


def test_every_budget_that_the_form_offers_can_be_opened(studio: Running) -> None:
    schema = studio.client.get("/api/openapi.json").json()["components"]["schemas"]["NewAccount"]
    largest = schema["properties"]["epsilon"]["maximum"]
    budget = {"name": f"largest-{token_hex(4)}", "delta": 1e-6}
    assert studio.client.post("/api/accounts", json={**budget, "epsilon": largest}).status_code == 201
    refused = studio.client.post("/api/accounts", json={**budget, "name": "too large", "epsilon": largest + 1})
    assert refused.status_code == 422

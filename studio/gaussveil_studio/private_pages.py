"""Diagnostics from private data: on a page of their own, only where the studio was started with --diagnostics."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from gaussveil.errors import ParameterError
from gaussveil_studio.answers import REFUSALS, answered
from gaussveil_studio.context import Context, given_work, page
from gaussveil_studio.offers.orders import KEY, Asked, Text
from gaussveil_studio.release_records import listed

router = APIRouter()
NOT_COMPARED = (
    "forecast",
    "process",
    "sketch",
    "stream",
)  # drawn from laws that keep their own spread


class CompareRequest(Asked):
    """Which release to compare with its table."""

    key: str = Field(pattern=KEY)


class AuditRequest(Asked):
    """The sum of a table's rows with Gaussian noise, and what is claimed of it."""

    table: Text
    variance: float = Field(
        gt=0, le=1e12, description="Variance of the noise on every column's sum."
    )
    epsilon: float = Field(ge=0, le=1e4)
    delta: float = Field(ge=0, le=1)


class PrivateFigures(BaseModel):
    """Figures that must not leave the house."""

    warning: str
    facts: list[tuple[str, str]]
    pictures: list[dict[str, object]]


@router.get("/diagnostics", include_in_schema=False)
def diagnostics(request: Request, context: Context) -> Response:
    """The page."""
    done = [
        one
        for one in listed(context)
        if one["state"] == "released" and one["mechanism"] not in NOT_COMPARED
    ][:50]
    return page(
        request,
        "diagnostics.html",
        releases=done,
        tables=[vars(table) for table in context.catalogue.tables()],
    )


@router.post(
    "/api/diagnostics/release",
    responses=REFUSALS,
    response_model=PrivateFigures,
    tags=["private"],
)
@given_work
def compare(request: Request, context: Context, asked: CompareRequest) -> Response:
    """How far a release is from its table. Private."""
    status = context.jobs.status(asked.key)
    if status.state != "released" or status.done is None:
        raise ParameterError("there is no finished release under that key")
    order = context.jobs.request(asked.key)
    address = (
        order["address"]
        or context.catalogue.find(order["request"]["table"] or "").address
    )
    found = context.worker.ask(
        "diagnose",
        order=order["request"]["order"],
        address=address,
        picture=status.done["picture"],
        called={address: order["table_name"]},
    )
    return answered(request, "piece_figures.html", found)


@router.post(
    "/api/diagnostics/audit",
    responses=REFUSALS,
    response_model=PrivateFigures,
    tags=["private"],
)
@given_work
def audit(request: Request, context: Context, asked: AuditRequest) -> Response:
    """The exact delta of a noisy sum on every neighbour of a table, against a claim. Private."""
    table = context.catalogue.find(asked.table)
    found = context.worker.ask(
        "diagnose",
        address=table.address,
        variance=asked.variance,
        epsilon=asked.epsilon,
        delta=asked.delta,
        called={table.address: table.name},
    )
    return answered(request, "piece_figures.html", found)

"""Explore: a pair of Gaussians by sliders or by file, its exact curves, and the enclosure on request."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.responses import Response

from gaussveil.errors import FormatError
from gaussveil.files import json_values
from gaussveil_studio import curves
from gaussveil_studio.answers import REFUSALS, answered
from gaussveil_studio.context import Context, given_work, page, sliders, summaries
from gaussveil_studio.sliders import MOST_COORDINATES
from gaussveil_studio.worker import LIMIT_OF_GIVEN_WORK

router = APIRouter()

PAIR_ENDINGS = (".json", ".npz", ".csv")
Times = Annotated[
    int,
    Form(ge=1, le=100_000, description="How often the pair is composed with itself."),
]


class FileCurve(BaseModel):
    """The curve of a pair in a file; `pair` holds the sliders that stand for it, where there are few enough."""

    pair: curves.PairState | None
    curve: curves.Curve
    summary: curves.Summary


@router.get("/explore", include_in_schema=False)
async def explore(request: Request) -> Response:
    """The page; its state is in the address, so that a link shows the same to everybody."""
    return page(request, "explore.html", most=MOST_COORDINATES)


@router.post(
    "/api/curve", responses=REFUSALS, response_model=curves.Curve, tags=["explore"]
)
@sliders
def curve(asked: curves.CurveRequest) -> Response:
    """delta(epsilon) of a pair, exact in both directions, with the Renyi bound for comparison."""
    found = curves.curve(asked.loss(), asked.points, asked.epsilon_max)
    return JSONResponse(json_values(found, not_finite_as_null=True))


@router.post(
    "/api/summary", responses=REFUSALS, response_model=curves.Summary, tags=["explore"]
)
@summaries
def summary(asked: curves.SummaryRequest) -> Response:
    """Epsilon at one delta, exact and by the Renyi bound, and the trade-off curve."""
    found = curves.summary(asked.loss(), asked.delta, asked.points)
    return JSONResponse(json_values(found, not_finite_as_null=True))


@router.post(
    "/api/enclosure", responses=REFUSALS, response_model=curves.Ends, tags=["explore"]
)
@given_work
def enclosure(
    request: Request, context: Context, asked: curves.EnclosureRequest
) -> Response:
    """Rigorous ends of delta at one epsilon, by ball arithmetic."""
    pair = asked.model_dump(exclude={"epsilon"})
    found = context.worker.ask(
        "enclose", seconds=LIMIT_OF_GIVEN_WORK, pair=pair, epsilon=asked.epsilon
    )
    return answered(request, "piece_enclosure.html", found)


@router.post(
    "/api/curve/file", responses=REFUSALS, response_model=FileCurve, tags=["explore"]
)
@given_work
def curve_of_file(
    context: Context,
    file: Annotated[UploadFile, File(description="A pair in JSON, NPZ or CSV.")],
    times: Times = 1,
) -> Response:
    """The curve of a pair in a file."""
    found = with_file(
        context,
        file.filename or "",
        file.file.read(),
        "curve_of_file",
        times=times,
        points=81,
    )
    return JSONResponse(found)


def with_file(
    context: Context,
    name: str,
    body: bytes,
    task: str,
    seconds: float = LIMIT_OF_GIVEN_WORK,
    **arguments: Any,
) -> dict[str, Any]:
    """Let the worker read an uploaded file that is kept for this one task only."""
    ending = Path(name).suffix.lower()
    if ending not in PAIR_ENDINGS:
        raise FormatError(f"the file must end in {', '.join(PAIR_ENDINGS)}")
    with tempfile.TemporaryDirectory(dir=context.catalogue.store) as folder:
        path = Path(folder) / f"file{ending}"
        path.write_bytes(body)
        called = {str(path): "the file"}
        return context.worker.ask(
            task, called=called, seconds=seconds, path=str(path), **arguments
        )

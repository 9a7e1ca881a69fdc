"""Verify and audit: a certificate recomputed and explained; a pair and a claim, held or refuted."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Request, UploadFile
from pydantic import BaseModel
from starlette.responses import Response

from gaussveil_studio import curves
from gaussveil_studio.answers import REFUSALS, answered
from gaussveil_studio.context import Context, given_work, page
from gaussveil_studio.explore_pages import Times, with_file
from gaussveil_studio.worker import LIMIT_SECONDS

router = APIRouter()


class CertificateVerdict(BaseModel):
    """A certificate recomputed."""

    checked: str
    verdict: str
    verified: bool
    private: bool
    epsilon: float
    delta: float
    delta_lower: float
    delta_upper: float
    proven: bool
    signature: str
    rests_on: str
    on_trust: str
    problems: list[str]
    explained: list[tuple[str, str]]
    certificate: dict[str, object]


class ClaimVerdict(BaseModel):
    """A claim decided: the upper end certifies, the lower end refutes."""

    verdict: Literal["holds", "refuted", "undecided"]
    claim: dict[str, float]
    times: int
    ends: curves.Ends
    curve: curves.Curve


@router.get("/verify", include_in_schema=False)
async def verify(request: Request) -> Response:
    """The page."""
    return page(request, "verify.html")


@router.post(
    "/api/certificate",
    responses=REFUSALS,
    response_model=CertificateVerdict,
    tags=["verify"],
)
@given_work
def certificate(
    request: Request,
    context: Context,
    file: Annotated[
        UploadFile, File(description="A certificate, JSON, or a package.zip with one.")
    ],
) -> Response:
    """Recompute a certificate from its own contents and explain it."""
    found = with_file(
        context,
        "certificate.json",
        file.file.read(),
        "verify_certificate",
        LIMIT_SECONDS,
    )
    return answered(request, "piece_certificate.html", found)


@router.post(
    "/api/claim", responses=REFUSALS, response_model=ClaimVerdict, tags=["verify"]
)
@given_work
def claim(
    request: Request,
    context: Context,
    file: Annotated[UploadFile, File(description="A pair in JSON, NPZ or CSV.")],
    epsilon: Annotated[float, Form(ge=0, le=1e4, description="Claimed epsilon.")],
    delta: Annotated[float, Form(ge=0, le=1, description="Claimed delta.")],
    times: Times = 1,
) -> Response:
    """Decide a claimed (epsilon, delta) of a pair by rigorous enclosures of both directions."""
    body = file.file.read()
    asked = {"times": times, "epsilon": epsilon, "delta": delta}
    found = with_file(context, file.filename or "", body, "check_claim", **asked)
    return answered(request, "piece_claim.html", found)

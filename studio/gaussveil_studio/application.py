"""The studio as one ASGI application: pages and API, errors, static files, and the guard around it all."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import anyio.to_thread
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from gaussveil.errors import GaussveilError
from gaussveil_studio import (
    account_pages,
    answers,
    curves,
    explore_pages,
    front_pages,
    release_pages,
    tour_pages,
    verify_pages,
)
from gaussveil_studio.access import Access
from gaussveil_studio.context import Studio
from gaussveil_studio.forms import FOLDER
from gaussveil_studio.guard import Guard
from gaussveil_studio.jobs import Jobs
from gaussveil_studio.settings import Settings, private_folder
from gaussveil_studio.table_catalogue import TableCatalogue
from gaussveil_studio.worker import Worker

MOST_THREADS = 4  # more would only fight for the cores, and each has memory of its own
LAST_WORDS = 5.0  # seconds that a stopping server gives to releases under way

DESCRIPTION = """
The endpoints behind the pages. Send the token of the link, or the password, as `Authorization: Bearer ...`.
With the header `HX-Request: true` an endpoint answers with a piece of HTML instead of JSON.
Every error has the form of `Problem`. Nothing that is refused is debited.
"""


def _warm_up() -> None:
    """Draw one curve before the first visitor does: what loads on first use loads now."""
    curves.curve(curves.PairState(variance_ratio=[1.2], mean_shift=[0.5]).loss(), 3)


def make_application(settings: Settings) -> ASGIApp:
    """Build the application."""
    access = Access(settings)
    os.environ[FOLDER] = str(
        private_folder(settings.state / "forms")
    )  # for its processes, which read tables
    jobs = Jobs(settings)
    studio = Studio(
        settings,
        access,
        TableCatalogue(settings, jobs.tables_in_use()),
        jobs,
        Worker(),
        Worker(),
        Worker(),
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = MOST_THREADS
        await anyio.to_thread.run_sync(_warm_up)
        yield
        studio.worker.close()
        studio.reader.close()
        studio.describer.close()
        studio.jobs.wait(LAST_WORDS)
        studio.catalogue.clear(studio.jobs.tables_in_use())

    app = FastAPI(
        title="gaussveil studio",
        version=version("gaussveil"),
        description=DESCRIPTION,
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.state.studio = studio
    for kind, handler in (
        (GaussveilError, answers.on_our_error),
        (HTTPException, answers.on_http_error),
        (RequestValidationError, answers.on_bad_request),
        (Exception, answers.on_surprise),
    ):
        app.add_exception_handler(kind, handler)
    for router in (
        front_pages.router,
        explore_pages.router,
        release_pages.router,
        tour_pages.router,
        account_pages.router,
        verify_pages.router,
    ):
        app.include_router(router)
    if settings.diagnostics:
        from gaussveil_studio.private_pages import router as private_router

        app.include_router(private_router)
    app.mount(
        "/static",
        StaticFiles(directory=Path(__file__).parent / "static"),
        name="static",
    )
    return Guard(app, settings, access)

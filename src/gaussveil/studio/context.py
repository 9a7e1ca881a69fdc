"""What all routes share: settings, who may come in, tables, releases, the worker; and how a page is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse

from gaussveil.accounting import Ledger
from gaussveil.studio.access import Access
from gaussveil.studio.answers import html
from gaussveil.studio.jobs import Jobs
from gaussveil.studio.settings import Settings
from gaussveil.studio.table_catalogue import TableCatalogue
from gaussveil.studio.worker import Worker


@dataclass(frozen=True)
class Studio:
    """All of it, made once when the server starts."""

    settings: Settings
    access: Access
    catalogue: TableCatalogue
    jobs: Jobs
    worker: Worker

    def accounts(self) -> list[str]:
        """Names of the accounts; none where there is no ledger yet."""
        return Ledger(self.settings.ledger).accounts() if self.settings.ledger.exists() else []


def studio_of(request: Request) -> Studio:
    """The studio, for a route."""
    found: Studio = request.app.state.studio
    return found


Context = Annotated[Studio, Depends(studio_of)]


def page(request: Request, name: str, status: int = 200, **known: object) -> HTMLResponse:
    """A whole page with its navigation."""
    studio = studio_of(request)
    return html(
        name,
        status,
        here=request.url.path,
        csrf=studio.access.csrf,
        diagnostics=studio.settings.diagnostics,
        version=request.app.version,
        **known,
    )

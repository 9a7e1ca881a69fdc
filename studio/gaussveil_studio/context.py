"""What all routes share: settings, who may come in, tables, releases, the worker; and how a page is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import anyio
from fastapi import Depends, Request
from fastapi.responses import HTMLResponse

from gaussveil.accounting import Ledger
from gaussveil.errors import ParameterError
from gaussveil_studio.access import Access
from gaussveil_studio.answers import html
from gaussveil_studio.jobs import Jobs
from gaussveil_studio.settings import Settings
from gaussveil_studio.table_catalogue import TableCatalogue
from gaussveil_studio.worker import Worker


class Queue:
    """Routes that wait for each other and for nobody else: each kind of work has a thread and a queue of its own."""

    def __init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(1)

    def __call__(self, route: Callable[..., Any]) -> Callable[..., Any]:
        """The route, in this queue."""

        @wraps(route)
        async def queued(*given: Any, **named: Any) -> Any:
            return await anyio.to_thread.run_sync(
                partial(route, *given, **named), limiter=self._limiter
            )

        return queued


sliders, summaries, given_work, books, describing = (Queue() for _ in range(5))


@dataclass(frozen=True)
class Studio:
    """All of it, made once when the server starts.

    Books are read apart, and tables described: work that somebody gave may take its time.
    """

    settings: Settings
    access: Access
    catalogue: TableCatalogue
    jobs: Jobs
    worker: Worker
    reader: Worker
    describer: Worker

    def accounts(self) -> list[str]:
        """Names of the accounts; none where there is no ledger yet."""
        if self.settings.ledger.exists():
            return Ledger(self.settings.ledger).accounts()
        return []

    def is_of_tour(self, account: str) -> bool:
        """Whether an account is one of the tour's."""
        path = self.settings.tour_ledger
        return (
            path.exists()
            and account not in self.accounts()
            and account in Ledger(path).accounts()
        )

    def ledger_of(self, account: str | None, table: str | None) -> Path:
        """The ledger that an account is in; the tour's pay for rows of nobody alone, or no account would be debited."""
        if account is None or account in self.accounts():
            return self.settings.ledger
        if not self.is_of_tour(account):
            raise ParameterError(
                "there is no such account; open one on the page Accounts"
            )
        if table is None or not self.catalogue.find(table).sample:
            raise ParameterError(
                "the account of the tour pays for the sample table alone: choose another account"
            )
        return self.settings.tour_ledger

    def people(self) -> dict[str, str]:
        """Accounts, and the people that each is kept for; none for most, and no accounts where there is no ledger."""
        if not self.settings.ledger.exists():
            return {}
        book = Ledger(self.settings.ledger)
        return {name: book.terms(name).people for name in book.accounts()}


def studio_of(request: Request) -> Studio:
    """The studio, for a route."""
    found: Studio = request.app.state.studio
    return found


Context = Annotated[Studio, Depends(studio_of)]


def page(
    request: Request, name: str, status: int = 200, **known: object
) -> HTMLResponse:
    """A whole page with its navigation."""
    studio = studio_of(request)
    frame = {
        "csrf": studio.access.csrf,
        "diagnostics": studio.settings.diagnostics,
        "version": request.app.version,
    }
    return html(name, status, **{"here": request.url.path, **frame, **known})

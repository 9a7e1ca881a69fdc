"""What every release of a table asks for, declared once, and what follows from it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaussveil.cli import options
from gaussveil.cli.files import check_release, release_files
from gaussveil.cli.output import digits, tell
from gaussveil.cli.tables import (
    Engine,
    EngineOption,
    TableAddress,
    local_file,
    open_table,
)
from gaussveil.cli.unfinished import found_again, keyed_noise
from gaussveil.errors import ParameterError

if TYPE_CHECKING:
    from gaussveil.statistics import Source


@dataclass(frozen=True, kw_only=True)
class AskedOfTable:
    """The options that a command has beside its own."""

    source: TableAddress
    epsilon: options.Epsilon
    engine: EngineOption = Engine.duckdb
    ledger: options.PayingLedger = None
    account: options.PayingAccount = None
    release_id: options.ReleaseId = None
    people: options.People = None
    force: options.Force = False
    dry_run: options.DryRun = False
    json: options.Json = False

    @property
    def promise(self) -> dict[str, Any]:
        """What the mechanism is told of them."""
        paying = (self.ledger, self.account)
        if self.release_id is not None and (
            not self.release_id.strip() or None in paying
        ):
            raise ParameterError(
                "--release-id must be a name, given with --ledger and --account, which remember it"
            )
        planned = (
            self.dry_run and None in paying
        )  # a plan needs no account, whatever gaussveil.toml says of one
        if planned:
            account = None
        else:
            account = options.paying_account(*paying)
        return {
            "epsilon": self.epsilon,
            "account": account,
            "people": self.people,
            "generator": keyed_noise(),
        }

    def check(
        self,
        out: Path,
        *others: Path | None,
        endings: tuple[str, ...],
        inputs: tuple[Path, ...] = (),
    ) -> None:
        """Refuse outputs that cannot be written or would destroy something."""
        read = [local_file(self.source), *inputs]
        check_release(
            out,
            *others,
            endings=endings,
            inputs=read,
            ledger=self.ledger,
            force=self.force,
        )

    def table(self) -> Source:
        """The table to release from."""
        return open_table(self.source, self.engine)

    def fit(
        self,
        model: Any,
        out: Path,
        released: Callable[[], dict[str, Any]],
        *,
        columns: str | None = None,
        points: Path | None = None,
    ) -> dict[str, Any]:
        """Fit an estimator and write what it releases as JSON, the certificate beside it."""
        self.check(out, endings=(".json",), inputs=() if points is None else (points,))
        table = self.table()
        if columns is not None:
            beside = [model.unit, *options.listed(getattr(model, "target", None))]
            table = table.select(
                list(dict.fromkeys([*options.listed(columns), *filter(None, beside)]))
            )
        # Names and numbers of columns and points are public, so their room is known beforehand.
        room = (
            65536
            + 4096 * len(table.schema.names) ** 2
            + 256 * getattr(getattr(model, "query_points", 0), "size", 0)
        )
        with release_files(out, room) as write:
            model.fit(table)
            release = released()
            write((json.dumps(release, indent=2) + "\n").encode(), model.certificate_)
        return release


@dataclass(frozen=True, kw_only=True)
class Asked(AskedOfTable):
    """The same where delta is given too."""

    delta: options.Delta

    @property
    def promise(self) -> dict[str, Any]:
        """What the mechanism is told of them."""
        return {**super().promise, "delta": self.delta}


@dataclass(frozen=True, kw_only=True)
class AskedByUnit(Asked):
    """The same where a unit may have several rows."""

    unit: options.UnitColumn = None
    rows_per_unit: options.RowsPerUnit = None

    def __post_init__(self) -> None:
        if (self.unit is None) != (self.rows_per_unit is None):
            raise ParameterError(
                "--unit and --rows-per-unit must be given together: whose row it is, how many of each"
            )

    @property
    def promise(self) -> dict[str, Any]:
        """What the mechanism is told of them."""
        return {
            **super().promise,
            "unit": self.unit,
            "rows_per_unit": self.rows_per_unit,
        }


def tell_plan(
    release: Callable[[], object], epsilon: float, delta: float | None, *, json: bool
) -> None:
    """Do a release up to its debit, and say what it would be."""
    from gaussveil.mechanisms.release_path import planned

    plan = planned(release)
    if plan is None:  # it told its plan itself
        return
    answer: dict[str, object] = {
        "would_release": plan.released,
        "hidden": str(plan.adjacency),
        "epsilon": epsilon,
        "delta": delta if plan.delta is None else plan.delta,
        "assumptions": list(plan.assumptions),
    }
    promise = f"({digits(epsilon)}, {digits(float(str(answer['delta'])))})-differential privacy; {plan.adjacency}"
    lines = [
        f"would release: {plan.released}",
        f"promise: {promise}",
        *plan.expectations,
        "nothing was spent or written",
    ]
    if plan.expectations:
        answer["expectations"] = list(plan.expectations)
    tell(answer, lines, json=json)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of its parameters that are classes of them; with --dry-run a release is planned."""
    own = inspect.signature(command, eval_str=True).parameters
    kinds: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in own.items()
        if is_dataclass(parameter.annotation)
    }
    grouped = {
        name: [*inspect.signature(kind, eval_str=True).parameters.values()]
        for name, kind in kinds.items()
    }

    @wraps(command)
    def run(**given: Any) -> None:
        options = dict(given)
        made = {
            name: kind(
                **{option.name: given.pop(option.name) for option in grouped[name]}
            )
            for name, kind in kinds.items()
        }
        if "asked" not in made:
            command(**made, **given)
        elif options["dry_run"]:
            tell_plan(
                lambda: command(**made, **given),
                options["epsilon"],
                options["delta"],
                json=options["json"],
            )
        else:
            with found_again(options):
                command(**made, **given)

    vars(run)["__signature__"] = _signature(own, grouped)
    return run


def _signature(
    own: Mapping[str, inspect.Parameter], grouped: Mapping[str, list[inspect.Parameter]]
) -> inspect.Signature:
    """What a command takes: required options of its release first, then its own, then the release's others."""
    listed = []
    for name, parameter in own.items():
        if name != "asked":
            listed += grouped.get(name, [parameter])
    asked = grouped.get("asked", [])
    required = [option for option in asked if option.default is option.empty]
    others = [option for option in asked if option not in required]
    ordered = [*required, *listed, *others]
    ordered.sort(key=lambda option: option.default is not option.empty)
    return inspect.Signature(
        [option.replace(kind=option.KEYWORD_ONLY) for option in ordered]
    )

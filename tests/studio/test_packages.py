"""What is taken away: the script and the command of every kind, run where the package was unpacked."""

from __future__ import annotations

import contextlib
import json
import runpy
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import ValidationError

from gaussveil.accounting import Certificate, Ledger, verify
from gaussveil.cli import main
from gaussveil.errors import GaussveilError
from gaussveil.timeseries import simulate_households
from gaussveil_studio.jobs import Jobs, write_json
from gaussveil_studio.offers import make_offer
from gaussveil_studio.offers.orders import ORDERS
from gaussveil_studio.release_work import release
from gaussveil_studio.settings import Settings
from gaussveil_studio.shown import digest
from gaussveil_studio.verdicts import package

from ..independent_verifier import independent
from .conftest import write_tables
from .page_words import require_words

if TYPE_CHECKING:
    from gaussveil_studio.context import Studio

KEY = "c" * 32
HIDDEN = "zephyr"  # the household, or the label, that no file but the list of labels may name
NAMES = ("winter, Aarau", KEY)  # that people gave, or that are files
MANY = {"target": "y", "columns": "x", "unit": "who", "rows_per_unit": 2}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "table": ("kinds.csv", {"unit": "who", "column": "x", "low": -3, "high": 3, "by": "nothing"}),
    "vector": ("small.csv", {"l2_sensitivity": 0.5, "adjacency": "replace"}),
    "sketch": ("kinds.csv", {"row_norm": 2.0, "components": 8, "columns": "x,y"}),
    "mixture": ("kinds.csv", {"radius": 3.0, "label": "kind", "classes": "a,b", "columns": ""}),
    "synthetic": (
        "series.csv",
        {"label": "kind", "columns": "h0,h1,h2", "series": "h*", "unit": "who", "rows_per_unit": 2},
    ),
    "regression": ("kinds.csv", {**MANY, "low": -3, "high": 3}),
    "logistic": ("kinds.csv", {**MANY, "target": "kind", "columns": "", "classes": "a,b"}),
    "pca": ("kinds.csv", {"n_components": 1}),
    "process": ("kinds.csv", {"target": "y", "column": "x", "first": -1, "points": 3, "smooth_over": 0.7}),
    "spectrum": ("homes.csv", {"column": "kw", "order": "step", "minutes": 60, "points": 12}),
    "label": ("profiles.csv", {"label": "name", "secret": HIDDEN}),
    "forecast": ("homes.csv", {"home": HIDDEN, "reading": "kw", "clusters": 1, "horizon": "2h", "delta": 1e-5}),
    "stream": ("", {"meter": "flat 7", "sample_period": "30min", "purpose": "energy"}),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables that hold more columns than any of the releases reads."""
    folder = tmp_path_factory.mktemp("tables")
    write_tables(folder)
    rows = (folder / "tables" / "kinds.csv").read_text(encoding="utf-8").splitlines()
    named = [f"{rows[0]},who,note", *(f"{row},home {place // 2},text" for place, row in enumerate(rows[1:]))]
    (folder / "tables" / "kinds.csv").write_text("\n".join(named) + "\n", encoding="utf-8")
    hours = [
        f"{named[0]},h0,h1,h2",
        *(f"{row},{place % 5},{place % 7},{place % 3}" for place, row in enumerate(named[1:])),
    ]
    (folder / "tables" / "series.csv").write_text("\n".join(hours) + "\n", encoding="utf-8")
    homes = simulate_households(6, 15, step_minutes=60, seed=1)
    times = [str(time).replace("T", " ") for time in homes.times.astype("datetime64[s]")]
    lines = [
        f"{HIDDEN if place == 2 else home},{time},{kw!r},{place * len(times) + step}"
        for place, (home, row) in enumerate(zip(homes.households, homes.values.tolist()))
        for step, (time, kw) in enumerate(zip(times, row))
    ]
    (folder / "tables" / "homes.csv").write_text("\n".join(["household,time,kw,step", *lines]), encoding="utf-8")
    wide = [",".join(["time", *(f"m{place}" for place in range(9))])]
    wide += [",".join([time, *(repr((step + place) % 7 / 4) for place in range(9))]) for step, time in enumerate(times)]
    (folder / "tables" / "wide.csv").write_text("\n".join(wide) + "\n", encoding="utf-8")
    profiles = f"name,night,day,note\nflat,1,1,x\n{HIDDEN},1,3,x\nlate,3,1,x\n"
    (folder / "tables" / "profiles.csv").write_text(profiles, encoding="utf-8")
    return folder / "tables"


def taken_away(place: Path, table: Path | None, mechanism: str, asked: dict[str, Any]) -> Path:
    """Release once, as the process of a release does, and unpack the package."""
    from gaussveil_studio.answers import environment
    from gaussveil_studio.release_records import handed_facts, made_again, shown_release

    ledger = place / "home.ledger"
    Ledger.create(ledger).open_account("winter, Aarau", epsilon=3.0, delta=1e-4)
    settings = Settings(port=1, ledger=ledger, state=place / "state")
    jobs, address = Jobs(settings), None if table is None else str(table)
    order = ORDERS[mechanism].model_validate({"mechanism": mechanism, **asked}).model_dump()
    request = {"order": order, "table": table and table.name, "account": "winter, Aarau", "key": KEY}
    request["shown"] = digest(request, address, str(ledger))
    folder = place / "state" / "releases" / KEY
    folder.mkdir()
    name = "" if table is None else table.name
    write_json(folder / "request.json", {"request": request, "table_name": name, "ledger": str(ledger), "asked_at": 0})
    write_json(folder / "done.json", release(folder, address))
    context = cast("Studio", SimpleNamespace(jobs=jobs, settings=settings, is_of_tour=lambda _: False))
    package(str(folder), str(place / "package.zip"), **made_again(context, KEY), about=handed_facts(context, KEY))
    shown = shown_release(context, jobs.status(KEY))
    page = environment().get_template("piece_release.html").render(**shown)
    require_words(shown["title"], NAMES, mechanism)
    require_words(page, NAMES, mechanism)
    unpacked = place / "unpacked"
    with zipfile.ZipFile(place / "package.zip") as parcel:
        told = [name for name in parcel.namelist() if HIDDEN.encode() in parcel.read(name)]
        assert {*told} <= {"certificate.json"}  # which lists all labels, or all homes of the cluster
        require_words(parcel.read("report.html").decode(), NAMES, mechanism)
        parcel.extractall(unpacked)
    with pytest.MonkeyPatch.context() as without:
        without.setitem(sys.modules, "pyarrow", None)
        assert independent().main([str(place / "package.zip")]) == 0  # whole, with the verifier's one dependency
    (unpacked / "home.ledger").symlink_to(ledger)
    if table is not None:
        (unpacked / table.name).symlink_to(table)
    return unpacked


@pytest.mark.parametrize("mechanism", KINDS)
def test_a_preview_answers_or_refuses_whatever_stands_in_a_field(mechanism: str, tables: Path, full: bool) -> None:
    name, asked = KINDS[mechanism]
    known = ORDERS[mechanism].model_validate({"mechanism": mechanism, **asked}).model_dump()
    odd: list[Any] = [None, -1, "who", *([0, 1, 1e12, "", "x", "kind", "y"] if full else [])]
    cases = [{**known, field: value} for field in known if field != "mechanism" for value in odd]
    for case in cases:
        with contextlib.suppress(ValidationError, GaussveilError):  # and nothing else
            order = ORDERS[mechanism].model_validate(case).model_dump()
            make_offer(order, str(tables / name) if name else None, name).plan()


WIDE = {"unit": "household", "column": "reading", "low": 0, "high": 3, "by": "hour", "by_column": "time"}


PERIOD = {"unit": "household", "column": "kw", "low": 0, "high": 3, "by": "nothing", "period": "one day"}
FOUND = {"unit": "who", "column": "x", "low": -3, "high": 3, "by": "values found", "by_column": "kind"}
TABLES = {"wide": ("wide.csv", WIDE), "period": ("homes.csv", PERIOD), "found": ("kinds.csv", FOUND)}


@pytest.mark.parametrize("mechanism", [*KINDS, *TABLES])
def test_script_and_command_of_a_package_release_the_same(
    mechanism: str, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert KINDS.keys() == ORDERS.keys()
    name, asked = (KINDS | TABLES)[mechanism]
    monkeypatch.setattr("signal.signal", lambda *_: None)  # this process goes on after the release
    place = taken_away(tmp_path, tables / name if name else None, mechanism if mechanism in KINDS else "table", asked)
    first = Certificate.read(place / "certificate.json")
    monkeypatch.chdir(place)
    monkeypatch.setattr("builtins.input", lambda _: HIDDEN)
    runpy.run_path("again.py", run_name="__main__")
    made = [Certificate.read(place / "certificate.json")]
    command = (place / "again.txt").read_text(encoding="utf-8").strip()
    *before, line = command.split("\n")
    for each in before:
        made_first = each.replace("python ", f"{sys.executable} ", 1) if each.startswith("python ") else each
        subprocess.run(["/bin/sh", "-c", made_first], check=True, timeout=60)
    arguments = shlex.split(line.replace('"$WHOSE"', HIDDEN))
    out = Path(arguments[arguments.index("--out") + 1])
    out.unlink(missing_ok=True)
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert not ended.value.code, capsys.readouterr().err
    held: Any = json.loads(out.read_text(encoding="utf-8")) if mechanism in ("stream", "mixture") else None
    if held is None:
        made.append(Certificate.read(f"{out}.certificate.json"))
    else:
        made.append(Certificate.from_json(json.dumps(held.get("meters", [held])[0]["certificate"])))
    for one in made:
        assert verify(one).private
        assert (one.adjacency, one.account) == (first.adjacency, first.account)
        assert (one.epsilon, one.mechanism) == (first.epsilon, first.mechanism)
        if mechanism != "forecast":  # whose noise is searched anew
            assert one.charge.digest == first.charge.digest
    assert len(Ledger(tmp_path / "home.ledger").entries("winter, Aarau")) == 3

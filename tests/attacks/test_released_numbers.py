"""Numbers edited after their release never verify, and those that took a detour through another format do; both
verifiers say first what they checked.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from gaussveil import PrivateForecaster, PrivateGaussianMixture, PrivateSketch, simulate_households
from gaussveil.accounting import Adjacency, Certificate, CertificateDraft, Charge, Release, transaction, verify
from gaussveil.accounting.certificates.cell_text import cell_text
from gaussveil.accounting.certificates.values import digest_of, rounded
from gaussveil.accounting.certificates.verification import verify_files
from gaussveil.cli.main import app
from gaussveil.errors import ParameterError
from gaussveil.mechanisms import Count, GaussianRelease, Mean, PrivateLinearRegression, TableRelease
from gaussveil.report.released import readings
from gaussveil.spectrum import GaussianPair

from ..independent_verifier import independent

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture(scope="module")
def release() -> Release[Any]:
    """Counts and means by zone and day, as a pandas frame; zones that look like numbers, nothing and words."""
    chance = np.random.default_rng(3)
    rows = pd.DataFrame(
        {
            "home": np.arange(300),
            "zone": chance.choice(["north", "007", "true"], 300),
            "kwh": chance.random(300),
        }
    )
    asked = TableRelease(
        unit="home",
        by={"zone": ["north", "007", "true"]},
        answers=[Count(), Mean("kwh", (0, 1))],
        epsilon=1.0,
        delta=1e-6,
    )
    return asked.release(rows)


def parquet(frame: pd.DataFrame) -> bytes:
    body = io.BytesIO()
    frame.to_parquet(body)
    return body.getvalue()


def sheet(frame: pd.DataFrame) -> bytes:
    """An Excel file with fifteen digits of every number, as Excel itself shows and copies them."""

    def cell(value: Any) -> str:
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        return f"<c><v>{value:.15g}</v></c>"

    lines = [list(frame.columns), *frame.to_numpy().tolist()]
    rows = "".join(f"<row>{''.join(map(cell, line))}</row>" for line in lines)
    main, body = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", io.BytesIO()
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    with zipfile.ZipFile(body, "w") as parcel:
        parcel.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
            f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/></Types>',
        )
        parcel.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
            f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        parcel.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="rId1" '
            f'Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        )
        parcel.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="a" sheetId="1" r:id="rId1"/></sheets>'
            "</workbook>",
        )
        parcel.writestr(
            "xl/worksheets/sheet1.xml", f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>'
        )
    return body.getvalue()


FILES: dict[str, Callable[[pd.DataFrame], bytes]] = {
    "day.csv": lambda frame: frame.to_csv(index=False).encode(),
    "index.csv": lambda frame: frame.to_csv().encode(),
    "digits.csv": lambda frame: frame.to_csv(index=False, float_format="%.15g").encode(),
    "comma.csv": lambda frame: frame.to_csv(index=False, sep=";", decimal=",").encode("utf-8-sig"),
    "day.parquet": parquet,
    "records.json": lambda frame: frame.to_json(orient="records", double_precision=15).encode(),
    "columns.json": lambda frame: frame.to_json(double_precision=15).encode(),
    "day.xlsx": sheet,
}


def verdicts(certificate: Certificate, name: str, body: bytes) -> tuple[str, str]:
    """What both verifiers say of a file of numbers."""
    found = verify_files(certificate, None, {name: readings(name, body)})
    assert found.checked == f"numbers and certificate ({name})"
    other = independent().verify(certificate.to_json().encode(), tables={name: body})
    assert other.checked == found.checked
    return found.outcome, str(other.outcome)


@pytest.mark.parametrize("name", FILES)
def test_formats_change_nothing_and_a_changed_cell_everything(release: Release[Any], name: str) -> None:
    assert verdicts(release.certificate, name, FILES[name](release.value)) == ("verified", "verified")
    for column, cell in (("count", 99.0), ("mean_kwh", release.value["mean_kwh"][1] * (1 + 1e-9)), ("zone", "south")):
        forged = release.value.copy()
        forged.loc[1, column] = cell
        said = verdicts(release.certificate, name, FILES[name](forged))
        assert said == ("refuted", "refuted"), column
    for forged in (
        release.value.rename(columns={"count": "mean_kwh", "mean_kwh": "count"}),
        release.value[::-1].reset_index(drop=True),
        release.value.assign(more=1.0),
        release.value[:2],
    ):
        assert verdicts(release.certificate, name, FILES[name](forged))[0] == "refuted"


def test_the_table_is_taken_from_any_library(release: Release[Any]) -> None:
    frame = release.value
    tables: list[Any] = [
        frame,
        pl.from_pandas(frame),
        pa.Table.from_pandas(frame),
        frame.to_dict("list"),
        frame.to_dict("records"),
        pd.read_csv(io.StringIO(frame.to_csv(index=False))),
        pd.read_parquet(io.BytesIO(parquet(frame))),
        frame[list(reversed(frame.columns))],
    ]
    for table in tables:
        assert verify(release.certificate, table=table).checked == "numbers and certificate (table)"
        assert verify(release.certificate, table=table)
        signed = release.certificate.signed(KEY)
        assert verify(signed, KEY.public_key(), table=table)
        assert not verify(signed, KEY.public_key(), table=frame.assign(count=frame["count"] + 1e-6))


@pytest.mark.parametrize("shape", [(), (5,), (4, 3), (2, 3, 2)])
def test_arrays_carry_their_digest(shape: tuple[int, ...]) -> None:
    mechanism = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0)
    made = mechanism.release(np.ones(shape) * 1e3)
    assert verify(made.certificate, table=made.value)
    assert verify(made.certificate, table=np.asarray(made.value).tolist())
    assert verify(made.certificate, table=np.ones(shape)).outcome == "refuted"
    body = io.BytesIO()
    np.save(body, made.value)
    assert verdicts(made.certificate, "day.npy", body.getvalue()) == ("verified", "verified")


def test_without_numbers_or_digest_the_verdict_says_the_certificate_alone(release: Release[Any]) -> None:
    alone = "certificate alone; no numbers were compared"
    assert verify(release.certificate).checked == alone
    assert independent().verify(release.certificate.to_json().encode()).checked == alone
    record = json.loads(release.certificate.to_json())
    del record["values"], record["ledger"]
    older = Certificate.from_dict(record | {"version": 1})
    assert verify(older).ok
    found = verify(older, table=release.value)
    assert found.checked == "certificate alone; it carries no digest of its numbers"
    assert found.outcome == "not decided"
    other = independent().verify(older.to_json().encode(), tables={"day.csv": FILES["day.csv"](release.value)})
    assert (other.checked, other.outcome) == (found.checked, "not decided")


def test_the_command_finds_certificate_and_table(
    release: Release[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: object) -> tuple[str, int]:
        done = CliRunner().invoke(app, ["verify", *map(str, words)])
        code = independent().main([str(word) for word in words])
        first = capsys.readouterr().out.splitlines()[0]
        assert (done.stdout.splitlines()[0], done.exit_code) == (first, code)
        return first, code

    table, note = tmp_path / "day.csv", tmp_path / "day.csv.certificate.json"
    table.write_bytes(FILES["day.csv"](release.value))
    note.write_text(release.certificate.to_json())
    both = ("checked: numbers and certificate (day.csv)", 0)
    assert said(table) == said(note) == said(table, "--certificate", note) == both
    table.write_bytes(FILES["day.csv"](release.value.assign(count=99.0)))
    assert said(table) == said(note) == (both[0], 1)
    table.unlink()
    assert said(note) == ("checked: certificate alone; no numbers were compared", 0)


def test_a_package_is_checked_whole(release: Release[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, forged = FILES["day.csv"](release.value), FILES["day.csv"](release.value.assign(count=99.0))
    for files, code in (((good, good), 0), ((forged, good), 1), ((good, forged), 1)):
        package = tmp_path / "package.zip"
        with zipfile.ZipFile(package, "w") as parcel:
            parcel.writestr("day.csv", files[0])
            parcel.writestr("certificate.json", release.certificate.to_json())
            parcel.writestr("report.html", "<p>99</p>")
            parcel.writestr("other/day.csv", files[1])
        first = "checked: numbers and certificate (day.csv, other/day.csv); not checked: report.html"
        done = CliRunner().invoke(app, ["verify", str(package)])
        assert (done.stdout.splitlines()[0], done.exit_code) == (first, code)
        assert independent().main([str(package)]) == code
        assert capsys.readouterr().out.splitlines()[0] == first


CELLS = [
    *[0.0, -0.0, 1, 1.0, True, False, None, float("nan"), float("inf"), -float("inf"), 5e-324, 1.7976931348623157e308],
    *["", " NA ", "null", "1e5", "100000", "007", "+7.0", ".5", "5.", "1e999", "TRUE", "wahr", "e\u0301", "\u00e9"],
    *["2026-11-18", "2026-11-18 00:00:00", "2026-11-18T07:30", "2026-11-18T07:30:00.500Z", "2026-11-18 09:30+02:00"],
    *[571313100000000001, "571313100000000002", 2**44 + 1, 2**44, -(2**60) - 1, "1" * 400, 10**400, 10**22, 10**300],
    *[144115188075855870, 144115188075855872, 98765432101230, "98765432101230", 98765432101230.0],
    *["2026-13-45", "12:30", "1_000", "0x10", "\u0661", "1\u00a0000", "nan kWh", "2026-01-01T00:00:00+00:00"],
    *np.random.default_rng(2).normal(size=40).tolist(),
    *(10.0 ** np.random.default_rng(2).uniform(-300, 300, size=40)).tolist(),
]


def test_both_write_every_cell_alike() -> None:
    for cell in CELLS:
        assert cell_text(cell) == independent().cell_text(cell), repr(cell)
    assert (
        len({cell_text(cell) for cell in ("2026-11-18T07:30", "2026-11-18 07:30:00", "2026-11-18T07:30:00.000")}) == 1
    )
    assert cell_text(pd.Timestamp("2026-11-18 09:30", tz="Europe/Zurich")) == cell_text("2026-11-18T08:30Z")
    assert cell_text(np.datetime64("2026-11-18T00:00")) == cell_text("2026-11-18")


def test_released_numbers_survive_fifteen_digits_and_a_wrong_last_bit() -> None:
    drawn = np.random.default_rng(1).normal(size=2000) * 10.0 ** np.arange(-20, 20).repeat(50)
    numbers = rounded(drawn)
    digest = digest_of(numbers)
    assert digest is not None
    for detour in (
        [float(f"{number:.15g}") for number in numbers],
        np.nextafter(numbers, np.inf),
        np.nextafter(numbers, -np.inf),
    ):
        assert digest_of(detour) == digest
    assert np.all(np.abs(numbers / drawn - 1) < 2.0**-44)
    assert rounded([1.1, 0.3, 123456789.25]) == [1.1, 0.3, 123456789.25]


IDENTIFIERS = ["571313100000000001", "571313100000000002"]  # as long as those of metering points are


@pytest.mark.parametrize("name", [name for name in FILES if name != "day.xlsx"])
@pytest.mark.parametrize("kind", [str, int])
def test_meters_whose_long_numbers_are_swapped_do_not_verify(name: str, kind: type) -> None:
    """A double tells the two apart as little as a spreadsheet does: their digits must."""
    frame = pd.DataFrame({"meter": [kind(one) for one in IDENTIFIERS], "kwh": [1.5, 99.25]})
    draft = CertificateDraft(
        released="kwh", mechanism="m", adjacency=Adjacency.add_remove("meter"), epsilon=1.0, delta=1e-3
    )
    with transaction(None, Charge(GaussianPair.mean_shift(0.3)), draft) as debit:
        debit.draw(lambda: 0)
    certificate = debit.certificate.about(frame)
    assert verdicts(certificate, name, FILES[name](frame)) == ("verified", "verified")
    swapped = frame.assign(meter=frame["meter"][::-1].to_numpy())
    assert verdicts(certificate, name, FILES[name](swapped)) == ("refuted", "refuted")


def test_what_is_made_of_an_estimator_gets_its_digest() -> None:
    rows = pd.DataFrame({"x": np.linspace(-1, 1, 400), "y": np.linspace(-2, 2, 400)})
    model = PrivateLinearRegression(epsilon=3.0, delta=1e-6, bounds=(-1, 1), target_bounds=(-2, 2))
    model.fit(rows[["x"]], rows["y"])
    assert verify(model.certificate_, table=[1.0]).checked == "certificate alone; it carries no digest of its numbers"
    published = {"name": ["x", "level"], "value": [float(model.coef_[0]), float(model.intercept_)]}
    note = model.certificate_.about(published).signed(KEY)
    assert verify(note, KEY.public_key(), table=published)
    assert verify(note, table={**published, "value": [1.0, 2.0]}).outcome == "refuted"
    with pytest.raises(ParameterError, match="numbers must be an array"):
        note.about(object())


def edited(model: str) -> str:
    """A mixture's file with another mean, as somebody would change it by hand."""
    content = json.loads(model)
    content["means"][0][0] += 1e-6
    return json.dumps(content)


def test_an_edited_mixture_does_not_verify(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    records = pd.DataFrame({"a": chance.normal(size=400), "b": chance.normal(size=400), "kind": ["x", "y"] * 200})
    mixture = PrivateGaussianMixture(epsilon=1.0, delta=1e-6, radius=3.0, classes=["x", "y"])
    model = mixture.fit(records, "kind").model_
    assert model.certificate is not None
    assert model.certificate.values == mixture.certificate_.values == digest_of(model)
    file = model.write(tmp_path / "model.json")
    for body, code, outcome in ((file.read_text(), 0, "verified"), (edited(file.read_text()), 1, "refuted")):
        file.write_text(body)
        answer = CliRunner().invoke(app, ["verify", str(file), "--json"])
        assert (answer.exit_code, json.loads(answer.stdout)["outcome"]) == (code, outcome)
        assert json.loads(answer.stdout)["checked"] == "numbers and certificate (model.json)"
        other = independent().verify(independent().subject(file, None)[0], tables=independent().subject(file, None)[1])
        assert other.outcome == outcome


def test_an_edited_sketch_does_not_verify(tmp_path: Path) -> None:
    rows = np.random.default_rng(6).normal(size=(200, 3))
    sketch = PrivateSketch(epsilon=1.0, delta=1e-6, row_norm=3.0, n_components=8).release(rows)
    file, note = tmp_path / "sketch.npz", tmp_path / "sketch.npz.certificate.json"
    sketch.certificate.write(note)
    forged = dataclasses.replace(sketch.value, matrix=sketch.value.matrix * (1 + 1e-9))
    for value, outcome in ((sketch.value, "verified"), (forged, "refuted")):
        file.write_bytes(value.to_bytes())
        assert verdicts(sketch.certificate, file.name, file.read_bytes()) == (outcome, outcome)
        answer = CliRunner().invoke(app, ["verify", str(file), "--json"])
        assert json.loads(answer.stdout)["outcome"] == outcome


def test_a_forecast_carries_the_digest_of_its_table() -> None:
    readings = simulate_households(6, 15, step_minutes=60, seed=1)
    forecaster = PrivateForecaster(horizon="2h", epsilon=1.0, delta=1e-5, clusters=1).fit(readings)
    for release in (forecaster.release("home00003"), forecaster.release_cluster_of("home00003")):
        body = release.value.frame().to_pandas().to_csv(index=False).encode()
        assert verdicts(release.certificate, "day.csv", body) == ("verified", "verified")
        assert verdicts(release.certificate, "day.csv", body.replace(b"0.", b"1.", 1))[0] == "refuted"

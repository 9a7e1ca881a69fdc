"""What a stranger tried on the studio: guessing for days, errors with values in them, odd names, a stop in between."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import traceback
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import requests

from gaussveil.accounting import Ledger
from gaussveil.errors import FormatError, ParameterError, SourceError
from gaussveil.report.number_files import read_numbers
from gaussveil.statistics import as_source
from gaussveil_studio.access import LONGEST_WAIT, Access
from gaussveil_studio.jobs import MOST_AT_ONCE, Jobs
from gaussveil_studio.offers.tables import by_rows, describe_table
from gaussveil_studio.settings import Settings, held_alone
from gaussveil_studio.table_catalogue import TableCatalogue

from .conftest import Client

if TYPE_CHECKING:
    from .conftest import Running

pytestmark = pytest.mark.xdist_group("studio")


def settings_in(folder: Path, **more: Any) -> Settings:
    return Settings(port=1, ledger=folder / "home.ledger", state=folder / "state", **more)


def test_no_reading_of_a_home_keeps_a_wide_table_from_becoming_rows() -> None:
    """A whole number that no double holds stopped the release, and its error quoted it."""
    homes = {f"home{k}": pa.array([1, 2**53 + 1], pa.int64()) for k in range(3)}
    table = pa.table({"time": pa.array([0, 1], pa.timestamp("s")), **homes})
    assert by_rows(as_source(table)).table()["reading"].to_pylist() == [1.0, 2.0**53] * 3


def test_guessing_is_slowed_however_long_it_lasts(tmp_path: Path) -> None:
    access = Access(settings_in(tmp_path, password="correct horse battery"))
    for _ in range(1100):  # two to this power is no float
        access.note(False)
    assert LONGEST_WAIT - 5 < access.wait() <= LONGEST_WAIT


def test_nobody_is_locked_out_where_there_is_no_password(studio: Running) -> None:
    for _ in range(8):
        tried = requests.post(studio.address + "/login", data={"password": "guess"}, timeout=60, allow_redirects=False)
        assert tried.status_code == 303
        assert "set-cookie" not in tried.headers
    assert studio.client.get("/api/tables").status_code == 200


def test_an_unexpected_error_keeps_its_words_from_the_server_and_its_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from gaussveil_studio.guard import Guard, UnexpectedError

    async def broken(_scope: Any, _receive: Any, _send: Any) -> None:
        raise ValueError("cell 77777.125 of the table")

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    settings = settings_in(tmp_path)
    access = Access(settings)
    headers = [(b"host", b"127.0.0.1:1"), (b"authorization", f"Bearer {settings.token}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/explore", "query_string": b"", "headers": headers}
    # In a thread of its own: the browser's fixture keeps a loop running in this one.
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(1) as apart, pytest.raises(UnexpectedError) as raised:
        apart.submit(asyncio.run, Guard(broken, settings, access)(scope, receive, send)).result(timeout=60)
    printed = "".join(traceback.format_exception(raised.value)[-1:])  # the server prints what is raised here
    assert sent[0]["status"] == 500
    assert "77777" not in repr(sent) + caplog.text + printed
    assert raised.value.__suppress_context__


def test_names_that_mean_other_files_are_no_tables(tmp_path: Path) -> None:
    for folder in ("data", "data1", "data[1]"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "small.csv").write_text("a\n1\n", encoding="utf-8")
    (tmp_path / "data" / "*.csv").write_text("a\n1\n", encoding="utf-8")
    (tmp_path / "data" / "small.parquet#t.csv").write_text("a\n1\n", encoding="utf-8")
    shelf = TableCatalogue(settings_in(tmp_path, tables=(str(tmp_path / "data"),)))
    assert [table.name for table in shelf.tables()] == ["small.csv"]
    for name in ("*.csv", "small.parquet#t.csv"):
        with pytest.raises(ParameterError):
            shelf.find(f"folder-0/{name}")
    with pytest.raises(SourceError, match="rename"):  # an engine would read data1 for it
        TableCatalogue(settings_in(tmp_path, tables=(str(tmp_path / "data[1]"),)))


def test_a_database_is_not_called_by_its_user_and_password(tmp_path: Path) -> None:
    addresses = ("postgresql://me:secret@host#readings", "postgresql://me:secret@host/town#readings")
    names = [table.name for table in TableCatalogue(settings_in(tmp_path, tables=addresses)).tables()]
    assert names == ["postgresql#readings", "town#readings"]


def test_uploads_go_at_the_end_unless_a_release_is_reading_them(tmp_path: Path) -> None:
    shelf = TableCatalogue(settings_in(tmp_path))
    read, other = (Path(shelf.add("up.csv", BytesIO(body)).address) for body in (b"a\n1\n", b"a\n2\n"))
    (shelf.store / "left by a killed server").mkdir()
    shelf.clear({str(read)})
    assert list(shelf.store.iterdir()) == [read]
    assert not other.exists()
    TableCatalogue(settings_in(tmp_path))
    assert list(shelf.store.iterdir()) == []


def test_two_studios_never_share_a_folder(tmp_path: Path) -> None:
    with held_alone(tmp_path), pytest.raises(SourceError, match="another studio"), held_alone(tmp_path):
        pass
    with held_alone(tmp_path):
        pass


@pytest.mark.full
def test_releases_beyond_what_the_machine_bears_are_refused_and_cost_nothing(
    tmp_path: Path, started_studio: Any
) -> None:
    (tmp_path / "tables").mkdir()
    Ledger.create(tmp_path / "home.ledger")
    with started_studio(tmp_path) as studio:
        table = studio.client.post("/api/tables", files={"file": ("up.csv", b"a,b\n1,2\n3,4\n")}).json()["id"]
        orders = [studio.order(studio.account(), "vector", table) for _ in range(MOST_AT_ONCE + 1)]
        stopped = []
        try:
            for order in orders[:-1]:
                assert studio.client.post("/api/releases", json=order).status_code < 300
                progress = tmp_path / "home.ledger.studio" / "releases" / order["key"] / "progress.json"
                stopped.append(int(json.loads(progress.read_text(encoding="utf-8"))["pid"]))
                os.kill(stopped[-1], signal.SIGSTOP)
            refused = studio.client.post("/api/releases", json=orders[-1])
            assert refused.status_code == 503
            assert "under way" in refused.json()["error"]["message"]
        finally:
            for worker in stopped:
                os.kill(worker, signal.SIGCONT)
        assert {studio.finished(order["key"])["state"] for order in orders[:-1]} == {"released"}
        for order in orders[:-1]:
            assert studio.entries(order["account"]) == [(order["key"], "released")]
        assert studio.client.post("/api/releases", json=orders[-1]).status_code < 300
        assert studio.finished(orders[-1]["key"])["state"] == "released"


def test_an_address_that_may_hold_a_password_is_written_nowhere(studio: Running) -> None:
    asked = {"unit": "home", "column": "kw", "low": 0, "high": 1, "by": "nothing"}
    order = studio.order(studio.account(), "table", "address-3", **asked)
    studio.client.post("/api/releases", json=order)
    assert studio.finished(order["key"])["state"] == "released"
    compared = studio.client.post("/api/diagnostics/release", json={"key": order["key"]})
    assert compared.status_code == 200  # found again by its id
    state = studio.folder / "home.ledger.studio"
    files = [path for path in state.rglob("*") if path.is_file()]
    assert state / "releases" / order["key"] / "request.json" in files
    assert not any(b"file://" in path.read_bytes() for path in files)


@pytest.mark.parametrize("first", ["1.5,77777.125", "77777125,2", "-77777125,2,b", "7e7,b"])
def test_a_record_is_never_taken_for_names_of_columns(tmp_path: Path, first: str) -> None:
    table = tmp_path / "table.csv"
    table.write_text(f"{first}\n" + f"{first}\n" * 3, encoding="utf-8")
    with pytest.raises(SourceError) as refused:
        describe_table(str(table))
    assert "7" not in str(refused.value)


def test_meters_may_be_called_by_numbers(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("time,1001,1002\n2024-01-01 00:00:00,1,2\n", encoding="utf-8")
    assert [column["name"] for column in describe_table(str(table))["columns"]] == ["time", "1001", "1002"]


def test_every_route_asks_for_the_token_our_name_and_our_pages(studio: Running) -> None:
    described = studio.client.get("/api/openapi.json").json()["paths"]
    routes = [(method.upper(), path) for path, methods in described.items() for method in methods]
    pages = ("/", "/explore", "/release", "/accounts", "/verify", "/diagnostics", "/api", "/api/openapi.json")
    assert len(routes) >= 18
    session, home = requests.Session(), {"Host": studio.pages.removeprefix("http://")}
    session.get(f"{studio.address}/?token={studio.token}", headers=home, allow_redirects=False, timeout=60)
    for method, path in [*routes, *(("GET", page) for page in pages)]:
        address = studio.address + path.replace("{key}", "0" * 32).replace("{name}", "a.csv")
        bare = requests.request(method, address, timeout=60, allow_redirects=False)
        assert (path, bare.status_code) == (path, 401)
        rebound = session.request(method, address, headers={"Host": "evil.example"}, timeout=60, allow_redirects=False)
        assert (path, rebound.status_code) == (path, 400)
        if method != "GET":
            forged = session.request(method, address, headers={**home, "Origin": studio.address}, timeout=60)
            assert (path, forged.status_code) == (path, 403)


def npy(shape: str, kind: str = "'<f8'") -> bytes:
    """Ten numbers under a header that says something else."""
    head = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(80)


@pytest.mark.parametrize("shape", ["(10,", "(10**9,)", "(1000000000000,)", "(True,)", "(3,)", f"(0, {10**22})"])
def test_a_file_of_numbers_with_a_false_shape_is_refused(tmp_path: Path, shape: str) -> None:
    (tmp_path / "v.npy").write_bytes(npy(shape))
    with pytest.raises(FormatError):
        read_numbers(tmp_path / "v.npy")
    (tmp_path / "v.npy").write_bytes(npy("(5, 2)"))
    assert read_numbers(tmp_path / "v.npy").values.shape == (5, 2)


def test_what_ended_in_a_mistake_of_ours_is_refused(studio: Running) -> None:
    for name in ("folder-0000000005/v.csv", "folder-00/small.csv", "folder-/small.csv", "folder-9/small.csv"):
        assert studio.client.get("/api/columns", params={"table": name}).status_code == 422
    sent = {"file": ("v.npy", npy("(1000000000000,)"))}
    assert studio.client.post("/api/tables", files=sent).status_code == 422
    for kilowatts in (1e-300, 5e-324, 1e-100):
        for purpose in ("shape", "energy", "billing"):
            order = {"mechanism": "stream", "event_kw": kilowatts, "purpose": purpose}
            found = studio.client.post("/api/preview", json={"order": order})
            assert found.status_code == 422, found.text


def test_the_description_of_the_api_is_valid(studio: Running) -> None:
    import jsonschema_rs  # which schemathesis brings, like its definitions
    from schemathesis.specs.openapi.definitions import OPENAPI_31

    document = studio.client.get("/api/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert not list(jsonschema_rs.validator_for(OPENAPI_31).iter_errors(document))
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert all(
                answer.get("content") for code, answer in operation["responses"].items() if code.startswith("2")
            ), path


def test_queued_work_delays_no_page(studio: Running) -> None:
    """Enclosures that take long wait for each other; pages, sliders and the ledger do not wait for them."""
    slow = {"variance_ratio": [1.3, 0.7, 1.1] * 20, "mean_shift": [0.3] * 60, "times": 7, "epsilon": 3.0}
    ended: list[str] = []
    studio.client.get("/accounts")  # whatever loads on first use is loaded

    def ask(name: str, *arguments: Any, **more: Any) -> None:
        session = Client(studio.address, studio.token)
        (session.post if more else session.get)(*arguments, **more)
        ended.append(name)

    with ThreadPoolExecutor(24) as pool:
        first = [pool.submit(ask, "work", "/api/enclosure", json=slow) for _ in range(12)]
        pages = [pool.submit(ask, "page", place) for place in ("/accounts", "/api/tables", "/api/tables", "/explore")]
        slider = {"variance_ratio": [1.2], "mean_shift": [0.5]}
        pages += [pool.submit(ask, "page", "/api/curve", json=slider) for _ in range(4)]
        for each in (*first, *pages):
            each.result()
    assert ended.index("work", len(ended) - ended[::-1].index("page")) >= 8


def test_files_of_old_releases_go_and_their_keys_stay_used(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "releases" / ("a" * 32)
    folder.mkdir(parents=True)
    done = {"state": "released", "message": "", "file": "vector.csv"}
    for name, body in (("done.json", json.dumps(done)), ("request.json", "{}"), ("certificate.json", "{}")):
        (folder / name).write_text(body)
    (folder / "vector.csv").write_text("1\n")
    jobs = Jobs(settings_in(tmp_path, keep_days=1))
    assert jobs.file(folder.name, "vector.csv").exists()
    os.utime(folder / "done.json", (0, 0))
    assert Jobs(settings_in(tmp_path)).file(folder.name, "vector.csv").exists()
    jobs = Jobs(settings_in(tmp_path, keep_days=1))
    assert jobs.exists(folder.name)
    assert jobs.status(folder.name).state == "released"
    for name in ("vector.csv", "certificate.json"):
        with pytest.raises(SourceError, match="keep-days"):
            jobs.file(folder.name, name)

"""Tables of a real PostgreSQL server, through DuckDB's own attach; no message and no record repeats the password."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from typer.testing import CliRunner

from gaussveil.accounting import Account, Adjacency, Ledger
from gaussveil.cli.main import app
from gaussveil.engines import open
from gaussveil.engines.duckdb_tables import WHEELS, extension_loaded
from gaussveil.errors import MissingDependencyError, ParameterError, SourceError
from gaussveil.mechanisms import Count, Mean, PrivateSketch, Quantile, TableRelease
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import Labels, Moments, Source, as_source

from ..certificate_files import Authority
from . import awkward_table, neighbouring_tables
from .awkward_table import as_text, awkward, outcome
from .neighbouring_tables import told

pytestmark = pytest.mark.xdist_group("postgres")

PASSWORD = "not-for-anybody"
KINDS = 'home text, hour integer, kw double precision, volt real, "class" bigint'


@dataclass
class Server:
    """A PostgreSQL of its own: data, port and password end with the tests. It refuses to run as root."""

    folder: Path
    port: int
    programs: Path
    owner: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"postgresql://meter:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        words = self.folder / "password"
        words.write_text(PASSWORD)
        if self.owner:
            shutil.chown(words, "postgres")
        how = ("-U", "meter", "--pwfile", str(words), "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync")
        self._call(subprocess.run, "initdb", "-D", str(self.folder / "data"), *how, check=True)

    def start(self) -> None:
        where = ("-p", str(self.port), "-h", "127.0.0.1", "-k", "", "-F")
        self.process = self._call(subprocess.Popen, "postgres", "-D", str(self.folder / "data"), *where)
        for _ in range(1200):
            asked = ("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port))
            if self._call(subprocess.run, *asked).returncode == 0:
                return
            time.sleep(0.1)
        raise RuntimeError("PostgreSQL does not answer")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()  # it waits for nobody's connection to end by itself
            self.process.send_signal(2)
            self.process.wait(30)
            self.process = None

    def run(self, *statements: str) -> None:
        words = [word for statement in statements for word in ("-c", statement)]
        self._call(subprocess.run, "psql", "-q", "-v", "ON_ERROR_STOP=1", self.address, *words, check=True)

    def _call(self, how: Any, program: str, *words: str, **options: Any) -> Any:
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.folder}
        return how([str(self.programs / program), *words], **silent, **self.owner, **options)


@pytest.fixture(scope="module")
def server(table: pa.Table) -> Iterator[Server]:
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
    found = shutil.which("initdb")
    assert programs or found, (
        "PostgreSQL is missing: apt-get install postgresql (`make components` lists what is needed)"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    folder = Path(tempfile.mkdtemp(prefix="gaussveil-postgres-"))
    owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
        owner = {"user": "postgres", "group": "postgres", "extra_groups": []}
    made = Server(folder, port, programs or Path(str(found)).parent, owner)
    try:
        made.create()
        made.start()
        rows = folder / "rows.csv"
        csv.write_csv(table, rows, csv.WriteOptions(include_header=False))
        made.run(f'CREATE TABLE "the readings" ({KINDS})', f"\\copy \"the readings\" FROM '{rows}' WITH (FORMAT csv)")
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)


def sums(source: Source) -> list[Any]:
    classes = Labels("class", [0, 1, 2])
    moments = source.bounded("home", 6).aggregate(Moments(clip=300.0), columns=["kw", "volt"], group=classes)
    return [moments.count.limbs.tolist(), moments.total.limbs.tolist()]


def test_a_table_gives_the_same_sums_to_the_bit(server: Server, table: pa.Table) -> None:
    source = open(f"{server.address}#the readings")
    assert source.schema.types == [pa.string(), pa.int32(), pa.float64(), pa.float32(), pa.int64()]
    assert sums(source) == sums(as_source(table))  # text, NULL, NaN and infinity included
    assert source.table(["hour"], order=["hour"])["hour"].to_pylist() == sorted(table["hour"].to_pylist())
    server.run("CREATE SCHEMA town", 'CREATE VIEW town.readings AS SELECT * FROM "the readings"')
    assert sums(open(f"{server.address}#town.readings")) == sums(as_source(table))


def test_answers_from_a_table_are_the_same_to_the_bit(server: Server, table: pa.Table) -> None:
    def ask(source: Source) -> pa.Table:
        answers = [Count(), Mean("kw", between=(0, 20)), Quantile("kw", 0.5, between=(0, 20))]
        asked = TableRelease(unit="home", epsilon=4.0, delta=1e-4, by={"hour": range(24)}, answers=answers)
        asked.generator = SeededGenerator(2)
        return asked.release(source).value

    assert ask(open(f"{server.address}#the readings")).equals(ask(as_source(table)))


def test_other_types_and_what_is_missing(server: Server) -> None:
    server.run(
        "CREATE TYPE kind AS ENUM ('flat', 'house')",
        "CREATE TABLE meters (id uuid, bill numeric(10, 2), wild numeric, big boolean, at timestamp, "
        "zoned timestamptz, day date, small smallint, kind kind)",
        "INSERT INTO meters VALUES ('00000000-0000-0000-0000-000000000007', 12.25, 0.5, true, '2024-01-01 00:15', "
        "'2024-01-01 01:15+01', '2024-01-01', 3, 'house'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    source = open(f"{server.address}#meters")
    numbers = ["bill", "wild", "big", "small"]
    assert source.aggregate(Moments(clip=64.0), columns=numbers).total.to_float().tolist() == [[12.25, 0.5, 1.0, 3.0]]
    house = source.aggregate(Moments(clip=64.0), columns=["bill"], group=Labels("kind", ["flat", "house"]))
    assert house.count.integers().tolist() == [0, 1]
    first, second = source.table(order=["id"]).to_pylist()
    assert (str(first["at"]), str(first["zoned"]), str(first["day"])) == (
        "2024-01-01 00:15:00",
        "2024-01-01 00:15:00+00:00",
        "2024-01-01",
    )
    assert set(second.values()) == {None}
    assert source.bounded("id", 1).row_count() == 1  # a row without a unit is left out


def test_what_is_no_number_is_missing_and_text_is_compared_by_its_bytes(server: Server) -> None:
    server.run(
        "CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
        "CREATE TABLE odd (home text COLLATE alike, bill numeric(10, 2), wild numeric)",
        "INSERT INTO odd VALUES ('a', 'NaN', 'NaN'), ('A', 1.25, '1e400')",
        "INSERT INTO odd VALUES ('\u00e1', 2.5, '-1e-400'), ('a', 4, 'Infinity')",
    )
    source = open(f"{server.address}#odd")
    assert source.table(order=["home"]).to_pydict() == {
        "home": ["A", "a", "a", "\u00e1"],
        "bill": [1.25, 4.0, None, 2.5],
        "wild": [None, None, None, 0.0],
    }
    assert source.bounded("home", 1).row_count() == 3


def test_awkward_content_has_the_same_exact_sums_as_everywhere(server: Server, tmp_path: Path) -> None:
    """Names have no notion of case (citext) in one table, and a collation that knows no accents in another."""
    table = awkward()
    columns = awkward_table.KINDS.items()
    kinds = ", ".join(f'"{name}" {kind}' for name, kind in columns if name != "home").replace("DOUBLE", "float8")
    rows = server.folder / "awkward.csv"
    lines = [",".join(map(as_text, row.values())) for row in table.to_pylist()]
    rows.write_text("\n".join([*lines, ""]), encoding="utf-8")
    server.run(
        "CREATE EXTENSION citext",
        "CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
    )
    expected = outcome(as_source(table))
    for name, kind in (("one", "citext"), ("other", "text COLLATE blind")):
        server.run(f"CREATE TABLE {name} (home {kind}, {kinds})", f"\\copy {name} FROM '{rows}' WITH (FORMAT csv)")
        assert outcome(open(f"{server.address}#{name}")) == expected, kind


def test_a_unit_of_extremes_decides_no_refusal(server: Server) -> None:
    """The server's own: times without end and before Christ, numbers that are none."""
    kinds = ("text", "bigint", "text", "boolean", "timestamp", "timestamptz", "date", "float8", "bigint")
    columns = [f'"{name}" {kind}' for name, kind in zip(neighbouring_tables.SCHEMA.names, (*kinds, "numeric(12, 3)"))]
    rows = server.folder / "honest.csv"
    csv.write_csv(neighbouring_tables.honest(), rows, csv.WriteOptions(include_header=False))
    extremes = {
        "home": ["repeat('V', 1000000)", "''", "NULL"],
        "meter": ["9223372036854775807", "-9223372036854775808", "NULL"],
        "zone": ["repeat('x', 1000000)", "E'\\u202e'", "'V''\"'"],
        "time": ["'infinity'", "'-infinity'", "'294276-12-31'", "'4713-01-01 BC'"],
        "read": ["'infinity'", "'-infinity'", "'294276-12-31'", "'4713-01-01 BC'"],
        "day": ["'infinity'", "'-infinity'", "'5874897-12-31'", "'4713-01-01 BC'"],
        "kw": ["'NaN'", "'Infinity'", "-1e308", "5e-324"],
        "n": ["9223372036854775807", "-9223372036854775808"],
        "price": ["'NaN'", "999999999.999", "-999999999.999"],
    }
    own = {"home": "'V'", "meter": "999"}
    inserts = []
    for name, cells in extremes.items():
        for cell in cells:
            row = own | {name: cell}
            named = ", ".join(f'"{column}"' for column in row)
            inserts.append(f"INSERT INTO v ({named}) VALUES ({', '.join(row.values())})")
    for name in "tv":
        server.run(f"CREATE TABLE {name} ({', '.join(columns)})", f"\\copy {name} FROM '{rows}' WITH (FORMAT csv)")
    server.run(*inserts)
    expected = told(lambda: open(f"{server.address}#t"))
    assert sum(words != "answered" for words in expected.values()) == neighbouring_tables.REFUSED
    assert told(lambda: open(f"{server.address}#v")) == expected


def test_a_table_that_changes_is_refused(server: Server) -> None:
    server.run(
        "CREATE TABLE changing AS SELECT n % 50 AS home, n AS hour, 0.5 AS kw FROM generate_series(1, 5000) AS n"
    )
    for statement in (
        "UPDATE changing SET kw = 0.75 WHERE hour = 17",
        "INSERT INTO changing SELECT * FROM changing WHERE hour = 19",
    ):
        source = open(f"{server.address}#changing")
        before = source.row_count()
        assert source.row_count() == before
        server.run(statement)
        with pytest.raises(SourceError, match="changed between two passes"):
            source.row_count()
        # also if it is the first pass during which it changes
        windows = open(f"{server.address}#changing").windows(by="home", order="hour", length=2)
        next(windows)
        server.run("UPDATE changing SET kw = kw + 1 WHERE hour = 20")
        with pytest.raises(SourceError, match="changed between two passes"):
            list(windows)
    server.run("DROP TABLE changing")
    with pytest.raises(SourceError, match="could not be read"):
        source.row_count()


def test_what_is_wrong_is_said_without_the_password(server: Server) -> None:
    address = server.address
    probe = duckdb.connect()
    assert extension_loaded(probe, "postgres")
    with pytest.raises(duckdb.Error, match=PASSWORD):  # what would be repeated otherwise
        probe.execute(f"ATTACH '{address}no' AS base (TYPE postgres)")
    for wrong, words in (
        (f"{address.replace(':not', ':now')}#meters", "user and password"),
        (f"{address}no#the readings", "name of the database"),
        (f"postgresql://meter:{PASSWORD}@127.0.0.1:1/postgres#meters", "host, port"),
        (f"{address}#no such table", "no table 'no such table'"),
        (f"{address}#no.table", r"no table 'no\.table'"),
        (address, "#table"),
    ):
        with pytest.raises((SourceError, ParameterError), match=words) as caught:
            open(wrong)
        shown = "".join(traceback.format_exception(caught.value))
        assert PASSWORD not in shown + repr(caught.value)
        assert "not-for" not in shown
        assert "now-for" not in shown
    assert PASSWORD not in repr(open(f"{address}#the readings").__dict__)


def test_the_readmes_address_without_a_password(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (place,) = re.findall(r'gaussveil\.open\("postgresql://me@host/(\S+#\S+)"\)', readme)
    server.run('CREATE VIEW readings AS SELECT * FROM "the readings"')
    address = f"postgresql://meter@127.0.0.1:{server.port}/{place.replace('town', 'postgres')}"
    with pytest.raises(SourceError, match="could not be reached"):
        open(address)
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert open(address).row_count() == 3_000


def test_a_release_records_no_password_and_a_lost_server_costs_nothing(server: Server, tmp_path: Path) -> None:
    server.run("CREATE TABLE hours AS SELECT n AS hour, 0.5 + n AS kw FROM generate_series(1, 24) AS n")
    address, book = f"{server.address}#hours", tmp_path / "ledger"
    ledger = Ledger.create(book)
    ledger.open_account("homes", epsilon=3, delta=1e-5, adjacency=Adjacency.add_remove("record"))
    promise = (
        "--epsilon",
        "1",
        "--delta",
        "1e-6",
        "--l2-sensitivity",
        "1e-6",
        "--order",
        "hour",
        "--because",
        "public",
    )
    words = ["release", "vector", address, *promise, "--ledger", str(book), "--account", "homes", "--out"]
    done = CliRunner().invoke(app, [*words, str(tmp_path / "noisy.csv")])
    assert done.exit_code == 0, done.output
    released = np.loadtxt(tmp_path / "noisy.csv", skiprows=1)
    assert np.abs(released - (1.5 + np.arange(24))).max() < 1e-3
    assert '"postgres#hours, ' in (tmp_path / "noisy.csv.certificate.json").read_text(encoding="utf-8")
    assert PASSWORD not in done.output
    for file in tmp_path.iterdir():
        assert PASSWORD.encode() not in file.read_bytes()
    source = open(address).select(["kw"])
    server.stop()
    try:
        mechanism = PrivateSketch(epsilon=1.0, delta=1e-6, row_norm=2.0, n_components=8, account=Account(book, "homes"))
        with pytest.raises(SourceError, match="could not be read"):
            mechanism.fit(source)
        refused = CliRunner().invoke(app, [*words, str(tmp_path / "second.csv")])
        assert isinstance(refused.exception, SourceError)
        assert PASSWORD not in refused.output + str(refused.exception)
    finally:
        server.start()
    assert len(ledger.entries("homes")) == 1


def test_without_the_extension_the_answer_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(WHEELS, "postgres", "no_wheel_of_this_name")
    probe = duckdb.connect()
    if extension_loaded(probe, "postgres"):  # a machine on which somebody ran INSTALL
        probe.execute("SELECT 1 FROM duckdb_extensions() WHERE loaded AND extension_name = 'postgres_scanner'")
        assert probe.fetchall() == [(1,)]
        return
    with pytest.raises(MissingDependencyError, match=r"INSTALL postgres .* pip install '\.\[postgres\]'"):
        open("postgresql://nobody@127.0.0.1:1/none#readings")


def test_tls_in_full(server: Server, table: pa.Table, tmp_path: Path) -> None:
    """The server proves itself to us and we to it, by certificates; whatever does not fit is refused."""
    (tmp_path / "other").mkdir()
    authority, stranger = Authority(tmp_path), Authority(tmp_path / "other")
    data, user = server.folder / "data", "postgres" if server.owner else None
    for name, source in zip(("server.crt", "server.key", "root.crt"), (*authority.signed("server"), authority.file)):
        shutil.copy(source, data / name)
        (data / name).chmod(0o600)
        if user is not None:
            shutil.chown(data / name, user, user)
    rules = data / "pg_hba.conf"
    rules.write_text(
        f"hostssl all certified 127.0.0.1/32 cert\nhost all certified 127.0.0.1/32 reject\n{rules.read_text()}"
    )
    server.run(
        "CREATE ROLE certified LOGIN",
        'GRANT SELECT ON "the readings" TO certified',
        "ALTER SYSTEM SET ssl = on",
        "ALTER SYSTEM SET ssl_ca_file = 'root.crt'",
    )
    server.stop()
    server.start()
    certificate, key = authority.signed("certified")
    wrong_certificate, wrong_key = stranger.signed("certified")

    def address(root: Path, mine: Path | None, private: Path | None, mode: str = "verify-full") -> str:
        shown = "" if mine is None else f"&sslcert={mine}&sslkey={private}"
        where = f"postgresql://certified@127.0.0.1:{server.port}/postgres"
        return f"{where}?sslmode={mode}&sslrootcert={root}{shown}#the readings"

    assert sums(open(address(authority.file, certificate, key))) == sums(as_source(table))
    plain = f"{server.address}?sslmode=verify-full&sslrootcert={authority.file}#the readings"
    assert sums(open(plain)) == sums(as_source(table)), "a password over TLS"
    for refused in (
        address(stranger.file, certificate, key),  # a server that this authority does not know
        address(authority.file, None, None),  # without our certificate
        address(authority.file, wrong_certificate, wrong_key),  # with a stranger's
        address(authority.file, certificate, key, "disable"),
    ):
        with pytest.raises(SourceError) as told:
            sums(open(refused))
        assert str(tmp_path) not in str(told.value)

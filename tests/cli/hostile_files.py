"""Damaged and hostile files of every kind, read by every command: a process of its own, within limits on memory.

    python -m tests.cli.hostile_files KIND COUNT FOLDER

prints one line for every file that ended otherwise than by an answer or one sentence.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import resource
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

MEMORY = 6 << 30  # of addresses: what engines reserve, and some
ANSWERS = {0, 2, 3, 4, 5}
MAY_SAY_NO = ("verify", "check", "budget check")
PROMISE = "--epsilon 1 --delta 1e-6 --force --out"
TABLE = [
    f"query FILE --unit home --count --mean kw --between 0,3 {PROMISE} o.csv",
    "schema FILE",
    f"query FILE --unit home --by hour(time) --count {PROMISE} o.csv",
    f"regress FILE --target kw --columns kw,volt --between kw:0,3 --between volt:200,260 {PROMISE} o.json",
    f"sketch FILE --columns kw --row-norm 3 --n-components 16 {PROMISE} o.npz",
    f"synthesise FILE --unit home --rows-per-unit 2 --bounds auto {PROMISE} o2.csv",
    "classify model.json FILE --force --out o.csv",
    f"pca FILE --columns kw,volt --between kw:0,3 --between volt:200,260 {PROMISE} o.json",
]
ARRAY = [
    f"release vector FILE --l2-sensitivity 1 --because x {PROMISE} o.csv",
    f"sketch FILE --row-norm 3 --n-components 16 {PROMISE} o.npz",
]
PAIR = ["delta FILE --epsilon 1", "check FILE --claim 1,1e-6", "epsilon FILE --delta 1e-6", "curve FILE --points 3"]
BOOK = [
    "budget show FILE",
    "budget check FILE",
    "budget history FILE --account a",
    "budget export FILE --account a --out o.json",
    "backup o.tar --ledger FILE --force",
    f"query t.csv --unit home --count --ledger FILE --account a {PROMISE} o.csv",
]
KINDS: dict[str, tuple[str, list[str]]] = {  # of each: the file that is damaged, and who reads it
    "csv": ("t.csv", TABLE),
    "csv.gz": ("t.csv.gz", TABLE),
    "parquet": ("t.parquet", TABLE),
    "arrow": ("t.arrow", TABLE),
    "xlsx": ("t.xlsx", TABLE[:3]),
    "sqlite": ("t.sqlite", [words.replace("FILE", "FILE#t") for words in TABLE]),
    "duckdb": ("t.duckdb", [words.replace("FILE", "FILE#t") for words in TABLE]),
    "npy": ("t.npy", ARRAY),
    "npz": ("pair.npz", PAIR),
    "pair": ("pair.json", PAIR),
    "pairs": ("pair.csv", PAIR),
    "certificate": ("r.csv.certificate.json", ["verify FILE"]),
    "released": ("r.csv", ["verify FILE"]),
    "ledger": ("b.ledger", BOOK),
    "model": ("model.json", ["verify FILE", "sample FILE -n 3 --out o.csv --force", TABLE[6].replace("FILE", "t.csv")]),
    "form": ("form.toml", ["schema t.csv --schema FILE", TABLE[0].replace("FILE", "t.csv --schema FILE")]),
    "archive": ("b.tar", ["restore FILE --verify"]),
}


def written(folder: Path) -> None:
    """One whole file of every kind."""
    import duckdb
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet as pq

    from gaussveil.mechanisms import PrivateGaussianMixture

    from ..engines.test_written_files import cells, sheet

    rng = np.random.default_rng(1)
    time = np.datetime64("2024-03-01T00:00:00", "us") + np.arange(240) * np.timedelta64(1, "h")
    table = pa.table({"home": [f"h{k % 40}" for k in range(240)], "time": time})
    table = table.append_column("kw", pa.array(rng.gamma(2.0, 0.4, 240)))
    table = table.append_column("volt", pa.array(rng.normal(230.0, 2.0, 240)))
    pa.csv.write_csv(table, folder / "t.csv")
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    pq.write_table(table, folder / "t.parquet")
    pa.feather.write_feather(table, folder / "t.arrow", compression="lz4")
    rows = table.to_pylist()
    sheet(folder / "t.xlsx", cells(*table.column_names) + "".join(cells(*row.values()) for row in rows))
    with contextlib.closing(sqlite3.connect(folder / "t.sqlite")) as lite, lite:
        lite.execute("CREATE TABLE t (home TEXT, time TIMESTAMP, kw REAL, volt REAL)")
        lite.executemany(
            "INSERT INTO t VALUES (?, ?, ?, ?)", [tuple((one | {"time": str(one["time"])}).values()) for one in rows]
        )
    with contextlib.closing(duckdb.connect(str(folder / "t.duckdb"))) as database:
        database.register("given", table)
        database.execute("CREATE TABLE t AS SELECT * FROM given")
    np.save(folder / "t.npy", rng.normal(size=(24, 2)))
    pair = {
        "mean_x": [0.3, 0.0],
        "cov_x": [[1.2, 0.1], [0.1, 1.0]],
        "mean_y": [0.0, 0.0],
        "cov_y": [[1.0, 0.1], [0.1, 1.0]],
    }
    np.savez(folder / "pair.npz", **{name: np.array(value) for name, value in pair.items()})
    (folder / "pair.json").write_text(json.dumps(pair))
    (folder / "pair.csv").write_text("distribution,mean,cov_1\nX,0.3,1.2\nY,0,1\n")
    model = PrivateGaussianMixture(epsilon=1.0, delta=1e-6, classes=2, columns=["kw"], radius=3.0)
    model.fit(table.select(["kw"])).model_.write(folder / "model.json")
    (folder / "form.toml").write_text('missing = ["-9"]\n[columns]\nhome = "text"\ntime = "time"\nkw = "number"\n')
    for words in (
        "budget new b.ledger --account a --epsilon 5 --delta 1e-4",
        f"query t.csv --unit home --by hour(time) --count --ledger b.ledger --account a {PROMISE} r.csv",
        "backup b.tar --ledger b.ledger",
    ):
        assert told(words.split())[0] == 0, words


def damaged(body: bytes, seed: int) -> bytes:
    """A file of which something is wrong: cut, bits turned, bytes lost, repeated or grown, numbers made absurd."""
    chance = random.Random(seed)
    place = chance.randrange(len(body))
    wild = chance.choice([b"\xff" * 8, b"\0" * 8, b"9" * 40, b"-1", b"1e999", b"NaN", b"\xed\xa0\x80", b'"', b"\x80"])
    ways: list[Callable[[], bytes]] = [
        lambda: body[:place],
        lambda: body[:place] + bytes([body[place] ^ 1 << chance.randrange(8)]) + body[place + 1 :],
        lambda: body[:place] + wild + body[place + len(wild) :],
        lambda: body[:place] + wild + body[place:],
        lambda: body[:place] + body[place + chance.randrange(1, 200) :],
        lambda: body[:place] + body[place : place + 300] * 50 + body[place:],
        lambda: bytes(byte ^ (chance.random() < 0.002) * chance.randrange(256) for byte in body),
        lambda: body[place:] + body[:place],
        lambda: b"",
        lambda: chance.randbytes(2000),
    ]
    return ways[seed % len(ways)]()


def told(words: list[str]) -> tuple[int, str]:
    """The exit code of a command in this process, and what it says where something is wrong."""
    from gaussveil.cli.main import main

    sys.argv = ["gaussveil", *words]
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        return int(end.code or 0), err.getvalue()
    return 0, err.getvalue()


def by_python(kind: str, file: Path) -> str:
    """What a Python entry point raises that is no error of ours."""
    from gaussveil import open as open_table
    from gaussveil.accounting import Certificate, Ledger
    from gaussveil.errors import GaussveilError
    from gaussveil.mechanisms import MixtureModel
    from gaussveil.report.number_files import read_numbers
    from gaussveil.report.pair_files import read_pair

    readers: dict[str, Callable[[Path], object]] = {
        "npy": read_numbers,
        **dict.fromkeys(("npz", "pair", "pairs"), read_pair),
        "certificate": Certificate.read,
        "ledger": lambda path: Ledger(path).entries("a"),
        "model": MixtureModel.read,
        "form": lambda path: open_table("t.csv", schema=path),
        **dict.fromkeys(("sqlite", "duckdb"), lambda path: open_table(f"{path}#t").table()),
        **dict.fromkeys(("csv", "csv.gz", "parquet", "arrow", "xlsx"), lambda path: open_table(path).table()),
    }
    try:
        readers.get(kind, lambda _: None)(file)
    except (GaussveilError, OSError):
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def failures(kind: str, count: int, folder: Path) -> Iterator[str]:
    """A line for each damaged file that ended otherwise than by an answer or one sentence."""
    name, commands = KINDS[kind]
    body = (folder / name).read_bytes()
    for seed in range(count):
        file = Path(f"v.{name.partition('.')[2]}") if kind != "certificate" else Path("v.csv.certificate.json")
        for used in (file, Path(f"{file}-witness"), *Path().glob("o*")):
            used.unlink(missing_ok=True)
        file.write_bytes(damaged(body, seed))
        print(f"# {kind} {seed}", file=sys.stderr, flush=True)  # the last that was tried, where the process ends here
        words = commands[seed % len(commands)].replace("FILE", str(file))
        code, said = told(words.split())
        allowed = code in ANSWERS or (code == 1 and words.startswith(MAY_SAY_NO))
        wrong = f"exit {code}" if not allowed or "Traceback" in said else by_python(kind, file)
        if wrong:
            yield f"{kind} {seed} {words}: {wrong} {said.strip()[-200:]}"


def in_folder(folder: Path, kind: str, count: int) -> None:
    """Write the whole files, or print a line for each damaged one of a kind that is no answer and no sentence."""
    os.chdir(folder)
    warnings.simplefilter("ignore")
    if kind == "written":
        written(folder)
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in failures(kind, count, folder):
        print(line)


if __name__ == "__main__":
    in_folder(Path(sys.argv[3]), sys.argv[1], int(sys.argv[2]))

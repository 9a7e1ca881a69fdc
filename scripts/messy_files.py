"""The same readings of forty homes as people have them: eleven files, each answered by one query and one forecast.

usage: python scripts/messy_files.py WORK_FOLDER (run by try_jobs.sh in a clean environment)
"""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

HOMES, HOURS = 40, 24 * 8
START = datetime(2024, 3, 25)


def table(separator: str, decimal: str, form: str, names: tuple[str, ...], *, quoted: bool = False) -> str:
    """One row per home and hour; a form with a + is written in two columns."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    writer.writerow(names)
    for home in range(HOMES):
        for hour in range(HOURS):
            moment = START + timedelta(hours=hour)
            power = f"{0.3 + 0.1 * (home % 7) + 0.5 * (hour % 24 > 17):.3f}".replace(".", decimal)
            writer.writerow([f"Zähler {home:03}", *moment.strftime(form).split("+"), power])
    return out.getvalue()


def main(folder: Path) -> None:
    """Write every file, then ask each the same question."""
    names, two = ("Zähler", "Zeit", "Leistung"), ("Zähler", "Datum", "Uhrzeit", "Leistung")
    german = table(";", ",", "%d.%m.%Y %H:%M", names)
    files = {
        "plain.csv": table(",", ".", "%Y-%m-%d %H:%M:%S", names).encode(),
        "semicolons.csv": german.encode(),
        "bom.csv": german.encode("utf-8-sig"),
        "windows.csv": german.encode("windows-1252"),
        "quoted.csv": table(";", ",", "%d.%m.%Y %H:%M", names, quoted=True).encode(),
        "packed.csv.gz": gzip.compress(german.encode()),
        "tabs.csv": table("\t", ",", "%d.%m.%Y %H:%M", names).encode(),
        "slashes.csv": table(",", ".", "%d/%m/%Y %H:%M", names).encode(),
        "iso.csv": table(",", ".", "%Y-%m-%dT%H:%M", names).encode(),
        "lines.csv": german.replace("\r\n", "\n").encode(),
    }
    promise = ["--epsilon", "1", "--delta", "1e-5"]
    asked = ["--unit", names[0], "--by", "hour(Zeit)", "--mean", "Leistung", "--between", "0,5"]
    home = ["--household", names[0], "--power", "Leistung", "--home", "Zähler 003", "--clusters", "2"]
    for name, body in files.items():
        file = folder / name
        file.write_bytes(body)
        run("query", file, *asked, *promise, "--out", folder / f"{name}.day.csv")
    (folder / "two.csv").write_text(table(";", ",", "%d.%m.%Y+%H:%M", two), encoding="utf-8")
    joined = ["--time", "Datum+Uhrzeit", "--out", folder / "two.forecast.csv"]
    run("forecast", folder / "two.csv", *home, *promise, *joined)
    print(f"{len(files) + 1} messy files were answered")


def run(*words: object) -> None:
    """Run a command of the environment that runs this script; stop where it fails."""
    done = subprocess.run([Path(sys.executable).parent / "gaussveil", *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"gaussveil {' '.join(map(str, words))}\nended with {done.returncode}: {done.stderr}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The same readings of forty homes as people have them: thirteen files, each answered by a query or a forecast.

usage: python scripts/messy_files.py WORK_FOLDER (run by try_jobs.sh in a clean environment)
"""

from __future__ import annotations

import csv
import gzip
import io
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

HOMES, HOURS = 40, 24 * 8
START = datetime(2024, 3, 25)


def rows() -> list[tuple[str, datetime, float]]:
    """One row per home and hour."""
    hours = [(home, hour) for home in range(HOMES) for hour in range(HOURS)]
    powers = [0.3 + 0.1 * (home % 7) + 0.5 * (hour % 24 > 17) for home, hour in hours]
    return [(f"Zähler {home:03}", START + timedelta(hours=hour), kw) for (home, hour), kw in zip(hours, powers)]


def table(separator: str, decimal: str, form: str, names: tuple[str, ...], *, quoted: bool = False) -> str:
    """The rows as text; a form with a + is written in two columns."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
    writer.writerow(names)
    for home, moment, power in rows():
        writer.writerow([home, *moment.strftime(form).split("+"), f"{power:.3f}".replace(".", decimal)])
    return out.getvalue()


def zoned(names: tuple[str, ...]) -> str:
    """The rows on the clock of Zurich, which changes on one of these days."""
    zone = ZoneInfo("Europe/Zurich")
    lines = [
        f"{home},{moment.replace(tzinfo=UTC).astimezone(zone).isoformat()},{kw:.3f}" for home, moment, kw in rows()
    ]
    return "\n".join([",".join(names), *lines, ""])


def workbook(names: tuple[str, ...]) -> bytes:
    """The rows as a sheet of Excel, where a time is a number of days and its style makes it one."""
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    package = "http://schemas.openxmlformats.org/package/2006"
    text = '<c t="inlineStr"><is><t>{}</t></is></c>'.format
    cells = [
        f'{text(home)}<c s="1"><v>{(moment - datetime(1899, 12, 30)) / timedelta(1):.10f}</v></c><c><v>{power}</v></c>'
        for home, moment, power in rows()
    ]
    sheet = "".join(f"<row>{row}</row>" for row in ("".join(map(text, names)), *cells))
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType='
        f'"{kinds}.sheet.main+xml"/><Override PartName="/xl/s.xml" ContentType="{kinds}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="a" Type='
        f'"{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="Lastgang" sheetId="1" '
        'r:id="a"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="a" Type='
        f'"{office}/worksheet" Target="s.xml"/><Relationship Id="b" Type="{office}/styles" Target="styles.xml"/>'
        "</Relationships>",
        "xl/styles.xml": f'<styleSheet xmlns="{main}"><cellXfs count="2"><xf numFmtId="0"/>'
        '<xf numFmtId="22"/></cellXfs></styleSheet>',
        "xl/s.xml": f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>',
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in parts.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + body)
    return buffer.getvalue()


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
        "zones.csv": zoned(names).encode(),
        "sheet.xlsx": workbook(names),
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

"""Every refusal of every form, read: a sentence about a field of the page, and nothing internal in it."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from gaussveil.accounting import Adjacency
from gaussveil_studio.offers.kinds import EVERY, KINDS
from gaussveil_studio.sentences import GENERAL
from gaussveil_studio.spoken import is_plain

from .page_words import require_words

if TYPE_CHECKING:
    from .conftest import Running

pytestmark = pytest.mark.xdist_group("studio")

PIECE = {"HX-Request": "true", "Accept": "text/html"}
# One order of each kind that is not refused, and its table; the walk changes one thing of it at a time.
GOOD: dict[str, tuple[str | None, dict[str, Any]]] = {
    "table": ("long.csv", {"unit": "home", "column": "kw", "low": 0, "high": 4, "by": "hour", "by_column": "time"}),
    "vector": ("small.csv", {}),
    "sketch": ("small.csv", {"row_norm": 2.0, "components": 8}),
    "mixture": ("kinds.csv", {"radius": 3.0, "label": "kind", "classes": "a,b", "nominal_size": 400}),
    "synthetic": ("kinds.csv", {"label": "kind"}),
    "regression": ("kinds.csv", {"target": "y", "columns": "x", "low": -3, "high": 3}),
    "logistic": ("kinds.csv", {"target": "kind", "classes": "a,b"}),
    "pca": ("kinds.csv", {}),
    "process": ("kinds.csv", {"target": "y", "column": "x", "first": -1, "scatter": 20}),
    "spectrum": ("long.csv", {"column": "kw", "order": "time", "minutes": 60, "points": 12}),
    "label": ("profiles.csv", {"label": "name", "secret": "late"}),
    "forecast": ("long.csv", {"home": "b", "clusters": 1, "unit": "home"}),
    "stream": (None, {}),
}
WRONG = {
    "number": ("nonsense", "1e300", "-1e300"),
    "whole": ("nonsense", "0.5", "-1", "1e300"),
    "names": ("nonsense,-,--flag",),
    "text": ("", "nonsense", "x\u0000y"),
    "yes": ("perhaps",),
}
TABLES: dict[str, bytes] = {
    "empty.csv": b"",
    "header.csv": b"a,b\n",
    "binary.csv": bytes(range(256)) * 20,
    "broken.parquet": b"PAR1xxxxPAR1",
    "broken.xlsx": b"PK\x03\x04zzzz",
    "broken.npy": b"\x93NUMPY\x01\x00zzz",
    "latin.csv": "Zähler-Nr,kWh\nä1,2\nö2,3\n".encode("latin-1"),
    "text.csv": b"one,two\nyes,no\nno,yes\n",
}


@pytest.fixture(scope="module")
def tables(studio: Running) -> str:
    """Tables as people have them, good and bad, in a folder of the studio."""
    folder = studio.folder / "tables" / "walk"
    folder.mkdir()
    for name in ("small.csv", "kinds.csv"):
        (folder / name).write_bytes((studio.folder / "tables" / name).read_bytes())
    lines = [f"{home},2024-01-{1 + hour // 24:02} {hour % 24:02}:00:00,0.5" for home in "abcd" for hour in range(48)]
    (folder / "long.csv").write_text("\n".join(["home,time,kw", *lines]) + "\n", encoding="utf-8")
    (folder / "profiles.csv").write_text("name,night,day\nflat,1,1\nlate,1,3\n", encoding="utf-8")
    for name, body in TABLES.items():
        (folder / name).write_bytes(body)
    return "folder-0/walk/"


def sentence(html: str) -> tuple[str, str]:
    """The field and the words of a refusal, as a page shows them."""
    (field,) = re.findall(r'class="problem"[^>]*data-field="([^"]*)"', html)
    (words,) = re.findall(r"<p>(.*?)</p>", html, re.DOTALL)
    return field, unescape(words)


def read(reply: Any, asked: object) -> tuple[str, str]:
    field, words = sentence(reply.text)
    assert words != GENERAL.capitalize() + ".", asked
    assert is_plain(words), (asked, words)
    assert re.match(r"[A-Z“0-9]|\w+\.\w+", words), (asked, words)
    assert words.endswith((".", "!", "?")), (asked, words)
    assert "GV" not in reply.text
    return field, words


@pytest.mark.parametrize("kind", sorted(GOOD))
def test_every_refusal_of_every_form_of_a_release_is_a_sentence_at_its_field(
    studio: Running, tables: str, kind: str
) -> None:
    table, order = GOOD[kind]
    asked = {"order": {"mechanism": kind, **order}, "table": table and tables + table}
    fields = KINDS[kind]["fields"] | EVERY
    assert studio.client.post("/api/preview", json=asked).status_code == 200
    refused = 0
    for name, described in fields.items():
        wrong = ("nonsense",) if described.get("choices") else WRONG[described.get("is", "text")]
        for value in wrong:
            sent = {**asked, "order": {**asked["order"], name: value}}
            reply = studio.client.post("/api/preview", json=sent, headers=PIECE)
            if reply.status_code == 200:  # an empty field may be left empty
                continue
            refused += 1
            field, _ = read(reply, (name, value))
            assert field.removeprefix("order.") in (*fields, "table"), (name, value, reply.text)
    assert refused >= len(fields) - 2
    for other in TABLES if table else ():
        reply = studio.client.post("/api/preview", json={**asked, "table": tables + other}, headers=PIECE)
        if reply.status_code != 200:
            field, _ = read(reply, other)
            assert field, (other, reply.text)
    if table:
        field, words = read(studio.client.post("/api/preview", json={**asked, "table": None}, headers=PIECE), "none")
        assert (field, words) == ("table", "Choose a table, or upload one.")


@pytest.mark.parametrize("kind", sorted(GOOD))
def test_every_preview_speaks_as_its_form_does(studio: Running, tables: str, kind: str) -> None:
    table, order = GOOD[kind]
    asked = {"order": {"mechanism": kind, **order}, "table": table and tables + table}
    found = studio.client.post("/api/preview", json=asked).json()
    for words in (*(text for fact in found["facts"] for text in fact), *found["notes"], found["doubt"]):
        assert is_plain(words), words
    if kind == "table":  # four homes are no public number; that three are too few follows from what was typed
        few = {**asked, "order": {**asked["order"], "units": 3}}
        (note,) = studio.client.post("/api/preview", json=few).json()["notes"]
        needed = re.match(r"cannot be useful with 3 of them: .*; it needs about ([\d,]+) of them in every group", note)
        assert needed is not None, note
        assert is_plain(note)
        assert " unit" not in note
        enough = {**few, "order": {**few["order"], "units": int(needed[1].replace(",", ""))}}
        told = studio.client.post("/api/preview", json=enough).json()
        assert told["notes"] == []
        assert dict(told["facts"])["Worth asking"].startswith("useful with ")


def test_what_a_table_cannot_answer_is_told_with_what_it_can(studio: Running, tables: str) -> None:
    folder = studio.folder / "tables" / "walk"
    (folder / "bills.csv").write_text("client;due;chf\na;31.01.2024;12,5\nb;29.02.2024;7,0\n", encoding="utf-8")
    (folder / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    hourly = {"unit": "client", "column": "chf", "low": 0, "high": 99, "by": "hour", "by_column": "due"}
    for kind, table, order, field, words in (
        ("table", "bills.csv", hourly, "order.by", "ask for every month or day of the week"),
        ("table", "picture.csv", hourly, "table", "holds a picture (PNG) and no text"),
        ("synthetic", "kinds.csv", {"rows": 10}, "order.rows", "about 10 rows are too few to learn the ranges"),
    ):
        asked = {"order": {"mechanism": kind, **order}, "table": tables + table}
        told = read(studio.client.post("/api/preview", json=asked, headers=PIECE), table)
        assert told[0] == field, told
        assert words.casefold() in told[1].casefold(), told


def test_about_how_many_there_are_is_what_somebody_said_before(studio: Running, tables: str) -> None:
    asked = studio.order(studio.account(), "table", f"{tables}long.csv", **GOOD["table"][1], units=404)
    studio.client.post("/api/releases", json=asked)
    assert studio.finished(asked["key"])["state"] == "released"
    assert studio.client.get(f"/api/columns?table={tables}long.csv").json()["said"] == {"units": 404}
    assert studio.client.get(f"/api/columns?table={tables}small.csv").json()["said"] == {}
    sample = studio.client.post("/api/tables/sample", json={}).json()["id"]
    assert studio.client.get(f"/api/columns?table={sample}").json()["said"] == {"units": 200}


def test_an_account_is_too_poor_only_where_money_is_the_reason(studio: Running, tables: str) -> None:
    book, name = studio.ledger, studio.account(0.01)
    book.open_account(f"other {name}", epsilon=3, delta=1e-5, adjacency=Adjacency.add_remove("patient"))
    book.open_account(f"people {name}", epsilon=3, delta=1e-5, people=f"homes of {name}")
    order = {"mechanism": "table", **GOOD["table"][1]}
    said = {}
    for account, more in (
        (name, {}),
        (f"other {name}", {}),
        (f"people {name}", {"people": "somebody else"}),
        (f"other {name}", {"people": "somebody"}),
    ):
        asked = {"order": {**order, **more}, "table": f"{tables}long.csv", "account": account}
        found = studio.client.post("/api/preview", json=asked).json()["budget"]
        assert found["allowed"] is False
        assert is_plain(found["reason"].replace(name, "")), found["reason"]
        said[account, *more] = found["why"]
        page = studio.client.post("/api/preview", json=asked, headers=PIECE).text
        assert ("cannot pay for this" in page) == (account == name)
    assert list(said.values()) == ["money", "people", "people", "people"]
    # A forecast hides which home it is; that an account is kept for whole patients is told before it is designed.
    forecast, table = GOOD["forecast"][1], GOOD["forecast"][0]
    asked = {"order": {"mechanism": "forecast", **forecast}, "table": f"{tables}{table}", "account": f"other {name}"}
    told = studio.client.post("/api/preview", json=asked).json()
    assert told["budget"]["why"] == "people"
    assert told["digest"] is None
    # The same people under another column's name pay from the account that is kept for them.
    fits = {"order": {**order, "people": f"homes of {name}"}, "table": f"{tables}long.csv", "account": f"people {name}"}
    shown = studio.client.post("/api/preview", json=fits).json()
    assert shown["budget"]["allowed"] is True
    assert shown["budget"]["more_after"] == shown["budget"]["in_all"] - 1


def test_no_page_names_anything_internal(studio: Running, tables: str) -> None:
    """Of a release and its account: all that stands on pages, but for scripts to copy and names that people gave."""
    account = studio.account()
    order = studio.order(account, "table", f"{tables}long.csv", **GOOD["table"][1])
    studio.client.post("/api/releases", json=order)
    assert studio.finished(order["key"])["state"] == "released"
    released = studio.client.get("/api/releases").json()["releases"]
    names = {*studio.ledger.accounts(), *(one["title"] for one in released)}  # that people gave, in other tests
    listed = ("/", "/release", "/releases", "/accounts", f"/accounts/{account}", f"/release/{order['key']}", "/tour")
    for path in (*listed, *(f"/release/{'e' * 32}?mechanism={kind}" for kind in KINDS)):
        page = studio.client.get(path, headers={"Accept": "text/html"}).text
        require_words(page, names, path)
    page = studio.client.post(f"/api/releases/{order['key']}/verify", headers=PIECE).text
    assert "numbers and certificate" in page


def test_other_forms_refuse_in_sentences_too(studio: Running) -> None:
    words = ("name", "epsilon", "delta", "people", "unit")
    good = {"name": "fine", "epsilon": 1, "delta": 1e-5, "people": "", "unit": "record"}
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/api/accounts", {**good, name: wrong}) for name in words for wrong in ("x\u0000", "-1", " ", "h\u043emes")
    ]
    asked += [
        ("/api/whatif", {"account": "nobody", "releases": [{"epsilon": 1}]}),
        ("/api/whatif", {"account": "nobody", "releases": [{"epsilon": "much", "count": 0}]}),
        ("/api/whatif", {"account": "nobody", "releases": []}),
        ("/api/enclose", {"epsilon": "much"}),
        ("/api/entries/none/void", {}),
        ("/api/preview", {"order": {"mechanism": "no such kind"}}),
        ("/api/preview", {"order": {}, "unknown_field": 1}),
    ]
    before = studio.ledger.accounts()
    for path, body in asked:
        reply = studio.client.post(path, json=body, headers=PIECE)
        if reply.status_code >= 300:
            read(reply, (path, body))
    assert len(studio.ledger.accounts()) <= len(before) + 8
    for name, body in {**TABLES, "pair.json": b"{}", "no.txt": b"x"}.items():
        for path in ("/api/tables", "/api/certificate", "/api/claim"):
            data = {"epsilon": "1", "delta": "0.1"} if path == "/api/claim" else {}
            reply = studio.client.post(path, files={"file": (name, body)}, data=data, headers=PIECE)
            if reply.status_code >= 300:
                read(reply, (path, name))
    for path in ("/no-such-page", "/accounts/nobody", "/release/x", "/release/" + "0" * 32 + "?mechanism=no_such"):
        page = studio.client.get(path, headers={"Accept": "text/html"}).text
        told = unescape(re.findall(r'class="problem"[^>]*><p>(.*?)</p>', page, re.DOTALL)[0])
        assert is_plain(told), (path, told)
        assert "HTTP" not in page

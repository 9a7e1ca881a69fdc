"""Every page in a real browser: it works, says nothing on the console and asks nobody but us."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from gaussveil import figure_style as style
from gaussveil.accounting import Adjacency, Charge
from gaussveil.spectrum import GaussianPair
from gaussveil_studio.curves import PairState, summary
from gaussveil_studio.sliders import coordinates

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from .conftest import Running, Visit

pytestmark = pytest.mark.xdist_group("browser")

STATIC = Path(__file__).parents[2] / "studio" / "gaussveil_studio" / "static"
AXE = Path(__file__).parent / "vendor" / "axe-4.14.0.min.js"
Come = Callable[..., "Visit"]


def test_explore_draws_the_exact_curve_and_follows_the_sliders(visit: Come, studio: Running) -> None:
    page = visit("/explore").page
    page.wait_for_selector("#curve[data-drawn]")
    page.wait_for_selector("#tradeoff[data-drawn]")
    before = page.get_attribute("#curve", "data-drawn")
    page.focus("#shift")
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_selector(f"#curve[data-drawn]:not([data-drawn='{before}'])")
    page.wait_for_url(lambda url: "m=0.55,0.55,0.55" in url)  # it follows each of the keys
    expected = summary(PairState(variance_ratio=[1.202] * 3, mean_shift=[0.55] * 3).loss(), 1e-6, 3)["epsilon"]
    page.wait_for_selector(f"#reading:has-text('{expected:.4f} exactly')")


def test_a_link_shows_the_same_to_everybody(visit: Come, studio: Running) -> None:
    state = "/explore?r=1.5,0.8&m=0.25,1&k=10&d=0.0001"
    page = visit(state).page
    page.wait_for_selector("#reading:has-text('exactly')")
    pair = PairState(variance_ratio=[1.5, 0.8], mean_shift=[0.25, 1.0], times=10)
    (shown,) = re.findall(r"epsilon (\S+) exactly", page.inner_text("#reading"))
    assert float(shown) == pytest.approx(summary(pair.loss(), 1e-4, 3)["epsilon"], rel=1e-4)
    expect(page.locator("#times-shown")).to_have_text("10 times")
    expect(page.locator("#ratio-shown")).to_have_text("differs")


def test_the_enclosure_comes_on_request_and_a_file_sets_the_sliders(
    visit: Come, studio: Running, tmp_path: Path
) -> None:
    page = visit("/explore").page
    page.wait_for_selector("#tradeoff[data-drawn]")
    page.click("text=Enclose")
    page.wait_for_selector("#enclosure .proof")
    low, high = map(float, re.findall(r"\[(.*), (.*)\]", page.inner_text("#enclosure"))[0])
    loss = PairState(variance_ratio=[1.202] * 3, mean_shift=[0.5] * 3).loss()
    assert low <= float(loss.dp_delta(1.0)) * (1 + 1e-12)
    assert float(loss.dp_delta(1.0)) <= high * (1 + 1e-12)
    assert high - low < 1e-12
    pair = tmp_path / "pair.json"
    pair.write_text(json.dumps({"variance_gap": [0.2, -0.5], "mean_gap": [0.1, 0.3]}), encoding="utf-8")
    page.set_input_files("#pair-file", str(pair))
    page.wait_for_url(re.compile(r"r=0\.8,1\.5"))
    expect(page.locator("#dimension-shown")).to_have_text("2")


def test_what_speaks_of_the_sliders_is_out_of_reach_for_a_pair_they_cannot_show(
    visit: Come, studio: Running, tmp_path: Path
) -> None:
    page = visit("/explore").page
    page.wait_for_selector("#tradeoff[data-drawn]")
    large = tmp_path / "large.json"
    gaps = [0.01 * k for k in range(70)]
    large.write_text(json.dumps({"variance_gap": gaps, "mean_gap": [0.01] * 70}), encoding="utf-8")
    page.set_input_files("#pair-file", str(large))
    page.wait_for_selector("#reading:has-text('too large')")
    expected = float(GaussianPair.from_reduced(gaps, [0.01] * 70).dp_epsilon(1e-6))
    assert f"epsilon {expected:#.5g} exactly" in page.inner_text("#reading")
    for part in ("#enclose", "#enclose-at", "#delta", "#copy-link"):
        expect(page.locator(part)).to_be_disabled()
    page.focus("#shift")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#enclose:enabled")
    expect(page.locator("#pair-file")).to_have_value("")


@pytest.mark.parametrize(("ratio", "shift"), [(1e3, 50.0), (1e-3, 0.0), (1001.0, 0.0), (9e-4, 0.0), (1.0, 50.1)])
def test_sliders_stand_for_the_pairs_that_explore_takes(ratio: float, shift: float) -> None:
    found = coordinates(GaussianPair.from_reduced([1.0 - ratio], [shift]))
    try:
        PairState(variance_ratio=[ratio], mean_shift=[shift])
    except ValueError:
        assert found is None
    else:
        assert found is not None
        assert PairState.model_validate(found).variance_ratio == pytest.approx([ratio])


def test_budgets_show_accounts_history_and_exports(visit: Come, studio: Running) -> None:
    name = studio.account()
    for _ in range(3):
        studio.ledger.debit(name, Charge(GaussianPair.mean_shift(0.2)), Adjacency.add_remove("record"))
    page = visit("/accounts").page
    page.fill("#new-name", "opened <b>here</b>")
    page.select_option("#new-filter", "renyi")
    page.click("button:text('Open')")
    page.wait_for_selector("th:has-text('opened <b>here</b>')")
    assert studio.ledger.terms("opened <b>here</b>").chosen_filter == "renyi"
    page.click(f"a:text-is('{name}')")
    page.wait_for_selector(".chart[data-drawn]")
    spent = studio.ledger.statement(name).spent_epsilon
    told = re.search(r"composed exactly, is epsilon (\S+) at delta 1e-5", page.inner_text("main"))
    assert told is not None
    assert spent <= float(told[1]) <= spent * 1.001
    expect(page.locator("tbody tr")).to_have_count(3)
    assert "more like the last" in page.inner_text(".card")
    with page.expect_download() as found:
        page.click("text=Export JSON")
    assert json.loads(Path(found.value.path()).read_text())["statement"]["account"] == name


def test_verify_recomputes_certificates_and_decides_claims(visit: Come, studio: Running, tmp_path: Path) -> None:
    from gaussveil.mechanisms import GaussianRelease

    certificate = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0).release([1.0]).certificate
    good, forged = tmp_path / "good.json", tmp_path / "forged.json"
    good.write_text(certificate.to_json(), encoding="utf-8")
    forged.write_text(certificate.to_json().replace('"delta": 1e-06', '"delta": 1e-09'), encoding="utf-8")
    page = visit("/verify").page
    for file, words in ((good, "Verified"), (forged, "Does not verify")):
        page.set_input_files("#certificate-file", str(file))
        page.click("button:text('Verify')")
        page.wait_for_selector(f"#certificate .verdict:has-text('{words}')")
    page.wait_for_selector("#certificate dd:has-text('word that two neighbours')")
    pair = tmp_path / "pair.csv"
    pair.write_text("variance_gap,mean_gap\n0,1\n", encoding="utf-8")
    exact = float(GaussianPair.mean_shift(1.0).dp_delta(1.0))
    for delta, words in ((exact * 1.001, "holds"), (exact * 0.999, "refuted")):
        page.set_input_files("#claim-file", str(pair))
        page.fill("#claim-delta", repr(delta))
        page.click("button:text('Decide')")
        page.wait_for_selector(f"#claim .verdict:has-text('{words}')")
    page.wait_for_selector("#claim .chart[data-drawn]")


UNNAMED = """[...document.querySelectorAll('main input:not([type=hidden]), main select, main button')]
    .filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label') && !e.textContent.trim()).length"""
CUT = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).length"


def fits_a_phone_in_the_dark(page: Page) -> None:
    """Nothing is beyond an edge, fields have names, and the keyboard gets past the navigation."""
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate(CUT) == 0  # no column is hidden beyond an edge
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    assert page.evaluate(UNNAMED) == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_every_page_fits_a_phone_and_axe_finds_nothing_to_complain_of(visit: Come, studio: Running, full: bool) -> None:
    """With a release and an account to show; axe-core in the light, and on four in the dark, where colours differ."""
    account, other = studio.account(), studio.account()
    order = studio.order(account)
    studio.client.post("/api/releases", json=order)
    assert studio.finished(order["key"])["state"] == "released"
    page = visit("/").page
    axe = AXE.read_text(encoding="utf-8")
    shown = ("/explore", f"/release/{order['key']}", "/releases", "/accounts", f"/accounts/{account}")
    listed = ("/", "/release?mechanism=stream", *shown, "/release", "/verify", "/diagnostics", "/api", "/nothing")
    run = "rules => axe.run(document, {resultTypes: ['violations'], ...rules}).then(all => all.violations)"
    for place, path in enumerate(listed):
        page.set_viewport_size({"width": 360, "height": 740})
        page.emulate_media(color_scheme="dark")
        page.goto(studio.pages + path)
        page.wait_for_selector("h1")
        fits_a_phone_in_the_dark(page)
        page.set_viewport_size({"width": 1280, "height": 720})
        if path == "/release?mechanism=stream":
            page.select_option("#account", other)
            page.wait_for_selector("#release-button:enabled")
        page.evaluate(axe)
        found = page.evaluate(run, {"runOnly": "cat.color"}) if full or place < 4 else []
        page.emulate_media(color_scheme="light")
        found += page.evaluate(run, {})
        told = [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]
        assert told == [], path


def test_the_token_is_not_among_the_arguments_of_the_browser(browser: Browser, studio: Running) -> None:
    assert studio.client.get("/api/tables").status_code == 200  # it serves, so it has opened the browser
    address = (studio.folder / "told.txt").read_text(encoding="utf-8").strip()
    assert studio.token not in address
    assert (studio.folder / "home.ledger.studio" / "open.html").stat().st_mode & 0o077 == 0
    page = browser.new_page()  # that nobody has let in
    page.goto(address)
    page.wait_for_url(studio.pages + "/")
    page.wait_for_selector("h1:has-text('Publish')")
    page.close()


def test_private_figures_are_marked_and_have_a_page_of_their_own(visit: Come, studio: Running) -> None:
    page = visit("/diagnostics").page
    assert "Private." in page.inner_text(".private")
    page.select_option("#audit-table", "folder-0/small.csv")
    page.click("button:text('Audit')")
    page.wait_for_selector("#audited:has-text('refuted')")
    assert "do not share" in page.inner_text("#audited")


def test_colours_are_those_of_the_reports() -> None:
    ours = re.findall(r"--series-\d: (#[0-9a-f]{6})", (STATIC / "studio.css").read_text(encoding="utf-8"))
    report = Path(style.__file__).parent / "report" / "templates" / "report.css"
    theirs = re.findall(r"--series-\d: (#[0-9a-f]{6})", report.read_text(encoding="utf-8"))
    assert tuple(ours[:6]) == style.SERIES
    assert ours == theirs[:12]  # in the light and in the dark


def test_every_asset_is_ours_and_vendored_ones_carry_their_licence() -> None:
    names = {path.name for path in (STATIC / "vendor").iterdir()}
    assert names == {"htmx-4.0.0.min.js", "htmx-LICENSE.txt"}
    pages = [*STATIC.glob("*.*"), *(STATIC.parent / "templates").iterdir()]
    for path in pages:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|style=|onclick|<script>", text), path

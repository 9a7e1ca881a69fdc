from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from markupsafe import escape

from gaussveil.accounting import Adjacency, Certificate, CertificateDraft, Charge, Guarantee, transaction, verify
from gaussveil.report.certificate import certificate_report
from gaussveil.report.html import render
from gaussveil.spectrum import GaussianPair

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def certificate(charge: Charge, guarantee: Guarantee | None = None) -> Certificate:
    draft = CertificateDraft(
        released="daily mean <of homes>",
        mechanism="example",
        adjacency=Adjacency.add_remove("home"),
        epsilon=1.0,
        delta=1e-5,
        guarantee=guarantee or Guarantee.worst_case(),
        assumptions=("at most one row per home",),
        parameters={"bandwidth": 0.5},
    )
    with transaction(None, charge, draft) as debit:
        debit.draw(lambda: 0.0)
    return debit.certificate


@pytest.fixture(scope="module")
def gaussian() -> Certificate:
    return certificate(Charge(GaussianPair.mean_shift(0.2), sampler_error=1e-19))


def test_the_page_says_what_the_certificate_says(gaussian: Certificate) -> None:
    page = render(certificate_report(gaussian, verify(gaussian)))
    for words in (
        "(1, 1e-05)-differential privacy for each home",
        "daily mean &lt;of homes&gt;",
        "added or removed",
        "at most one row per home",
        "bandwidth",
        "every statement holds",
        "both directions (X: with the home, Y: without it)",
        str(escape(verify(gaussian).rests_on)),
        gaussian.release_id,
        "not signed",
        "<svg role=",
    ):
        assert words in page


def test_the_curve_carries_the_claim(gaussian: Certificate) -> None:
    from gaussveil.report.figures import privacy_curves

    figure = privacy_curves([("a", GaussianPair.mean_shift(0.2))], np.linspace(0.0, 2.0, 5), claim=(1.0, 1e-5))
    ring = figure.axes[0].get_lines()[-1]
    assert (list(ring.get_xdata()), list(ring.get_ydata())) == ([1.0], [1e-5])


def test_details_are_folded_behind_the_curve_and_nothing_is_dumped() -> None:
    draft = CertificateDraft(
        released="a vector",
        mechanism="example",
        adjacency=Adjacency.add_remove("home"),
        epsilon=1.0,
        delta=1e-5,
        guarantee=Guarantee.worst_case(),
        assumptions=(),
        parameters={"covariance": [[1.0, 0.25], [0.25, 1.0]], "noise_sd": {"kw": 0.123456789, "names": ["a", "b"]}},
    )
    with transaction(None, Charge(GaussianPair.mean_shift(0.2)), draft) as debit:
        debit.draw(lambda: 0.0)
    page = render(certificate_report(debit.certificate))
    assert page.index("<svg role=") < page.index("<details>") < page.index("example")
    assert "0.25" not in page[page.index("<details>") :]
    assert "{" not in page[page.index("<details>") :]
    for words in ("2 entries, in the certificate", "kw: 0.123457; names: a, b"):
        assert words in page.replace("&#39;", "'")


def test_no_guarantee_is_said_first() -> None:
    seeded = certificate(Charge(GaussianPair.mean_shift(0.2)), Guarantee.none("seeded"))
    report = certificate_report(seeded)
    assert report.summary == "No privacy is promised: seeded."
    assert "differential privacy for each" not in render(report)


def test_several_parts_are_described_without_a_curve() -> None:
    charge = Charge(GaussianPair.mean_shift(0.1)) + Charge(GaussianPair.from_reduced([0.05], [0.05]))
    assert "<svg" not in render(certificate_report(certificate(charge)))


def test_an_altered_certificate_is_shown_as_such(gaussian: Certificate) -> None:
    altered = Certificate.from_dict({**gaussian.to_dict(), "delta": 1e-9, "delta_upper": 1e-9})
    page = render(certificate_report(altered, verify(altered)))
    assert "does not verify" in page
    assert "Problem" in page


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [375, 1280])
def test_a_phone_sees_the_claim_and_that_there_is_more(gaussian: Certificate, browser: Browser, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.set_content(render(certificate_report(gaussian)))
    past, frame, chart, shade = page.evaluate(
        """() => {
            const root = document.documentElement, frame = document.querySelector("figure");
            const chart = frame.querySelector("svg").getBoundingClientRect().width, own = getComputedStyle(frame);
            const shade = own.overflowX + own.backgroundAttachment;
            return [root.scrollWidth - root.clientWidth, frame.clientWidth, chart, shade];
        }"""
    )
    assert past == 0
    assert chart <= (1.31 if width == 375 else 1.0) * frame  # the ring stands before three quarters of the chart
    assert shade.startswith("auto") == ("local" in shade) == (chart > frame)
    page.close()

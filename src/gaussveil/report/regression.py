"""Page and figure of a private linear regression: every coefficient with its interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from gaussveil.accounting import Certificate
from gaussveil.figure_style import FAINT, INK, SERIES, drawing
from gaussveil.mechanisms.regression.linear_fit import LinearFit
from gaussveil.report.certificate import certificate_report
from gaussveil.report.figures import svg
from gaussveil.report.html import Report, Section, Table


def regression_report(fits: tuple[LinearFit, ...], certificate: Certificate) -> Report:
    """A section for every target, then the certificate."""
    page = certificate_report(certificate)
    return replace(page, sections=[*map(_section, fits), *page.sections])


def _section(fit: LinearFit) -> Section:
    rows = zip(
        fit.names, fit.coefficients, fit.std_error, *fit.interval.T, fit.informed
    )
    return Section(
        heading=f"Regression of {fit.target}",
        paragraphs=(f"{fit.summary().splitlines()[-1].lstrip('* ').capitalize()}.",),
        figure=svg(
            coefficient_figure(fit),
            f"coefficients-{fit.target}",
            "Slopes with their 95 % intervals.",
        ),
        caption="Slopes and 95 % intervals, in units of the standard error; hollow: not to be trusted.",
        table=Table(
            columns=("", "coefficient", "standard error", "from", "to", "trusted"),
            rows=[
                (name, *(f"{x:.4g}" for x in numbers), "yes" if told else "no")
                for name, *numbers, told in rows
            ],
        ),
    )


def coefficient_figure(fit: LinearFit) -> Figure:
    """Whiskers: each slope and its interval over its standard error, so that columns of any unit fit on one axis."""
    with drawing(6.4, 1.0 + 0.3 * len(fit.names)) as (figure, axes):
        error = fit.std_error[1:]
        for place, (value, (low, high), told) in enumerate(
            zip(
                fit.coefficients[1:] / error,
                fit.interval[1:] / error[:, None],
                fit.informed[1:],
            )
        ):
            axes.plot([low, high], [place, place], color=SERIES[0] if told else FAINT)
            axes.plot(
                value,
                place,
                "o",
                color=SERIES[0] if told else FAINT,
                mfc=None if told else "none",
            )
        axes.axvline(0.0, color=INK, linewidth=0.8)
        axes.set_yticks(np.arange(len(error)), fit.names[1:])
        axes.invert_yaxis()
        axes.set_title(f"slopes of {fit.target} over their standard errors")
        return figure

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from gaussveil.cli.main import app
from gaussveil.mechanisms import PrivateLinearRegression
from gaussveil.noise import SeededGenerator
from gaussveil.report.regression import coefficient_figure

RNG = np.random.default_rng(8)
ROWS = RNG.uniform(-1, 1, size=(5000, 4))
ROWS[:, 3] = ROWS[:, 2] + 0.02 * ROWS[:, 3]
TARGET = ROWS @ [0.6, -0.4, 0.5, 0.0] + 0.2 * RNG.normal(size=5000)


def test_whiskers_are_the_intervals_and_hollow_where_noise_hides_a_direction() -> None:
    model = PrivateLinearRegression(bounds=(-1, 1), target_bounds=(-2, 2), generator=SeededGenerator(2))
    fit = model.fit(ROWS, TARGET).fits_[0]
    assert fit.informed == (False, True, True, False, False)  # the last two columns are nearly one
    axes = coefficient_figure(fit).axes[0]
    whiskers, dots = axes.lines[0:8:2], axes.lines[1:8:2]
    for place, (whisker, dot) in enumerate(zip(whiskers, dots)):
        error = fit.std_error[1 + place]
        assert np.allclose(whisker.get_xdata(), fit.interval[1 + place] / error)
        assert np.allclose(dot.get_xdata(), fit.coefficients[1 + place] / error)
        assert (dot.get_markerfacecolor() == "none") is not fit.informed[1 + place]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x0", "x1", "x2", "x3"]


def test_the_command_writes_a_page_and_refuses_to_write_over_one(tmp_path: Path) -> None:
    table, out, page = tmp_path / "in.csv", tmp_path / "coef.json", tmp_path / "coef.html"
    pd.DataFrame(ROWS[:200], columns=list("abcd")).assign(label=TARGET[:200]).to_csv(table, index=False)
    asked = ["regress", str(table), "--target", "label", "--epsilon", "1", "--delta", "1e-6"]
    asked += ["--out", str(out), "--report", str(page)]
    page.write_text("kept")
    assert CliRunner().invoke(app, asked).exit_code != 0
    assert page.read_text() == "kept"
    assert not out.exists()
    page.unlink()
    assert CliRunner().invoke(app, asked).exit_code == 0
    assert "Regression of label" in page.read_text()
    assert "<svg" in page.read_text()

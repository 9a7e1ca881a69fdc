"""Draw the pictures of the pages into docs/images: `make images`. Seeded, so the same bytes each time.

With names of files: give these pictures dark colours too, and draw nothing. Everything shown beside a release (true
values, fits without privacy) is simulated here, so nothing private is shown.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from sklearn.gaussian_process.kernels import RBF

import gaussveil
from gaussveil.calibration import white_noise_scale
from gaussveil.calibration.boxes import box_noise
from gaussveil.figure_style import FAINT, INK, SERIES, house_style, legend_above
from gaussveil.noise import SeededGenerator
from gaussveil.report.figures import save
from gaussveil.report.forecast import forecast_figure
from gaussveil.report.regression import coefficient_figure
from gaussveil.report.synthetic import beside_figure
from gaussveil.timeseries import welch_psd
from gaussveil_studies.published.ndis_calibrated import published_logistic_sensitivity, published_variance

FOLDER = Path(__file__).parent / "images"
STYLES = Path(gaussveil.__file__).parent / "report" / "templates" / "report.css"
DARK = re.compile(r"<style id=\"dark\">.*?</style>\n", re.DOTALL)


def canvas(panels: int = 1, size: tuple[float, float] = (6.4, 3.2)) -> tuple[Figure, list]:
    """An empty figure with its axes side by side."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, panels)))


def average_day() -> Figure:
    """The README's first job: the released average day of 400 homes, the interval of every hour, and the true one."""
    town = gaussveil.simulate_households(400, 7, step_minutes=60, seed=7)
    readings = pa.table(
        {
            "meter_id": np.repeat(town.households, town.count).tolist(),
            "time": np.tile(town.times.astype("datetime64[us]"), len(town)),
            "kw": town.values.ravel(),
        }
    )
    answers = [gaussveil.Mean("kw", bounds="auto"), gaussveil.Count()]
    by = {"hour": gaussveil.hour_of("time")}
    asked = gaussveil.TableRelease(
        unit="meter_id", epsilon=1, delta=1e-6, by=by, answers=answers, generator=SeededGenerator(9)
    )
    released = asked.release(readings).value
    low, mean, high = (np.asarray(released.column(f"mean_kw{end}")) for end in ("_low", "", "_high"))
    figure, (axes,) = canvas()
    hours = np.arange(24)
    axes.fill_between(hours, low, high, color=SERIES[0], alpha=0.18, linewidth=0)
    axes.plot(hours, mean, color=SERIES[0], label="released")
    truth = town.values.reshape(len(town), -1, 24).mean(axis=(0, 1))
    axes.plot(hours, truth, color=INK, linestyle=(0, (3, 1.6)), linewidth=1.4, label="true, which nobody else sees")
    axes.set_xlabel("hour")
    held = int(np.sum((low <= truth) & (truth <= high)))
    axes.set_title(f"mean kW of 400 homes   the band holds each true mean with 95 %, here {held} of 24", color=FAINT)
    legend_above(figure, axes)
    return figure


def table() -> Figure:
    """Noise of counts where a unit may touch all cells, and a tenth of them: with a shared part, and white."""
    figure, (axes,) = canvas()
    cells = np.unique(np.geomspace(2, 1000, 40).astype(int))
    for colour, share, words in zip(SERIES, (1, 10), ("all cells", "a tenth of them")):
        touched = [max(int(d) // share, 1) for d in cells]
        ours = [box_noise(int(d), k).count_variance ** 0.5 for d, k in zip(cells, touched)]
        axes.loglog(cells, ours, color=colour, label=f"a unit touches {words}")
        axes.loglog(cells, np.sqrt(touched), color=colour, linestyle=(0, (3, 1.6)), linewidth=1.4)
    axes.set_xlabel("cells")
    axes.set_title("standard deviation of a count per unit of 1/t   dashed: white noise", color=FAINT)
    legend_above(figure, axes)
    return figure


def gaussian() -> Figure:
    """Noise against epsilon: exact, and the textbook formula, which is proven for epsilon below one only."""
    figure, (axes,) = canvas()
    epsilons = np.geomspace(0.1, 10, 40)
    for colour, delta in zip(SERIES, (1e-5, 1e-9)):
        exact = [white_noise_scale(1.0, float(epsilon), delta) for epsilon in epsilons]
        axes.loglog(epsilons, exact, color=colour, label=f"exact, delta {delta:g}")
        small = epsilons <= 1
        textbook = np.sqrt(2 * np.log(1.25 / delta)) / epsilons
        axes.loglog(epsilons[small], textbook[small], color=colour, linestyle=(0, (3, 1.6)), linewidth=1.4)
    axes.set_xlabel("epsilon")
    axes.set_title("standard deviation of the noise per unit of sensitivity   dashed: textbook formula", color=FAINT)
    legend_above(figure, axes)
    return figure


def random_projection() -> Figure:
    """Error of the Gram matrix against the number of components, beside plain noise at the same promise."""
    figure, (axes,) = canvas()
    components = [8, 16, 32, 64, 128, 256, 512, 1024]
    ridges = [
        gaussveil.PrivateSketch(epsilon=epsilon, delta=1e-6, row_norm=1.0, n_components=r).plan(4).ridge
        for epsilon in (0.5, 1.0, 2.0)
        for r in components
    ]
    for k, epsilon in enumerate((0.5, 1.0, 2.0)):
        axes.loglog(components, ridges[k * len(components) :][: len(components)], label=f"epsilon {epsilon:g}")
    axes.set_xlabel("components of the sketch")
    axes.set_title("ridge added to the Gram matrix, in squared row norms (delta 1e-6)", color=FAINT)
    legend_above(figure, axes)
    return figure


def ellipse(axes: object, mean: np.ndarray, covariance: np.ndarray, colour: str, dashed: bool = False) -> None:
    """Draw the ellipse of two standard deviations."""
    values, vectors = np.linalg.eigh(covariance)
    width, height = 4 * np.sqrt(values)
    angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
    line = (0, (3, 1.6)) if dashed else "-"
    axes.add_patch(
        Ellipse(mean, width, height, angle=angle, fill=False, edgecolor=colour, linewidth=1.8, linestyle=line)
    )


def mixture() -> Figure:
    """Three classes and their released Gaussians at two epsilons."""
    rng = np.random.default_rng(3)
    kind = rng.integers(3, size=3000)
    centres = np.array([[-3.0, -1.0], [2.5, -2.0], [0.5, 3.0]])
    shapes = np.array([[[1.0, 0.4], [0.0, 0.6]], [[0.6, 0.0], [-0.3, 1.1]], [[1.3, 0.0], [0.2, 0.4]]])
    rows = centres[kind] + np.einsum("nij,nj->ni", shapes[kind], rng.normal(size=(3000, 2)))
    figure, panels = canvas(2, (7.2, 3.4))
    for axes, epsilon in zip(panels, (0.5, 2.0)):
        model = gaussveil.PrivateGaussianMixture(
            epsilon=epsilon, delta=1e-6, radius=7.0, generator=SeededGenerator(1)
        ).fit(rows, kind)
        axes.scatter(*rows[:600].T, s=4, color=FAINT, alpha=0.35, linewidth=0)
        for k, colour in enumerate(SERIES[:3]):
            ellipse(axes, rows[kind == k].mean(0), np.cov(rows[kind == k].T), INK, dashed=True)
            ellipse(axes, model.means_[k], model.covariances_[k], colour)
        axes.set_title(f"epsilon {epsilon:g}   solid: released   dashed: without privacy", color=FAINT)
        axes.set_aspect("equal")
        axes.set(xlim=(-7, 7), ylim=(-5.5, 5.5))
        axes.grid(False)
    return figure


def synthetic() -> Figure:
    """Docs/how-to/synthetic-table.md: simulated patients beside synthetic ones, columns and pairs."""
    generator = np.random.default_rng(0)
    ward = generator.choice(["A", "B", "C"], 3000, p=[0.5, 0.3, 0.2])
    age = generator.normal(57, 18, 3000).clip(0, 105).round().astype(int)
    patients = pa.table(
        {
            "age": age,
            "ward": ward,
            "admitted": (np.datetime64("2024-01-01") + generator.integers(0, 365, 3000)).astype("datetime64[D]"),
            "stay": generator.geometric(0.3 - 0.1 * (ward == "C"), 3000),
            "cost": generator.lognormal(7 + 0.01 * age + 0.3 * (ward == "C"), 0.8).round(2),
        }
    )
    made = gaussveil.SyntheticTable(
        epsilon=1,
        delta=1e-6,
        between={"age": (0, 110)},
        values={"ward": ["A", "B", "C"]},
        label="ward",
        bounds="auto",
        generator=SeededGenerator(1),
    )
    model = made.release(patients).value
    return beside_figure(patients, model.sample(3000, 1), model.columns)


def class_label() -> Figure:
    """Four queries, and the noise that hides which one it was, at two accuracies."""
    queries = np.array([[0.0, 0.0], [1.2, 0.3], [0.4, 1.0], [1.5, 1.3]])
    figure, panels = canvas(2, (7.2, 3.4))
    for axes, rho in zip(panels, (0.15, 0.4)):
        found = gaussveil.ClassLabelNoise(epsilon=1.0, accuracy=rho, public_models=True).design(queries)
        for k, colour in enumerate(SERIES[:4]):
            axes.plot(*queries[k], "o", color=colour, markersize=6)
            centre = queries[k] + found.plan_.shifts[k]
            axes.plot(*np.stack([queries[k], centre]).T, color=colour, linewidth=1)
            ellipse(axes, centre, found.noise_covariances_[k], colour)
        kept = f"{found.retained_variance_:.0%}"
        axes.set_title(f"error {rho:g}: delta {found.worst_delta_:.2g}, variance kept {kept}", color=FAINT)
        axes.set_aspect("equal")
        axes.grid(False)
        axes.margins(0.25)
    return figure


def forecast() -> Figure:
    """One home's evening: released forecast with its band, and what only the owner sees."""
    readings = gaussveil.simulate_households(8, 16, step_minutes=60, seed=1)
    past = readings.window(0, 15 * 24 + 16)
    forecaster = gaussveil.PrivateForecaster(
        horizon="6h", epsilon=1, accuracy=0.5, clusters=1, common_covariance=True, generator=SeededGenerator(4)
    ).fit(past)
    release = forecaster.release("home00003")
    truth = readings.window(15 * 24 + 16, 6)
    return forecast_figure(release.value, forecaster.diagnostics("home00003", truth=truth.values[3]))


def meter_stream() -> Figure:
    """Two days of a home: readings, private readings, and what a receiver makes of them."""
    town = gaussveil.simulate_households(1, 28, step_minutes=5, seed=5)
    load = town.values[0]
    stream = gaussveil.MeterStream.design(
        sample_period="5min",
        epsilon=4.0,
        delta=1e-5,
        event=(0.3, "30min"),
        purpose="shape",
        generator=SeededGenerator(2),
    )
    private = stream.push_many(load)
    psd = welch_psd(load, 512)
    smoothed = gaussveil.smooth(private, float(stream.plan().noise_sd) ** 2, psd)
    figure, (axes,) = canvas(size=(7.2, 3.2))
    hours = np.arange(288 * 2) / 12
    part = slice(288 * 3, 288 * 5)
    axes.plot(hours, private[part], color=FAINT, linewidth=0.6, alpha=0.6, label="released")
    axes.plot(hours, load[part], color=INK, linewidth=1, label="readings (private)")
    axes.plot(hours, smoothed[part], color=SERIES[1], label="smoothed by the receiver")
    axes.set_xlabel("hours")
    axes.set_title("power in kW, hiding 0.3 kW for half an hour at epsilon 4", color=FAINT)
    legend_above(figure, axes)
    return figure


def spectral() -> Figure:
    """A home's spectrum, and the private one."""
    town = gaussveil.simulate_households(4, 28, step_minutes=5, seed=6)
    ball = gaussveil.calibrate_ball(list(town.values[1:]), points=64, sample_period=1 / 12)
    mechanism = gaussveil.PrivateSpectrum(
        epsilon=4.0,
        delta=1e-5,
        l2_ball=ball,
        points=64,
        sample_period=1 / 12,
        smoothing=(1.0, 0.4),
        generator=SeededGenerator(3),
    )
    true = welch_psd(town.values[0], 64, period=1 / 12)
    frequency = np.linspace(0, 6, 65)
    released = mechanism.release(town.values[0]).value
    figure, (axes,) = canvas()
    axes.semilogy(frequency, true, color=INK, linewidth=1.2, label="of the readings (private)")
    axes.semilogy(frequency, np.maximum(released, true.min() / 10), color=SERIES[0], label="released")
    axes.set_xlabel("cycles per hour")
    axes.set_title("power spectral density in kW² h, epsilon 4", color=FAINT)
    legend_above(figure, axes)
    return figure


def logistic() -> Figure:
    """Added variance against the regularisation: ours and the printed one, which is not private."""
    figure, (axes,) = canvas()
    strengths = np.geomspace(1, 100, 9)
    ours = [
        gaussveil.PrivateBayesianLogisticRegression(
            epsilon=1.0, delta=1e-5, row_norm=1.0, regularization=float(s), classes=[0, 1]
        )
        .plan(10)
        .added_variance
        for s in strengths
    ]
    printed = [
        published_variance(
            lambda v, s=s: published_logistic_sensitivity(
                v, row_norm=1.0, regularization=float(s), count=1000, dimension=10
            ),
            1.0,
            1e-5,
            10,
        )
        for s in strengths
    ]
    axes.loglog(
        strengths, printed, color=FAINT, linestyle=(0, (3, 1.6)), label="as printed, not private (n = 1000, d = 10)"
    )
    axes.loglog(strengths, ours, color=SERIES[0], label="gaussveil, any n and d")
    axes.set_xlabel("regularisation")
    axes.set_title("variance added to the posterior at (1, 1e-5)", color=FAINT)
    legend_above(figure, axes)
    return figure


def gp() -> Figure:
    """Observations, released values and the curve drawn through them."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, size=(400, 1))
    y = np.clip(np.sin(x[:, 0]) + 0.7 * rng.normal(size=400), -2, 2)
    queries = np.linspace(0.5, 9.5, 10)[:, None]
    model = gaussveil.PrivateGaussianProcessRegressor(
        kernel=RBF(1.5),
        query_points=queries,
        observation_variance=40.0,
        label_bound=2.0,
        n_max=1000,
        epsilon=4.0,
        delta=1e-5,
        generator=SeededGenerator(1),
    ).fit(x, y)
    figure, (axes,) = canvas()
    grid = np.linspace(0.5, 9.5, 200)[:, None]
    axes.scatter(x[:, 0], y, s=4, color=FAINT, alpha=0.5, linewidth=0)
    axes.plot(grid[:, 0], np.sin(grid[:, 0]), color=INK, linewidth=1, linestyle=(0, (3, 1.6)), label="truth")
    axes.plot(grid[:, 0], model.predict(grid), color=SERIES[0], label="through the released values")
    axes.plot(queries[:, 0], model.values_, "o", color=SERIES[0], markersize=5)
    axes.set_title("ten released draws of the posterior, epsilon 4 in all", color=FAINT)
    legend_above(figure, axes)
    return figure


def gaussian_output() -> Figure:
    """Exact delta of a lifted posterior against the added variance, both directions, and what was claimed."""
    added = np.geomspace(1e-3, 1e3, 80)
    wide, narrow = 1 + added, 1e-4 / (1 + 1e-4) + added
    pair = gaussveil.GaussianPair.from_reduced((1 - wide / narrow)[:, None], np.zeros((80, 1)))
    figure, (axes,) = canvas()
    axes.loglog(added, np.maximum(pair.delta(1.0), 1e-12), color=SERIES[0], label="without against with the record")
    axes.loglog(added, np.maximum(pair.reversed().delta(1.0), 1e-12), color=SERIES[1], label="with against without")
    axes.plot(0.157, 1e-6, "o", color=INK, markerfacecolor="none", markersize=8)
    axes.text(0.11, 0.6e-6, "claimed by NDIS Figure 5", color=INK, fontsize=8, ha="right")
    axes.set_ylim(1e-10, 1)
    axes.set_xlabel("added variance")
    axes.set_title("exact delta at epsilon 1 of a Gaussian process posterior", color=FAINT)
    legend_above(figure, axes)
    return figure


def regression() -> Figure:
    """Slopes of a private regression with their intervals: two that are there, one that is not, two nearly the same."""
    rng = np.random.default_rng(3)
    rows = rng.uniform(-1, 1, size=(6000, 5))
    rows[:, 4] = 0.8 * rows[:, 3] + 0.2 * rows[:, 4]
    target = rows @ [0.6, -0.4, 0.0, 0.5, 0.0] + 0.3 * rng.normal(size=6000)
    model = gaussveil.PrivateLinearRegression(
        epsilon=1, delta=1e-6, bounds=(-1, 1), target_bounds=(-3, 3), generator=SeededGenerator(3)
    )
    return coefficient_figure(model.fit(rows, target).fits_[0])


def follow_the_page(path: Path) -> None:
    """Give a picture the dark colours of our reports; a browser takes them where the page around it is dark."""
    light, dark = (
        dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6});", part.split("}")[0]))
        for part in STYLES.read_text(encoding="utf-8").split("prefers-color-scheme: dark")
    )
    rules = "".join(
        f'[style*="{what}: {light[name]}"] {{ {what}: {dark[name]} !important }}\n'
        for name in ("--paper", "--ink", "--faint", "--rule", *(f"--series-{k}" for k in range(len(SERIES))))
        for what in ("fill", "stroke")
    )
    style = f'<style id="dark">@media (prefers-color-scheme: dark) {{\n{rules}}}</style>\n'
    text = DARK.sub("", path.read_text(encoding="utf-8"))
    path.write_text(text.replace("</svg>\n", f"{style}</svg>\n"), encoding="utf-8")


PICTURES = (
    average_day,
    table,
    gaussian,
    random_projection,
    mixture,
    synthetic,
    class_label,
    forecast,
    meter_stream,
    spectral,
    logistic,
    gp,
    gaussian_output,
    regression,
)

if __name__ == "__main__":
    for name in sys.argv[1:]:
        follow_the_page(Path(name))
    for picture in () if sys.argv[1:] else PICTURES:
        with house_style():
            drawn = picture()
            for axes in drawn.axes:
                axes.set_title(axes.get_title(loc="left"), fontweight="normal", color=FAINT, fontsize=9)
        save(drawn, FOLDER / f"{picture.__name__}.svg")
        print(f"{picture.__name__}.svg")
    for path in sorted(FOLDER.glob("*.svg")):  # those of `gaussveil demo` as well
        follow_the_page(path)

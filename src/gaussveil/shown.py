"""What a notebook shows of things: a line, a small table and, of a privacy curve, `.plot()` in the report's style."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from gaussveil.errors import MissingDependencyError, NumericalError, install

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST_DRAWN_DELTA = 1e-10  # deltas below it interest nobody
TOLD_DELTA = 1e-6


class Described:
    """A subclass gives a few facts; they are its line and its table."""

    def _facts(self) -> dict[str, str]:
        """What is worth a line, by name."""
        return {}

    def _brief(self) -> dict[str, str]:
        """What one line tells; cheap, as debuggers and logs ask for it unasked."""
        return self._facts()

    def __repr__(self) -> str:
        told = "; ".join(f"{name}: {value}" for name, value in self._brief().items())
        return f"{type(self).__name__}({told})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
            for name, value in self._facts().items()
        )
        return f"<b>{type(self).__name__}</b><table>{rows}</table>"


class Shown(Described):
    """A subclass says which curve it has and what it claims, too."""

    def _curve(self) -> Any:
        """The curve to draw, with `delta`, `reversed` and `dp_epsilon`: the charge's, where there is one."""
        charge = getattr(self, "charge", None)
        if charge is None:
            return self
        return charge._curve()

    def _claim(self) -> tuple[float, float] | None:
        """An epsilon and delta to mark."""
        return None

    def _facts(self) -> dict[str, str]:
        import numpy as np

        if batch := getattr(self, "batch_shape", None):
            return {"batch of": str(batch)}
        try:
            found = float(np.max(np.asarray(self._curve().dp_epsilon(TOLD_DELTA))))
        except (
            NumericalError,
            TypeError,
        ):  # of arrays on a device, or of nothing that a double holds
            return {}
        return {f"epsilon at delta {TOLD_DELTA:g}": f"{found:.4g}"}

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw delta against epsilon, the worse of both directions, down to 1e-10; a ring marks what is claimed.

        Args:
            axes: matplotlib's axes to draw on; a new figure's by default.

        Returns:
            The axes with the curve, for further drawing or `axes.figure.savefig`.

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        import numpy as np

        if axes is None:
            try:
                from gaussveil.figure_style import drawing
            except ImportError as error:
                raise MissingDependencyError(
                    f"plots need matplotlib: {install('standard')}"
                ) from error
            with drawing(6.0, 4.0) as (_, axes):
                return self.plot(axes)
        curve = self._curve()
        claim = self._claim()
        reach = float(np.max(curve.dp_epsilon(SMALLEST_DRAWN_DELTA)))
        levels = np.linspace(
            0.0, max(reach, 1.25 * claim[0] if claim else 0.0, 1e-6), 65
        )
        batch = tuple(range(1, 1 + len(getattr(curve, "batch_shape", ()))))
        grid = levels.reshape(-1, *(1 for _ in batch))
        worst = np.maximum(curve.delta(grid), curve.reversed().delta(grid)).max(
            axis=batch
        )
        axes.semilogy(levels, np.maximum(worst, SMALLEST_DRAWN_DELTA / 10.0))
        if claim:
            axes.plot(
                *claim,
                "o",
                markersize=8,
                markerfacecolor="none",
                markeredgewidth=1.4,
                zorder=5,
            )
        axes.set(xlabel="epsilon", ylabel="delta")
        return axes

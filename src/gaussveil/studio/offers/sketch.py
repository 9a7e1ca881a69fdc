"""Offer: a private random projection of a numeric table."""

from __future__ import annotations

from dataclasses import replace

from gaussveil.accounting import Account, Adjacency
from gaussveil.mechanisms import PrivateSketch, Sketch
from gaussveil.mechanisms.random_projection.plan import SketchPlan
from gaussveil.statistics.block import require_columns
from gaussveil.studio.offers.offer import EPSILONS, Offer, Outcome, Picture, Plan, against_epsilon, band
from gaussveil.studio.offers.spelling import spelled
from gaussveil.studio.offers.tables import open_source, schema_of

MOST_DRAWN = 12


class SketchOffer(Offer):
    """Second moments through a sketch."""

    file_form = "sketch.npz"

    def _mechanism(self, account: Account | None = None) -> PrivateSketch:
        order = self.order
        return PrivateSketch(
            epsilon=order["epsilon"],
            delta=order["delta"],
            row_norm=order["row_norm"],
            n_components=order["components"],
            row_bound=order["row_bound"],
            columns=order["columns"],
            account=account,
        )

    def _planned(self, mechanism: PrivateSketch) -> SketchPlan:
        schema = schema_of(self.needed_table())
        require_columns(schema, mechanism.columns or ())
        return mechanism.plan(len(mechanism.columns or schema.names))

    def plan(self) -> Plan:
        """The ridge and the error of second moments; from the schema alone."""
        mechanism = self._mechanism()
        plan = self._planned(mechanism)
        rows = plan.row_bound or 0.0
        errors = [replace(mechanism, epsilon=one).plan(plan.size).gram_error(rows) for one in EPSILONS]
        return Plan(
            facts=(
                ("Sketch", f"{plan.size} columns, {plan.components} components"),
                ("Ridge", f"{plan.ridge:.6g} is added to every column's sum of squares, in proportion"),
                ("Comparison", plan.compare()),
            ),
            charge=plan.charge,
            adjacency=Adjacency.add_remove("record"),
            accuracy=against_epsilon(
                "Error of the Gram matrix against epsilon",
                "squared unit of the rows",
                {"root mean square error": errors},
            ),
        )

    def prepare(self) -> int:
        """Open the table and plan."""
        plan = self._planned(self._mechanism())
        return 8 * plan.size * plan.components + 256 * plan.size + 65536

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.release(gaussveil.open(table))"

    def release(self, account: Account) -> Outcome:
        """Read the table once and draw."""
        table = open_source(self.needed_table())
        release = self._mechanism(account).release(table, released=f"sketch of {self.table_name}")
        found = release.value
        return Outcome(
            body=found.to_bytes(),
            certificate=release.certificate,
            facts=(
                ("Released", f"{len(found.columns)} x {found.matrix.shape[1]} numbers, ridge {found.ridge:.6g}"),
                ("Read it with", "gaussveil.mechanisms.Sketch.from_file"),
            ),
            picture=lambda: _picture(found),
        )


def _picture(found: Sketch) -> Picture:
    parts = found.pca(min(MOST_DRAWN, len(found.columns)))
    values, errors = parts.value.tolist(), parts.standard_error.tolist()
    # Eigenvalues are not negative: an estimate below zero says that none stands out, and its band begins at zero.
    ends = [(max(value - 2 * error, 0.0), max(value + 2 * error, 0.0)) for value, error in zip(values, errors)]
    low, high = zip(*ends)
    title = "Largest eigenvalues of the Gram matrix, estimated from the sketch"
    return Picture(
        title,
        list(range(1, len(values) + 1)),
        {"estimate": [max(value, 0.0) for value in values]},
        "principal component",
        "eigenvalue",
        kind="points",
        bands=[band(low, high, "two standard errors")],
    )

"""The rows that a view keeps, as SQL that DuckDB and Spark both understand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gaussveil.statistics.row_hash import BOUND_KEY
from gaussveil.statistics.source import View

Names = Callable[[Sequence[str]], str]
HashFunction = Callable[[bytes, Sequence[str] | None], str]


def kept_rows(view: View, table: str, names: Names, hash_function: HashFunction) -> str:
    """Columns, then at most ``max_rows`` rows per privacy unit, then the Poisson sample.

    ``names`` quotes column names; ``hash_function(key, columns)`` gives the engine the keyed row hash of these columns
    (None: of two integers) and returns the name under which SQL may call it.
    """
    cells = names(view.columns)
    rows = f"(SELECT {cells} FROM {table})"
    hash_column, rank_column = _own_names(view.columns)
    if view.unit is not None:
        unit = names([view.unit])
        bound = hash_function(BOUND_KEY, view.columns)
        hashed = f"(SELECT *, {bound}({cells}) AS {hash_column} FROM {rows} AS r WHERE {unit} IS NOT NULL)"
        rank = f"row_number() OVER (PARTITION BY {unit} ORDER BY {hash_column})"
        ranked = f"(SELECT *, {rank} AS {rank_column} FROM {hashed} AS h)"
        rows = f"(SELECT {cells} FROM {ranked} AS k WHERE {rank_column} <= {view.max_rows})"
    if view.rate is not None and view.unit is not None:
        coin = hash_function(view.coin_key, [view.unit])
        rows = (
            f"(SELECT {cells} FROM {rows} AS b WHERE {coin}({unit}) < {view.threshold})"
        )
    elif view.rate is not None:
        row_hash = hash_function(view.row_key, view.columns)
        coin = hash_function(view.coin_key, None)
        hashed = f"(SELECT *, {row_hash}({cells}) AS {hash_column} FROM {rows} AS r)"
        # Equal rows get numbers of their own, hence independent coins.
        rank = f"CAST(row_number() OVER (PARTITION BY {hash_column} ORDER BY {hash_column}) - 1 AS BIGINT)"
        ranked = f"(SELECT *, {rank} AS {rank_column} FROM {hashed} AS h)"
        rows = f"(SELECT {cells} FROM {ranked} AS k WHERE {coin}({hash_column}, {rank_column}) < {view.threshold})"
    return f"{rows} AS kept"


def _own_names(columns: Sequence[str]) -> tuple[str, str]:
    """Names for hash and rank that no column of the table has, lest a column of that name decide who is kept."""
    used = {name.lower() for name in columns}
    own = "gaussveil"
    while {f"{own}_hash", f"{own}_rank"} & used:
        own += "_own"
    return f"{own}_hash", f"{own}_rank"


def select_rows(
    view: View, rows: str, names: Names, columns: Sequence[str], order: Sequence[str]
) -> str:
    """The query for some columns of the kept rows, in any order or sorted with ties broken by all columns."""
    query = f"SELECT {names(columns or view.columns[:1])} FROM {rows}"
    if order:
        ties = [name for name in view.columns if name not in order]
        query += " ORDER BY " + ", ".join(
            f"{names([name])} ASC NULLS LAST" for name in (*order, *ties)
        )
    return query

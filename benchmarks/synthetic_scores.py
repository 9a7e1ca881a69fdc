"""How far a synthetic table lies from the private one: columns, pairs, and what a model learns from it."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

CELLS = 10  # of a column of numbers where pairs of columns are compared
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


def column_gap(real: pd.DataFrame, made: pd.DataFrame) -> float:
    """Mean Kolmogorov-Smirnov distance of the columns of numbers."""
    numbers = [name for name in real if pd.api.types.is_numeric_dtype(real[name])]
    return float(np.mean([ks_2samp(real[name], made[name]).statistic for name in numbers]))


def correlation_gap(real: pd.DataFrame, made: pd.DataFrame, method: str) -> float:
    """Mean distance of the correlations of all pairs of columns of numbers."""
    gap = real.corr(method, numeric_only=True) - made.corr(method, numeric_only=True)
    return float(np.abs(gap.to_numpy()[np.triu_indices(len(gap), 1)]).mean())


def places(real: pd.DataFrame, made: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Cells: values of categories; numbers between quantiles of the private table, single values that are frequent."""
    codes: list[dict[str, np.ndarray]] = [{}, {}]
    for name in real:
        if not pd.api.types.is_numeric_dtype(real[name]) or real[name].nunique() <= CELLS:
            values = pd.Index(real[name].unique())
            for place, table in enumerate((real, made)):
                codes[place][name] = values.get_indexer(table[name])
            continue
        edges = np.unique(np.quantile(real[name], np.arange(1, CELLS) / CELLS))
        for place, table in enumerate((real, made)):
            codes[place][name] = np.searchsorted(edges, table[name], side="left") * 2 + np.isin(table[name], edges)
    return pd.DataFrame(codes[0]), pd.DataFrame(codes[1])


def pair_gap(real: pd.DataFrame, made: pd.DataFrame) -> float:
    """Mean total variation of all pairs of columns."""
    first, second = places(real, made)
    gaps = []
    for pair in itertools.combinations(real.columns, 2):
        shares = [one.groupby(list(pair)).size() / len(one) for one in (first, second)]
        gaps.append(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)
    return float(np.mean(gaps))


def curve(made: pd.DataFrame, test: pd.DataFrame, label: str, boosted: bool) -> float:
    """Area under the curve on rows that nobody saw, of a model that learnt from the synthetic table."""
    both = pd.concat([made, test], ignore_index=True)
    target = pd.Categorical(both[label], categories=sorted(test[label].unique())).codes == 1
    inputs = both.drop(columns=label)
    words = [name for name in inputs if not pd.api.types.is_numeric_dtype(inputs[name])]
    if boosted:
        for name in words:
            inputs[name] = inputs[name].astype("category")
        model = HistGradientBoostingClassifier(random_state=0, categorical_features="from_dtype")
    else:
        inputs = pd.get_dummies(inputs, columns=words)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    count = len(made)
    if len(set(target[:count])) < 2:
        return 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(inputs[:count], target[:count])
        return float(roc_auc_score(target[count:], model.predict_proba(inputs[count:])[:, 1]))


def hour_gaps(real: pd.DataFrame, made: pd.DataFrame) -> tuple[float, float]:
    """Largest relative error of quantiles by hour, largest error of the correlation of neighbouring hours."""
    mine, theirs = (one.quantile(LEVELS).to_numpy() for one in (real, made))
    return float(np.abs(theirs / mine - 1).max()), near_gap(real, made, "pearson")


def near_gap(real: pd.DataFrame, made: pd.DataFrame, method: str) -> float:
    """Largest error of the correlation of neighbouring columns."""
    found = [np.diag(one.corr(method).to_numpy(), 1) for one in (real, made)]
    return float(np.abs(found[0] - found[1]).max())

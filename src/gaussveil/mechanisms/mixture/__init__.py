"""Private Gaussian mixtures: the estimator, passes over records or labels, what noisy sums become, the model."""

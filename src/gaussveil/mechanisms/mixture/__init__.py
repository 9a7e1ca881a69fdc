"""Private Gaussian mixtures: the estimator, passes over records, what noisy sums become, the model."""

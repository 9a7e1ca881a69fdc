"""Linear and logistic regression, covariance and principal components from bounded sums with Gaussian noise."""

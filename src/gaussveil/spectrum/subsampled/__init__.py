"""Gaussian noise on random batches (DP-SGD): mixtures of Gaussians on the same contour as pairs."""

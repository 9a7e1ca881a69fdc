"""Losses on a lattice: what has no Gaussian pair, composed by convolution."""

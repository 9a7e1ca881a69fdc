"""The study of Gaussian mixtures: the paper's settings, sweeps, and what released models are good for."""

"""Gaussian mixtures whose class labels are protected, and nothing else."""

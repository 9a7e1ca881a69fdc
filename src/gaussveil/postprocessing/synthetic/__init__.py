"""Synthetic tables: columns and their cells, marginals from noisy counts, dependence of scores, drawn rows."""

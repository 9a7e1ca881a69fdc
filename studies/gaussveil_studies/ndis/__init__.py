"""The study of random projections and posteriors: figures, bounds and the claims that do not hold."""

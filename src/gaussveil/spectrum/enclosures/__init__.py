"""Proven bounds: balls, intervals and exact sums where doubles cancel."""

"""Synthetic tables: what is public of the columns, the budget, the draws, the mechanism."""

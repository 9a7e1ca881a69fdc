"""Running totals: their strategy and what it hides, their noise, the totals that are released."""

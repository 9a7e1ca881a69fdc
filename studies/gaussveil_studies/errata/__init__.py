"""What the papers print and what became of it: one record per claim, each with a counterexample that is evaluated."""

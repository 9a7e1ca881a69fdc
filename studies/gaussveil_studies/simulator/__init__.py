"""How much the simulated town resembles real homes."""

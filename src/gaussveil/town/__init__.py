"""The demo: everything a utility would do, on a town of homes."""

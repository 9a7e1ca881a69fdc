"""The demo: everything a utility would do, on a town of homes; it uses what gaussveil offers to everybody."""

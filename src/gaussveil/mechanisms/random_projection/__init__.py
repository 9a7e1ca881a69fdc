"""Private sketches of a table: how much noise, the release, what a sketch can estimate."""

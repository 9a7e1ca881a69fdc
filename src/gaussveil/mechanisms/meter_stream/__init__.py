"""Private streams of one meter: designs, keyed noise, the recursion, the record of what was published."""

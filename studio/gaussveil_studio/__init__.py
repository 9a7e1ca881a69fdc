"""The studio: explore, release, keep the books and verify in a browser. No formula and no mechanism of its own."""

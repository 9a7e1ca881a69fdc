"""Figures, self-contained HTML reports, and the files that go with them. Nothing here decides anything."""

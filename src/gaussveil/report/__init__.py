"""Figures and self-contained HTML reports. Nothing here reads private data or decides anything."""

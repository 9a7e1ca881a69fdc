"""The study of private spectra and streams on the readings of one home."""

"""The papers' experiments and every refutation: a package beside the library, which never needs it."""

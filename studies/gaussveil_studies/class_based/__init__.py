"""The study of class-label noise: the synthetic setting and real homes."""

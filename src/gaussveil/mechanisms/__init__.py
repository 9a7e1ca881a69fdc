"""One mechanism per file; each releases a value with a certificate and debits its account before it draws."""

from gaussveil.mechanisms.gaussian import GaussianPlan, GaussianRelease

__all__ = ["GaussianPlan", "GaussianRelease"]

"""Answers from a table by group, with one unit's rows hidden, whole: request, noise, profiles, estimates, release."""

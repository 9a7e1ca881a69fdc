"""The kernel compiled by numba (extra `fast`): the formulas of `formulas`, walked pair by pair over NumPy arrays.

Nothing here is imported before it is needed, and nothing needs it: `acceleration` decides.
"""

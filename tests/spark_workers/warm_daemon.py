"""Spark's father of Python workers, who has read what they all need: each worker would read it anew for seconds.

Spark hands its own Python over in archives, and each task reads the lists of them again, once for each package it uses:
longer than all that tasks of tests do. The same code lies in the folder where it is installed.
"""

import gc
import sys
from importlib import import_module
from os.path import isfile

sys.path[:] = [place for place in sys.path if not isfile(place)]
sys.path_importer_cache.clear()

NEEDED = (
    *("pandas", "pyarrow", "pytest", "pyspark.worker", "gaussveil.engines.spark", "gaussveil.streaming.spark"),
    *("gaussveil.mechanisms.regression.linear", "gaussveil.mechanisms.table.release"),  # whose sums workers add up
)
if __name__ == "__main__":
    for name in NEEDED:
        import_module(name)
    gc.freeze()  # a worker looks for what can go after each of its tasks: not among all that was read here
    import_module("pyspark.daemon").manager()

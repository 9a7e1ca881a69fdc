"""Spark's father of Python workers, who has read what they all need: each worker would read it anew for seconds."""

from importlib import import_module

from pyspark.daemon import manager

if __name__ == "__main__":
    for name in ("pandas", "pyarrow", "gaussveil.engines.spark", "gaussveil.streaming.spark"):
        import_module(name)
    manager()

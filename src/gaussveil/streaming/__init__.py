"""Transport and durable state of meter streams: the gateway between meters and whoever may see private readings."""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)

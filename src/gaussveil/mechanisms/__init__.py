"""One mechanism per file; each releases a value with a certificate and debits its account before it draws.

Names are imported on first use: a gateway that streams readings need not load what fits mixtures.
"""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)

"""What is made of released and public values alone: estimates, error bars, models, forecasts.

Nothing here imports records, sources, noise, the ledger or a mechanism (`make lint`), so it costs no privacy, whatever
it does. Under adjacencies that protect labels alone, features are public: they come as arrays.
"""

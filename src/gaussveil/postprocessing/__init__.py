"""What is made of released and public values alone: estimates, error bars, models, forecasts.

Nothing here imports records, sources, noise, the ledger or a mechanism (`make lint`), so it costs no privacy and no
guarantee rests on it; what a statistic goes through before the noise stays in `mechanisms/`. Where labels alone are
protected, features are public: they come as arrays.
"""

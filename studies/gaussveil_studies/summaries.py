"""What each study is about, in a line: all that `gaussveil study list` needs."""

SUMMARIES = {
    "ndis": "NDIS (arXiv:2309.01243): Figure 2, bounds against exact, sketches, posteriors; every claim.",
    "class": "Class-based Gaussian mechanism: Figures 1-4, synthetic and Swiss homes, both sides; every claim.",
    "gmm": "Mixtures by KL minimisation: Figures 1-10, Table I, Example 3, all baselines; every claim.",
    "spectral": "Spectral privacy: Figures 1-6, Tables II-III, sweeps, the paper's parameters and ours; every claim.",
    "peers": "dp_accounting, autodp, prv_accountant, OpenDP, diffprivlib, gx2, Davies: promises, accuracy, speed.",
    "simulator": "Mean, quantiles and daily autocorrelation of simulated towns that played no part in the tuning.",
}

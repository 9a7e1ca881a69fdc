"""What each study is about, in a line: all that `gaussveil study list` needs."""

SUMMARIES = {
    "ndis": "NDIS (arXiv:2309.01243): Figure 2, bounds against exact, sketches, posteriors, refuted claims.",
    "class": "Class-based Gaussian mechanism: Figures 1-4, synthetic and Swiss homes, refuted claims.",
    "gmm": "Mixtures by KL minimisation: Figures 1-10 (synthetic, Iris, profiles, MNIST), Algorithm 1 refuted.",
    "spectral": "Spectral privacy: Figures 1-6, Tables II-III, the paper's parameters and ours, the stream refuted.",
    "peers": "dp_accounting, autodp, prv_accountant, OpenDP, diffprivlib, gx2, Davies: promises, accuracy, speed.",
    "simulator": "Mean, quantiles and daily autocorrelation of simulated towns that played no part in the tuning.",
}

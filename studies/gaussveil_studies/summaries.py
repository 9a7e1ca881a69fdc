"""What each study is about, in a line, and the real data it reads: all that `gaussveil study list` needs."""

SWISS_HOMES = "ch_homes_15min_kw.csv.gz"
SINGLE_HOME = "home_uci_5min_kw.csv.gz"
PROFILES = "profiles_12h_kw.csv.gz"
MNIST_FILES = tuple(
    f"mnist/{part}-{kind}-ubyte.gz"
    for part in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
)

SUMMARIES = {
    "ndis": "NDIS (arXiv:2309.01243): Figure 2, bounds against exact, sketches, posteriors; every claim.",
    "class": "Class-based Gaussian mechanism: Figures 1-4, synthetic and Swiss homes, both sides; every claim.",
    "gmm": "Mixtures by KL minimisation: Figures 1-10, Table I, Example 3, all baselines; every claim.",
    "spectral": "Spectral privacy: Figures 1-6, Tables II-III, sweeps, the paper's parameters and ours; every claim.",
    "peers": "dp_accounting, autodp, prv_accountant, OpenDP, diffprivlib, gx2, Davies: promises, accuracy, speed.",
    "simulator": "Mean, quantiles and daily autocorrelation of simulated towns that played no part in the tuning.",
}

FILES: dict[str, tuple[str, ...]] = {
    "class": (SWISS_HOMES,),
    "gmm": (*MNIST_FILES, PROFILES),
    "spectral": (SWISS_HOMES, SINGLE_HOME),
    "simulator": (SWISS_HOMES,),
}

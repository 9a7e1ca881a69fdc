/* Written by scripts/write_formulas.py from rules.py, formulas.py, reduction_rules.py; not to be edited. */

typedef struct { double at[5]; } Numbers;

typedef struct { Lanes at[5]; } Blocks;

#define NEWTON_STEPS (60)

CONSTANT double BENDS[] = {-0.3, 0.3, -0.9, 0.9};

#define BENDS_COUNT 4

CONSTANT double PENALTY[] = {1.0, 1.0, 1.25, 1.25};

#define PENALTY_COUNT 4

CONSTANT double PROBES[] = {3.0, 4.0, 5.2, 7.0, 9.5, 13.0, 18.0, 26.0, 40.0, 60.0, 90.0};

#define PROBES_COUNT 11

CONSTANT double TRAPEZOID_RULES[] = {47.0, 7.0, 94.0, 7.0, 87.0, 13.0, 160.0, 26.0, 640.0, 90.0, 4096.0, 90.0};

#define TRAPEZOID_RULES_COUNT 6

#define MANY (1000)

#define GRADIENT_HALF_RULE (1e-05)

#define GRADIENT_TAIL (1e-08)

#define DECAY (-36.7)

#define GROWTH (3.0)

#define RULE_ERROR (2e-12)

#define LARGE (-0.5)

#define STRETCH (1.4)

#define HALF_RULE_TOLERANCE (3e-09)

#define LEVER_TOLERANCE (3e-08)

#define MOMENT_TOLERANCE (1e-07)

#define SPLIT (134217729.0)

#define EXPONENT_ROUNDING (8.881784197001252e-16)

GV double cumulant_term(double order, double gap, double log_ratio, double multiplicity, double energy) {
    double spread = (1.0 + (order * gap));
    double exists = (spread > 0.0);
    double log_spread = log1p(choose(exists, (order * gap), 0.0));
    double mean_part = (((energy * order) * (1.0 + order)) / (2.0 * choose(exists, spread, 1.0)));
    double value = (mean_part - ((0.5 * multiplicity) * ((order * log_ratio) + log_spread)));
    return choose(exists, value, INFINITY);
}

GV Numbers slope_parts(double order, double gap, double log_ratio) {
    double inverse = (1.0 / (1.0 + (order * gap)));
    double square_ = (inverse * inverse);
    double lean_ = (gap * inverse);
    double square = square_;
    double lean = lean_;
    return MAKE(Numbers){{(((1.0 + (2.0 * order)) + ((order * order) * gap)) * square), (log_ratio + lean), (lean * lean), (inverse * square)}};
}

GV Blocks slope_parts_block(Lanes order, Lanes gap, Lanes log_ratio) {
    Lanes inverse = (1.0 / (1.0 + (order * gap)));
    Lanes square_ = (inverse * inverse);
    Lanes lean_ = (gap * inverse);
    Lanes square = square_;
    Lanes lean = lean_;
    return MAKE(Blocks){{(((1.0 + (2.0 * order)) + ((order * order) * gap)) * square), (log_ratio + lean), (lean * lean), (inverse * square)}};
}

GV double highest_order(double lowest_gap) {
    return choose((lowest_gap < 0.0), ((-1.0) / choose((lowest_gap < 0.0), lowest_gap, (-1.0))), INFINITY);
}

GV double lowest_order(double highest_gap) {
    return choose((highest_gap > 0.0), ((-1.0) / choose((highest_gap > 0.0), highest_gap, 1.0)), (-INFINITY));
}

GV double first_coordinate(double direction, double threshold, double inverse_reach, double slope, double curvature) {
    double drift = (direction * (slope - threshold));
    double root = hypot(drift, sqrt((6.0 * curvature)));
    double ahead_ = (3.0 / ((fabs(drift) + root) + 1e-300));
    double behind_ = ((root + fabs(drift)) / ((2.0 * curvature) + 1e-300));
    double ahead = ahead_;
    double behind = behind_;
    double distance = choose((drift > 0.0), ahead, behind);
    distance = smaller(distance, (0.9 / (inverse_reach + 1e-300)));
    return (-log(clip(((1.0 / distance) - inverse_reach), 1e-300, 1e+300)));
}

GV Numbers crossing(double base, double direction, double inverse_reach, double coordinate) {
    double decay = exp((-coordinate));
    double distance = (1.0 / (inverse_reach + decay));
    return MAKE(Numbers){{(base + (direction * distance)), distance, decay}};
}

GV Numbers forces(const double *poles, int pole_count, double centre, double force, double stiffness) {
    for (int place = 0; place < pole_count; place++) {
        double pole = poles[place];
        double offset = (1.0 / (centre - pole));
        double force_ = (force - offset);
        double stiffness_ = (stiffness + (offset * offset));
        force = force_;
        stiffness = stiffness_;
    }
    return MAKE(Numbers){{force, stiffness}};
}

GV Numbers newton_step(double direction, double inverse_reach, double distance, double decay, double force, double stiffness, double coordinate, double below, double above) {
    double arrived = (fabs(force) < (0.25 * sqrt(stiffness)));
    double stride = (((direction * distance) * distance) * decay);
    double balance = (force * stride);
    double below_ = choose((balance < 0.0), coordinate, below);
    double above_ = choose((balance > 0.0), coordinate, above);
    below = below_;
    above = above_;
    double gradient = (((stiffness * stride) * stride) + (balance * (1.0 - ((2.0 * distance) * inverse_reach))));
    double step = choose((gradient > 0.0), clip(((-balance) / gradient), (-4.0), 4.0), ((-4.0) * sign(balance)));
    double proposal = (coordinate + step);
    double middle = ((below + above) / 2.0);
    double outside = (((proposal <= below) || (proposal >= above)) && isfinite(middle));
    return MAKE(Numbers){{arrived, choose(outside, middle, proposal), below, above}};
}

GV double spread_at(double gap, double centre) {
    double product = (gap * centre);
    double gap_high = ((gap * SPLIT) - ((gap * SPLIT) - gap));
    double centre_high = ((centre * SPLIT) - ((centre * SPLIT) - centre));
    double gap_low_ = (gap - gap_high);
    double centre_low_ = (centre - centre_high);
    double gap_low = gap_low_;
    double centre_low = centre_low_;
    double error = (((((gap_high * centre_high) - product) + (gap_high * centre_low)) + (gap_low * centre_high)) + (gap_low * centre_low));
    return ((1.0 + product) + error);
}

GV Lanes spread_at_block(Lanes gap, Lanes centre) {
    Lanes product = (gap * centre);
    Lanes gap_high = ((gap * SPLIT) - ((gap * SPLIT) - gap));
    Lanes centre_high = ((centre * SPLIT) - ((centre * SPLIT) - centre));
    Lanes gap_low_ = (gap - gap_high);
    Lanes centre_low_ = (centre - centre_high);
    Lanes gap_low = gap_low_;
    Lanes centre_low = centre_low_;
    Lanes error = (((((gap_high * centre_high) - product) + (gap_high * centre_low)) + (gap_low * centre_high)) + (gap_low * centre_low));
    return ((1.0 + product) + error);
}

GV Numbers branch(double gap, double base, double offset, double imag) {
    double spread_ = (base + (offset * gap));
    double along_ = (imag * gap);
    double spread = spread_;
    double along = along_;
    return MAKE(Numbers){{spread, along, ((spread * spread) + (along * along))}};
}

GV Blocks branch_block(Lanes gap, Lanes base, Lanes offset, Lanes imag) {
    Lanes spread_ = (base + (offset * gap));
    Lanes along_ = (imag * gap);
    Lanes spread = spread_;
    Lanes along = along_;
    return MAKE(Blocks){{spread, along, ((spread * spread) + (along * along))}};
}

GV double log_square_near_one(double real, double gap, double along, double modulus, double log_modulus) {
    double across = (real * gap);
    return choose((modulus < 0.25), log_modulus, log1p(((across * (2.0 + across)) + (along * along))));
}

GV double later_growth(double gap, double log_ratio, double spread, double modulus) {
    double squared = choose((gap != 0.0), (gap * gap), 1.0);
    return choose((spread < 0.0), ((((-exp(log_ratio)) / (2.0 * squared)) * spread) / modulus), 0.0);
}

GV double log_size(double real, double imag, double drift, double log_modulus, double mean_real, double mean_imag) {
    double mean_part = ((((real * (1.0 + real)) - (imag * imag)) * mean_real) + ((imag * (1.0 + (2.0 * real))) * mean_imag));
    return (((0.5 * mean_part) - (0.25 * log_modulus)) - (real * drift));
}

GV Lanes log_size_block(Lanes real, Lanes imag, Lanes drift, Lanes log_modulus, Lanes mean_real, Lanes mean_imag) {
    Lanes mean_part = ((((real * (1.0 + real)) - (imag * imag)) * mean_real) + ((imag * (1.0 + (2.0 * real))) * mean_imag));
    return (((0.5 * mean_part) - (0.25 * log_modulus)) - (real * drift));
}

GV double log_phase(double real, double imag, double drift, double angle, double mean_real, double mean_imag) {
    double mean_part = (((imag * (1.0 + (2.0 * real))) * mean_real) - (((real * (1.0 + real)) - (imag * imag)) * mean_imag));
    return (((0.5 * mean_part) - (0.5 * angle)) - (imag * drift));
}

GV Lanes log_phase_block(Lanes real, Lanes imag, Lanes drift, Lanes angle, Lanes mean_real, Lanes mean_imag) {
    Lanes mean_part = (((imag * (1.0 + (2.0 * real))) * mean_real) - (((real * (1.0 + real)) - (imag * imag)) * mean_imag));
    return (((0.5 * mean_part) - (0.5 * angle)) - (imag * drift));
}

GV Numbers place(double position, double bend, double width) {
    double grow = (0.5 * exp(position));
    double rise_ = (grow - (0.25 / grow));
    double swing_ = (grow + (0.25 / grow));
    double rise = rise_;
    double swing = swing_;
    return MAKE(Numbers){{rise, swing, (width * (bend * (swing - 1.0))), (width * rise)}};
}

GV double decayed(double level, double growth) {
    return ((level + growth) < DECAY);
}

GV double grown(double level) {
    return ((level > GROWTH) || (level != level));
}

GV double shortened(double extent, double depth) {
    return asinh((sinh(extent) * sqrt(clip((DECAY / depth), 0.0, 1.0))));
}

GV Numbers polar(double log_relative, double phase) {
    double size = exp(log_relative);
    return MAKE(Numbers){{(size * cos(phase)), (size * sin(phase))}};
}

GV Numbers node(double bend, double rise, double swing, double real, double imag, double cosine, double sine) {
    double tilt = (bend * rise);
    double tilted = ((((cosine * real) - (sine * imag)) * swing) + (((sine * real) + (cosine * imag)) * tilt));
    return MAKE(Numbers){{((cosine * swing) + (sine * tilt)), tilted}};
}

GV Blocks node_block(Lanes bend, Lanes rise, Lanes swing, Lanes real, Lanes imag, Lanes cosine, Lanes sine) {
    Lanes tilt = (bend * rise);
    Lanes tilted = ((((cosine * real) - (sine * imag)) * swing) + (((sine * real) + (cosine * imag)) * tilt));
    return MAKE(Blocks){{((cosine * swing) + (sine * tilt)), tilted}};
}

GV double exponent_rounding(double threshold, double centre, double drift, double mean_sum) {
    double mean_part = ((0.5 * fabs((centre * (1.0 + centre)))) * mean_sum);
    return (EXPONENT_ROUNDING * ((fabs(centre) * ((0.5 * drift) + fabs(threshold))) + mean_part));
}

GV Numbers verdict(double direction, double fine, double coarse, double lever, double coarse_lever, double moment, double coarse_moment, double tail, double rounding, double peak, double centre, double width, double step) {
    double magnitude = fabs(fine);
    double turned = ((moment - coarse_moment) - (centre * (fine - coarse)));
    double settled = (((((fabs((fine - coarse)) <= ((HALF_RULE_TOLERANCE + (4.0 * rounding)) * magnitude)) && (fabs((lever - coarse_lever)) <= ((LEVER_TOLERANCE + (100.0 * rounding)) * magnitude))) && (fabs(turned) <= ((MOMENT_TOLERANCE + (100.0 * rounding)) * (width * magnitude)))) && (tail <= ((1e-14 + rounding) * magnitude))) && (sign(fine) == direction));
    double log_value = (peak + log(((choose((magnitude > 0.0), magnitude, 1.0) * (step * width)) / 3.141592653589793)));
    double slope = ((-moment) / choose((fine != 0.0), fine, 1.0));
    return MAKE(Numbers){{log_value, slope, choose(settled, (RULE_ERROR + rounding), INFINITY)}};
}

GV double looks_large(double threshold, double centre, double width, double cumulant) {
    return (((cumulant - (centre * threshold)) + log((width / (centre * (1.0 + centre))))) > LARGE);
}

GV Numbers from_complement(double missing, double slope, double error) {
    double highest = (missing + error);
    double bounded = (highest < 0.0);
    double steepest = (exp(highest) / (-expm1(choose(bounded, highest, (-1.0)))));
    missing = choose((missing > 0.0), 0.0, missing);
    double odds = (exp(missing) / (-expm1(missing)));
    double value = choose(bounded, log1p((-exp(missing))), 0.0);
    return MAKE(Numbers){{value, ((-odds) * slope), choose(bounded, (steepest * error), INFINITY)}};
}

#define SYMMETRY_TOLERANCE (1e-10)

#define UNIT_ROUNDOFF (1.1102230246251565e-16)

#define WIDE_RATIO (0.0001)

GV double scale_of(double variance) {
    return exp2((-rint((log2(variance) / 2.0))));
}

GV double agree(double entry, double mirrored, double variance, double other_variance) {
    double allowed = ((SYMMETRY_TOLERANCE * sqrt(fabs(variance))) * sqrt(fabs(other_variance)));
    return (fabs((entry - mirrored)) <= allowed);
}

GV double definite(double pivot, double dimension) {
    return (pivot > ((4.0 * dimension) * UNIT_ROUNDOFF));
}

GV double is_noise(double value, double largest, double dimension) {
    return (fabs(value) < (((4.0 * dimension) * UNIT_ROUNDOFF) * largest));
}

GV double log_ratio_of(double gap) {
    return log1p((-choose((gap < (1.0 - UNIT_ROUNDOFF)), gap, (1.0 - UNIT_ROUNDOFF))));
}

GV double spans_decades(double lowest_gap, double highest_gap) {
    double ratio = (1.0 - lowest_gap);
    return ((1.0 - highest_gap) < (WIDE_RATIO * choose((ratio > 1.0), ratio, 1.0)));
}

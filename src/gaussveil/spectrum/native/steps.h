/* StepSums over the outputs of steps on random batches (derived: docs/math/subsampled; in arrays: subsampled/).

Of a loss L at each of many points, with weights: sums of w (e^(inx) - 1) at n = first, first + 1, ..., x the loss times
a spacing, in doubles; and sums of w e^(inx) in pairs of doubles, with nothing but products and sums that are exact. */

typedef struct {
    const double *points; /* `rows` columns of `size` numbers */
    const double *orders; /* at which means are asked for, `count` of them */
    double *found;
    long long rows, size, count;
    double noise, rate, replace, backward, log_rest, knee, edge, cap; /* of a step; log_rest: log(1 - rate) */
    double first;                                                     /* node of turned sums */
    double order;                                                     /* at which a step's moments are asked for */
    double low_cap, tilt, missing, between, peak;                     /* of a line of a band */
    double epsilon, log_delta, steps, digits, ending;                 /* of what is asked; steps: how many */
    double negligible, start, reach;                                  /* of the search for a tilt */
} StepSums;

#define SIDE 4 /* blocks of lanes that turn side by side */
#define CHUNK (8 * SIDE)
#define BLOCKED 32 /* nodes from one turn of a whole block to the next */
#define ANCHORED 8 /* blocks from one sine to the next */

/* e^(i angle) - 1 without cancellation. */
static void turn_less_one(double angle, double *real, double *imag) {
    double half = sin(0.5 * angle);
    *real = -2 * half * half, *imag = 2 * half * cos(0.5 * angle);
}

/* Real and imaginary parts of both sums, of two weights and the angle of each point; false without memory. */
GV int turned_sums(const double *points, long long size, double start, long long count, double *found) {
    enum { WEIGHT, OTHER, REAL, IMAG, WHOLE_REAL, WHOLE_IMAG, BEGUN_REAL, BEGUN_IMAG, COLUMNS };
    long long blocks = (BLOCKS(size) + SIDE - 1) / SIDE * SIDE;
    const double *angle = points + 2 * size;
    Lanes *room = aligned_alloc(sizeof(Lanes), sizeof(Lanes) * (COLUMNS * blocks + 4 * BLOCKED));
    if (!room) return 0;
    Lanes *column[COLUMNS], *sums = room + COLUMNS * blocks;
    double *flat[COLUMNS];
    memset(room, 0, sizeof(Lanes) * COLUMNS * blocks);
    for (int i = 0; i < COLUMNS; i++) column[i] = room + i * blocks, flat[i] = (double *)column[i];
    for (long long j = 0; j < size; j++) {
        flat[WEIGHT][j] = points[j], flat[OTHER][j] = points[size + j];
        turn_less_one(angle[j], flat[REAL] + j, flat[IMAG] + j);
        turn_less_one(BLOCKED * angle[j], flat[WHOLE_REAL] + j, flat[WHOLE_IMAG] + j);
    }
    for (long long from = 0, block = 0; from < count; from += BLOCKED, block++) {
        long long nodes = count - from < BLOCKED ? count - from : BLOCKED;
        if (block % ANCHORED == 0)
            for (long long j = 0; j < size; j++)
                turn_less_one((start + from) * angle[j], flat[BEGUN_REAL] + j, flat[BEGUN_IMAG] + j);
        for (int part = 0; part < 4; part++)
            for (long long n = 0; n < nodes; n++) found[part * count + from + n] = 0;
        for (long long chunk = 0; chunk < blocks; chunk += CHUNK) { /* sums of sums are rounded less */
            memset(sums, 0, sizeof(Lanes) * 4 * BLOCKED);
            for (long long j = chunk; j < blocks && j < chunk + CHUNK; j += SIDE) {
                Lanes weight[SIDE], other[SIDE], real[SIDE], imag[SIDE], turn[SIDE], turned[SIDE];
                for (int k = 0; k < SIDE; k++) {
                    Lanes by = column[WHOLE_REAL][j + k], up = column[WHOLE_IMAG][j + k];
                    real[k] = column[BEGUN_REAL][j + k], imag[k] = column[BEGUN_IMAG][j + k];
                    column[BEGUN_REAL][j + k] = real[k] + (by + (real[k] * by - imag[k] * up));
                    column[BEGUN_IMAG][j + k] = imag[k] + (up + (real[k] * up + imag[k] * by));
                    weight[k] = column[WEIGHT][j + k], other[k] = column[OTHER][j + k];
                    turn[k] = column[REAL][j + k], turned[k] = column[IMAG][j + k];
                }
                for (Lanes *sum = sums; sum < sums + 4 * nodes; sum += 4) {
                    Lanes first = sum[0], second = sum[1], third = sum[2], fourth = sum[3];
                    for (int k = 0; k < SIDE; k++) {
                        first += weight[k] * real[k], second += weight[k] * imag[k];
                        third += other[k] * real[k], fourth += other[k] * imag[k];
                        Lanes next = real[k] + (turn[k] + (real[k] * turn[k] - imag[k] * turned[k]));
                        imag[k] = imag[k] + (turned[k] + (real[k] * turned[k] + imag[k] * turn[k])), real[k] = next;
                    }
                    sum[0] = first, sum[1] = second, sum[2] = third, sum[3] = fourth;
                }
            }
            for (long long n = 0; n < nodes; n++)
                for (int part = 0; part < 4; part++) {
                    double total = 0;
                    EACH(lane) total += sums[4 * n + part][lane];
                    found[part * count + from + n] += total;
                }
        }
    }
    free(room);
    return 1;
}

/* points: two weights and the angle of each point; found: real and imaginary parts of both sums. */
ENTRY(turned, StepSums) {
    return !turned_sums(job->points, job->size, job->first, job->count, job->found);
}

/* --- Sums in pairs of doubles

(x + x')(y + y') as p + r is off by at most 10 2^-106 |xy|, so that a turn of a point on the unit circle, renormalised,
moves it by less than 2^-100 more. Products and sums are made in functions apart, as in proofs.h. */

#define SPAN 64

static APART void twin_products(int size, const double *x, const double *less_x, const double *y, const double *less_y,
                                double *restrict p, double *restrict r) {
    for (int j = 0; j < size; j++) p[j] = x[j] * y[j], r[j] = fma(x[j], y[j], -p[j]) + (x[j] * less_y[j] + less_x[j] * y[j]);
}

static APART void twin_sums(int size, const double *p, const double *r, const double *q, const double *s,
                            double *restrict hi, double *restrict lo) {
    for (int j = 0; j < size; j++) {
        double total = p[j] + q[j], part = total - p[j], less = (p[j] - (total - part)) + (q[j] - part) + (r[j] + s[j]);
        hi[j] = total + less, part = hi[j] - total;
        lo[j] = (total - (hi[j] - part)) + (less - part);
    }
}

/* Adds the sum of all p + r to one hi + lo. */
static APART void twin_total(const double *p, const double *r, double *hi, double *lo) {
    double high[8] = {0}, low[8] = {0};
    for (int j = 0; j < SPAN; j += 8)
        for (int k = 0; k < 8; k++) {
            double total = high[k] + p[j + k], part = total - high[k];
            low[k] += ((high[k] - (total - part)) + (p[j + k] - part)) + r[j + k];
            high[k] = total;
        }
    for (int k = 0; k < 8; k++) {
        add(1, high + k, hi, lo);
        *lo += low[k];
    }
}

/* points: two weights, cosine and sine of the angle, each as hi and lo; found: the real and imaginary parts of the sums
of w e^(in angle), each as hi and lo. */
ENTRY(twice_turned, StepSums) {
    long long size = job->size, count = job->count;
    double in[8][SPAN], state[4][SPAN], p[2][SPAN], r[2][SPAN], minus[2][SPAN], turned[2][SPAN];
    for (long long i = 0; i < 8 * count; i++) job->found[i] = 0;
    for (long long first = 0; first < size; first += SPAN) {
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < SPAN; j++) in[i][j] = first + j < size ? job->points[i * size + first + j] : 0;
        for (int j = 0; j < SPAN; j++) state[0][j] = 1, state[1][j] = state[2][j] = state[3][j] = 0;
        for (long long n = 0; n < count; n++) {
            for (int part = 0; part < 4; part++) {
                double *hi = job->found + 2 * part * count + n;
                int weight = part & 2, of = 2 * (part & 1);
                twin_products(SPAN, in[weight], in[weight + 1], state[of], state[of + 1], p[0], r[0]);
                twin_total(p[0], r[0], hi, hi + count);
            }
            for (int j = 0; j < SPAN; j++) minus[0][j] = -state[2][j], minus[1][j] = -state[3][j];
            twin_products(SPAN, state[0], state[1], in[4], in[5], p[0], r[0]);
            twin_products(SPAN, minus[0], minus[1], in[6], in[7], p[1], r[1]);
            twin_sums(SPAN, p[0], r[0], p[1], r[1], turned[0], turned[1]);
            twin_products(SPAN, state[0], state[1], in[6], in[7], p[0], r[0]);
            twin_products(SPAN, state[2], state[3], in[4], in[5], p[1], r[1]);
            twin_sums(SPAN, p[0], r[0], p[1], r[1], state[2], state[3]);
            memcpy(state, turned, sizeof turned);
        }
    }
    return 0;
}

/* --- One step: its losses, windows, and moments at real orders */

static double log_density(const StepSums *step, double z) {
    double exponent = z / step->noise - 0.5 / (step->noise * step->noise);
    if (!(z > step->knee)) return log1p(step->rate * expm1(exponent));
    double linear = exponent + log(step->rate);
    return linear + log1p(exp(step->log_rest - linear));
}

/* A and B of the direction. */
static void step_logs(const StepSums *step, double z, double *first, double *second) {
    double one = log_density(step, z), other = step->replace ? log_density(step, -z) : 0;
    *first = step->backward ? other : one, *second = step->backward ? one : other;
}

static double normal(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }

static double log_normal(double x) {
    if (x > 5) return log1p(-normal(-x));
    if (x > -20) return log(normal(x));
    double square = 1 / (x * x), series = 1;
    for (int k = 12; k > 0; k--) series = 1 - (2 * k - 1) * square * series;
    return -0.5 * x * x - log(-x) - 0.5 * log(2 * M_PI) + log(series);
}

static double log_weight(const StepSums *step, double z) {
    double value = -0.5 * z * z;
    if (!(step->cap < INFINITY)) return value;
    value += log_normal((step->cap - z) / step->edge);
    return step->replace ? value + log_normal((step->cap + z) / step->edge) : value;
}

/* The windows up to the cap and between both caps. */
static void windows(const StepSums *step, double low, double z, double *whole, double *inside) {
    double top = (step->cap - z) / step->edge, bottom = (low - z) / step->edge;
    *whole = normal(top);
    *inside = top + bottom > 0 ? normal(-bottom) - normal(-top) : normal(top) - normal(bottom);
}

/* points: z; found: A, A - B, and the logs of both windows. */
ENTRY(points, StepSums) {
    const StepSums *step = job;
    for (long long j = 0; j < job->size; j++) {
        double *found = job->found + j, second, whole, inside;
        step_logs(step, job->points[j], found, &second);
        windows(step, step->low_cap, job->points[j], &whole, &inside);
        found[job->count] = *found - second;
        found[2 * job->count] = log(whole), found[3 * job->count] = log(inside);
    }
    return 0;
}

typedef struct {
    double log_moment, share, mean, inside, last, largest;
} Means;

/* `Points.means` at an order, of log weights, losses, shares of the band and their logs. */
static Means means_at(const double *points, long long size, double order, double *terms) {
    const double *base = points, *loss = base + size, *share = loss + size, *logs = share + size;
    double top = -INFINITY, largest = -INFINITY, total = 0, part = 0, mean = 0, inside = 0;
    for (long long j = 0; j < size; j++) {
        terms[j] = base[j] + order * loss[j];
        top = fmax(top, terms[j]), largest = fmax(largest, terms[j] + logs[j]);
    }
    for (long long j = 0; j < size; j++) {
        if (terms[j] < top - 745) continue;
        double term = exp(terms[j] - top), within = term * share[j];
        total += term, part += within, mean += term * loss[j], inside += within * loss[j];
    }
    Means found = {top + log(total), part / total, mean / total, part > 0 ? inside / part : mean / total};
    found.last = terms[size - 1] + logs[size - 1], found.largest = largest;
    return found;
}

/* points: as above; found, for each order: the means. */
ENTRY(means, StepSums) {
    double *terms = malloc(sizeof(double) * job->size);
    if (!terms) return 1;
    for (long long i = 0; i < job->count; i++) {
        Means at = means_at(job->points, job->size, job->orders[i], terms);
        double row[] = {at.log_moment, at.share, at.mean, at.inside, at.last, at.largest};
        for (int k = 0; k < 6; k++) job->found[k * job->count + i] = row[k];
    }
    free(terms);
    return 0;
}

#define REACH 9.5
#define KNOWN 4.5
#define TILTED 3.0
#define LARGEST_APART 40.0 /* an exponent beyond which e^exponent - 1 is e^exponent */
#define CELLS 256
#define WIDE_LOOK 64 /* a wider interval that a look has halved is looked at again */
#define LOOKS 60

/* Where e^((1+s)A - sB) times the normal density is not negligible: `Step._range`. */
static void step_range(const StepSums *step, double order, double *low, double *high) {
    double weight = step->backward ? -order : 1 + order, noise = step->noise, far = REACH + 1 / noise;
    if (weight < 0 && !step->replace) {
        double from = weight / noise, to = 0, mode = 0;
        for (int i = 0; i < 50; i++) {
            double x = -(mode = 0.5 * (from + to)) / noise + step->knee / noise, slope = (x < 700 ? 1 / (1 + exp(x)) : 1e-304) / noise;
            if (mode > weight * slope) to = mode;
            else from = mode;
        }
        *low = mode - REACH, *high = mode + REACH;
    } else {
        double reach = fmax(weight, fabs(order)) / noise, sizes[CELLS + 1], top = -INFINITY;
        reach += sqrt(fmax(reach * reach - 2 * reach * fmin(step->knee, 0), 0)) + REACH;
        reach = fmin(reach, step->cap + REACH);
        *low = step->replace ? -reach : -REACH, *high = reach;
        for (int look = 0; look < LOOKS; look++) {
            double begin = *low, before = *high - begin, apart = before / CELLS, first, second;
            int from = -1, to = -1;
            top = -INFINITY;
            for (int j = 0; j <= CELLS; j++) {
                step_logs(step, begin + j * apart, &first, &second);
                sizes[j] = order * (first - second) + first + log_weight(step, begin + j * apart);
                top = fmax(top, sizes[j]);
            }
            for (int j = 0; j <= CELLS; j++)
                if (sizes[j] >= top - 0.5 * REACH * REACH) to = j, from = from < 0 ? j : from;
            *low = begin + (from > 0 ? from - 1 : 0) * apart, *high = begin + (to < CELLS ? to + 1 : CELLS) * apart;
            if (*high - *low < WIDE_LOOK || *high - *low > 0.5 * before) break;
        }
    }
    if (step->replace) *low = fmin(*low, -far), *high = fmax(*high, far);
    else {
        double before = *low;
        if (before < KNOWN - REACH) *low = fmin(before, -REACH);
        if (*high > REACH - KNOWN) *high = fmax(*high, far);
    }
}

/* e^weight (e^exponent - 1), also where e^exponent alone would leave the doubles: an output may be as rare as its moment is large. */
static double weighted_excess(double weight, double exponent) {
    return exponent > LARGEST_APART ? exp(weight + exponent) : exp(weight) * expm1(exponent);
}

/* found: K, K', K'' at a real order: `Step.real_moments`. */
ENTRY(tilted, StepSums) {
    const StepSums *step = job;
    double order = step->order, digits = step->digits, low, high;
    step_range(step, order, &low, &high);
    double bend = 1 + (step->cap < high + REACH ? 1 / (step->edge * step->edge) : 0);
    double strip = fmin(M_PI * 0.95 * step->noise, sqrt(2 * digits / bend));
    double spacing = 2 * M_PI * strip / (digits + 0.5 * bend * strip * strip), shift = log(spacing / sqrt(2 * M_PI));
    int known = (high - low) / spacing < 1e8;
    long long size = known ? ceil((high - low) / spacing) : 0;
    double *room = malloc(sizeof(double) * 3 * (size > 0 ? size : 1)), top = -INFINITY, excess = 0;
    if (!room) return 1;
    for (long long j = 0; j < size; j++) {
        double z = low + j * spacing, second, *first = room + j, weight = log_weight(step, z) + shift;
        step_logs(step, z, first, &second);
        room[size + j] = *first - second, room[2 * size + j] = order * (*first - second) + *first + weight;
        top = fmax(top, room[2 * size + j]);
        excess += weighted_excess(weight, order * (*first - second) + *first) - (1 + order) * weighted_excess(weight, *first) +
                  order * weighted_excess(weight, second);
    }
    double total = 0, mean = 0, variance = 0;
    for (long long j = 0; j < size; j++) total += room[2 * size + j] = exp(room[2 * size + j] - top);
    for (long long j = 0; j < size; j++) mean += room[2 * size + j] * room[size + j];
    mean /= total;
    for (long long j = 0; j < size; j++) variance += room[2 * size + j] * (room[size + j] - mean) * (room[size + j] - mean);
    job->found[0] = top > TILTED ? top + log(total) : log1p(excess);
    job->found[1] = mean, job->found[2] = variance / total;
    free(room);
    return 0;
}

/* --- A line of a band of one step: `double_band.DoubleBand`, and `double_band_step.DoubleBandStep` for its points */

#define STRIP_COUNT 6
#define STEP_UNIT 0x1p-53
#define MOST_POINTS 100000
#define FIRST_BLOCKS 8

typedef struct {
    const StepSums *step;                                                        /* numbers of the step */
    double low_cap, c, epsilon, count, missing, between, digits, peak, ending; /* and of the line */
    const double *z, *base, *loss, *whole, *inside;                            /* coarse points */
    long long size;
    double strips[STRIP_COUNT], grown[STRIP_COUNT], *turned; /* of points: |Im L| on each strip */
    double *shrunk; /* and the log of what e^(-cB) grows by there */
    long long first, last;     /* of points whose terms count */
    double low, high, *excess; /* ends of outputs; by how much the larger of both terms is below its top */
} BandLine;

static void prepare_line(BandLine *line) {
    static const double strips[STRIP_COUNT] = {0.06, 0.15, 0.3, 0.5, 0.75, 0.98};
    const StepSums *step = line->step;
    double tops[2] = {-INFINITY, -INFINITY};
    for (int k = 0; k < STRIP_COUNT; k++) {
        double strip = line->strips[k] = strips[k] * fmin(0.5 * M_PI * step->noise, 4), turn = strip / step->noise;
        double sine = sin(turn), cosine = cos(turn);
        line->grown[k] = 0.5 * strip * strip * (1 + 1 / (step->edge * step->edge));
        for (long long j = 0; j < line->size; j++) {
            double total = 0, shrunk = 0;
            for (int side = 0; side < (step->replace ? 2 : 1); side++) {
                double share = 1 / (1 + exp(-((side ? -line->z[j] : line->z[j]) - step->knee) / step->noise));
                total += atan2(share * sine, 1 - share + share * cosine);
                if (step->backward || side) shrunk = -0.5 * line->c * log1p(-2 * share * (1 - share) * (1 - cosine));
            }
            line->turned[k * line->size + j] = total, line->shrunk[k * line->size + j] = shrunk;
        }
    }
    for (long long j = 0; j < line->size; j++) {
        double size = line->base[j] + line->c * line->loss[j];
        tops[0] = fmax(tops[0], size + line->whole[j]), tops[1] = fmax(tops[1], size + line->inside[j]);
    }
    long long first = -1, last = -1;
    for (long long j = 0; j < line->size; j++) {
        double size = line->base[j] + line->c * line->loss[j];
        line->excess[j] = fmax(size + line->whole[j] - tops[0], size + line->inside[j] - tops[1]);
        if (line->excess[j] >= -0.5 * REACH * REACH) last = j, first = first < 0 ? j : first;
    }
    line->first = first > 0 ? first - 1 : 0, line->last = last + 1 < line->size ? last + 1 : line->size - 1;
    line->low = fmin(line->z[line->first], -REACH);
    line->high = fmax(line->z[line->last], fmin(REACH, line->z[line->size - 1]));
}

/* `Points.spacing`. */
static double line_spacing(const BandLine *line, double height) {
    double found = 0;
    for (int k = 0; k < STRIP_COUNT; k++) {
        double cost = -INFINITY;
        for (long long j = line->first; j <= line->last; j++)
            cost = fmax(cost, line->excess[j] + height * line->turned[k * line->size + j] + line->shrunk[k * line->size + j]);
        found = fmax(found, 2 * M_PI * line->strips[k] / (line->ending + log(line->count) + cost + line->grown[k]));
    }
    return found;
}

/* `Points.height`. */
static double line_height(const BandLine *line, double *terms) {
    double top = -INFINITY, total = 0, mean = 0, height = 0;
    for (long long j = 0; j < line->size; j++)
        top = fmax(top, terms[j] = line->base[j] + line->c * line->loss[j] + line->inside[j]);
    for (long long j = 0; j < line->size; j++) {
        terms[j] = terms[j] > top - line->digits - 3 ? exp(terms[j] - top) : 0;
        total += terms[j], mean += terms[j] * fabs(line->loss[j]);
    }
    for (int i = 0; i < 20; i++) {
        height = pow(1e6, i / 19.0) / fmax(mean / total, 1e-300);
        for (int k = 1; k < STRIP_COUNT; k += 2) {
            double sum = 0;
            for (long long j = 0; j < line->size; j++)
                if (terms[j] > 0) sum += terms[j] * exp(-height * line->turned[k * line->size + j]);
            if (log(sum / total + 1e-300) + line->grown[k] < -line->digits) return height;
        }
    }
    return height;
}

static double complex log_one_plus(double complex z) {
    double real = creal(z), imag = cimag(z), beyond = 2 * real + real * real + imag * imag;
    return CMPLX(beyond < -0.9 ? log(hypot(1 + real, imag)) : 0.5 * log1p(beyond), atan2(imag, 1 + real));
}

static int finite_parts(double complex z) { return isfinite(creal(z)) && isfinite(cimag(z)); }

/* `DoubleBand._block`: points, weights, moments and what is gone below the band.
K and its rounding at `nodes` nodes from `first` on, none larger than `most` (the first of the line, if not known yet):
1, or 0 where it takes too many points, -1 without memory. */
GV int line_block(const BandLine *line, long long first, long long nodes, const double *most, double *value, double *phase, double *rounding) {
    double apart = line_spacing(line, (first + nodes - 1) * line->between), c = line->c;
    if (!(line->high - line->low < MOST_POINTS * apart)) return 0;
    long long size = ceil((line->high - line->low) / apart);
    double *points = malloc(sizeof(double) * (3 * size + 4 * nodes)), *sums = points + 3 * size;
    if (!points) return -1;
    double start = -line->missing, inner = 0, errors[4] = {0, 0, 0, 0}, share = log(apart / sqrt(2 * M_PI));
    for (long long j = 0; j < size; j++) {
        double z = line->low + j * apart, first_log, second, whole, inside;
        step_logs(line->step, z, &first_log, &second);
        windows(line->step, line->low_cap, z, &whole, &inside);
        double density = exp(share - 0.5 * z * z), loss = first_log - second, exponent = first_log + c * loss;
        double far = fabs(first_log) + fabs(second), size_here = fabs(first_log) + c * far, tilted = exp(exponent);
        double grown = density * whole * fmax(tilted, 1);
        points[j] = density * whole * tilted, points[size + j] = density * inside * tilted;
        points[2 * size + j] = line->between * loss;
        double excess = density * whole * expm1(exponent);
        start += excess, inner += points[size + j];
        errors[0] += grown * size_here + fabs(excess), errors[1] += grown * far;
        errors[2] += points[size + j] * (1 + size_here), errors[3] += points[size + j] * far;
    }
    if (!turned_sums(points, size, first, nodes, sums)) return free(points), -1;
    for (long long n = 0; n < nodes; n++) {
        double last = ((first + n) / BLOCKED * BLOCKED + BLOCKED - 1) * line->between, unit = 8 * STEP_UNIT;
        double complex above = CMPLX(sums[n] + start, sums[nodes + n]);
        double complex part = CMPLX(sums[2 * nodes + n] + inner, sums[3 * nodes + n]);
        double size_here = cabs(1 + above);
        double complex within = part / (1 + above), kept = log_one_plus(-within);
        double error = 3 * unit * (errors[0] + last * errors[1]) / size_here;
        double away = unit * (errors[2] + last * errors[3]) / size_here + cabs(within) * error, left = cabs(1 - within), moved = away / left;
        if (!(line->count * away < 0.05 * left)) kept = log(left + away), moved = 2 / line->count; /* but rounding is below the band */
        if (!(line->low_cap > -INFINITY)) moved = 0, kept = -INFINITY; /* nothing is below the last band */
        if (!finite_parts(kept)) kept = -1e3;
        kept *= line->count;
        double half = sin(0.5 * cimag(kept)), size_kept = exp(creal(kept));
        double complex gone = -CMPLX(expm1(creal(kept)) - 2 * size_kept * half * half, size_kept * 2 * half * cos(0.5 * cimag(kept)));
        double complex all = line->count * log_one_plus(above) + CMPLX(log(cabs(gone)), carg(gone));
        error = line->count * (error + moved * size_kept / cabs(gone));
        int known = finite_parts(all) && isfinite(error);
        value[n] = known ? creal(all) : first + n ? *most : 0, phase[n] = known ? cimag(all) : 0, rounding[n] = known ? error : first + n ? 1 : INFINITY;
    }
    free(points);
    return 1;
}

/* points: z, A, L and the logs of both weights at coarse points; found: K and its rounding at nodes, and their number,
-1 where they would be too many. */
ENTRY(line, StepSums) {
    long long size = job->size, room = job->count, first = 0;
    double *columns = malloc(sizeof(double) * (2 * STRIP_COUNT + 2) * size), *terms = columns + (2 * STRIP_COUNT + 1) * size;
    if (!columns) return 1;
    BandLine line = {job, job->low_cap, job->tilt, job->epsilon, job->steps, job->missing, job->between, job->digits, job->peak, job->ending,
                     job->points, job->points + size, job->points + 2 * size, job->points + 3 * size, job->points + 4 * size, size};
    line.turned = columns, line.shrunk = columns + STRIP_COUNT * size, line.excess = line.shrunk + STRIP_COUNT * size;
    prepare_line(&line);
    double foreseen = 0.6 * line_height(&line, terms) / (BLOCKED * line.between), *found = job->found, *nodes = found + 3 * room;
    long long rows = fmin(fmax(foreseen, 2), FIRST_BLOCKS);
    int done = 0, failed = 0;
    *nodes = -1;
    while (!done && BLOCKED * (first + rows) <= room) {
        long long from = BLOCKED * first;
        int got = line_block(&line, from, BLOCKED * rows, found, found + from, found + room + from, found + 2 * room + from);
        failed = got < 0;
        if (got <= 0) break;
        for (long long block = first; block < first + rows && !done; block++) {
            done = 1;
            for (long long n = BLOCKED * block; n < BLOCKED * (block + 1); n++) {
                double height = n * line.between, logs = log(hypot(line.c, height)) + log(hypot(1 + line.c, height));
                double fallen = found[n] - line.c * line.epsilon - logs - line.peak;
                done = done && (fallen < 1 - line.digits || found[2 * room + n] > 0.1);
            }
            if (done) *nodes = BLOCKED * (block + 1);
        }
        first += rows, rows = first;
    }
    free(columns);
    return failed;
}

/* --- The tilt of a band of one step: `Band.saddle` */

/* log of the band's moment, its slope, and log of the moment of all up to the cap, at a real order: `Band.real`. */
static void band_real(const StepSums *job, double order, const Means *at, double *value, double *slope, double *whole) {
    double count = job->steps, epsilon = job->epsilon, level = job->log_delta, ending = job->ending;
    double share = fmin(at->share, 1 - STEP_UNIT), kept = count * log1p(-share), gone = fmax(-expm1(kept), 1e-300);
    double rise = at->last > at->largest - ending ? at->last - at->log_moment + log(count) : -INFINITY;
    *whole = count * at->log_moment, *value = *whole + log(gone);
    *slope = count * at->mean + exp(kept) / gone * count * share * (at->inside - at->mean) / (1 - share);
    if (rise + *whole - order * epsilon > level - ending) *slope = INFINITY;
}

/* points: as of the means; found: three tilts. */
ENTRY(saddle, StepSums) {
    enum { ORDERS = 13 };
    double epsilon = job->epsilon, spent_at = job->log_delta - 2 * job->negligible, middle = log(job->start), reach = job->reach;
    double c[ORDERS], value[ORDERS], slope[ORDERS], whole[ORDERS], rest[ORDERS], force[ORDERS], *found = job->found;
    double *terms = malloc(sizeof(double) * job->size);
    if (!terms) return 1;
    found[2] = found[4] = 1, found[3] = found[5] = INFINITY;
    int place = 0;
    for (int round = 0; round < 12; round++) {
        int first = 0, spent = -1, finite = -1;
        for (int i = 0; i < ORDERS; i++) {
            c[i] = exp(middle + (2.0 * i / (ORDERS - 1) - 1) * reach);
            Means at = means_at(job->points, job->size, c[i], terms);
            band_real(job, c[i], &at, value + i, slope + i, whole + i);
            rest[i] = c[i] * log(c[i]) - (1 + c[i]) * log1p(c[i]) - c[i] * epsilon;
            for (int k = 2; k <= (isfinite(slope[i]) ? 4 : 2); k += 2)
                if (whole[i] + rest[i] < found[k + 1]) found[k] = c[i], found[k + 1] = whole[i] + rest[i];
            force[i] = c[i] * (slope[i] - epsilon) - 1 - c[i] / (1 + c[i]);
            if (force[i] <= 0) first = i + 1;
            if (spent < 0 && force[i] <= 0 && value[i] - c[i] * epsilon < spent_at) spent = i;
            if (finite < 0 && isfinite(force[i])) finite = i;
        }
        place = first > 0 ? first - 1 : 0;
        if (spent >= 0) {
            place = spent;
            break;
        }
        if (first == 0 && force[0] == INFINITY && finite >= 0) {
            place = finite;
            break;
        }
        if (first == 0) middle -= 2 * reach;
        else if (first == ORDERS) middle += 2 * reach;
        else if (reach < 1) {
            place = force[first] > -force[first - 1] ? first - 1 : first;
            break;
        } else {
            double low = log(c[first - 1]), high = log(c[first]);
            middle = 0.5 * (low + high), reach = 0.5 * (high - low);
        }
    }
    found[0] = c[place], found[1] = value[place] + rest[place];
    free(terms);
    return 0;
}

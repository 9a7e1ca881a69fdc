/* What is proven in doubles: a contour with a bound on its error, and what a diagonaliser leaves over.

--- The trapezoid rule along a piece of a hyperbola (derived: docs/math/spectrum)

On s(z) = b + rho sin(iz - angle), z = u + iv, a turn of the angle by v. With f(z) = F(s(z)) s'(z) analytic on the
rectangle |u| <= U = (nodes + 1/2) step, |v| <= half, the sum over the nodes inside times the step is off the integral
over |u| <= U by at most (M- + M+) / (e^(2 pi half/step) - 1) + 2 S: M the integrals of |f| along the long sides, S that
of |f| e^(-2 pi |v|/step) along a short one. From P = s(U) the contour goes on straight up. All of it is bounded cell by
cell: log |F| at the middle, its slope along the cell, a bound on |(log F)''| all over it, and roundings a thousandfold.

log F = slope s + s(1+s)/2 (flat + sum e/(1+sg)) - sum m/2 log(1+sg) - log s(1+s). */

#include <complex.h>
#include <string.h>

typedef struct {
    const double *gap, *number, *shift;
    double *found; /* b, rho, angle, half, step, nodes, error; sum over the nodes and its rounding; level, width */
    long long terms;
    double slope, size, flat, level; /* size: of what the slope is the difference of; level: log F(c) */
    double c, width, limit, goal;    /* c: the saddle, to be found if 0; goal: -log of the relative error aimed at */
} Hyperbolas;

typedef struct {
    double b, rho, angle, half, step, nodes;
} Line;

#define SLACK 1e-12
#define CLIMB 40.0 /* how far, in log F, outer hyperbolas may climb on the real axis */
#define DEEPEST 6
#define MOST_NODES 300
#define TRIED 3

static double complex line_at(const Line *line, double turn, double u) {
    return line->b + line->rho * (CMPLX(0, cos(turn) * sinh(u)) - sin(turn) * cosh(u));
}

static double squared(double complex z) { return creal(z) * creal(z) + cimag(z) * cimag(z); }

static double log_height(const Hyperbolas *job, double complex s) {
    double complex sum = job->flat;
    double logs = 0, product = 1;
    for (int j = 0; j < job->terms; j++) {
        double complex w = 1 + s * job->gap[j];
        double size = squared(w);
        sum += job->shift[j] / size * conj(w);
        if (job->number[j] != 1) {
            logs += job->number[j] * log(size);
            continue;
        }
        product *= size;
        if (!(product > 1e-150 && product < 1e150)) logs += log(product), product = 1;
    }
    logs = (logs + log(product)) / 2 + log(squared(s)) + log(squared(1 + s));
    return creal(job->slope * s + s * (1 + s) / 2 * sum) - logs / 2 - job->level;
}

/* At least log |F| - level on a cell between two ends, off its chord by at most `off`; infinite if nothing is known.
`steep` is what of it is due to the cell's size. */
static double highest(const Hyperbolas *job, double complex start, double complex end, double off, double blur,
                      double *steep) {
    double complex s = (start + end) / 2, chord = (end - start) / 2;
    double reach = cabs(chord) + off + 2 * blur, near = cabs(s) - reach, beside = cabs(1 + s) - reach;
    double complex sum = job->flat, twice = s * (1 + s) / 2;
    double complex rise = job->slope + job->flat * (s + 0.5) - 1 / s - 1 / (1 + s);
    double logs = 0, curve = job->flat + 1 / (near * near) + 1 / (beside * beside), rounding = fabs(job->level) + 4;
    int known = near > 0 && beside > 0;
    for (int j = 0; j < job->terms; j++) {
        double g = job->gap[j], m = job->number[j], e = job->shift[j];
        double complex w = 1 + s * g;
        double square = squared(w), size = sqrt(square), large = 1 + cabs(s) * fabs(g);
        double least = size - reach * fabs(g) - SLACK * large, log_size = log(square) / 2;
        double complex inverse = conj(w) / square;
        known = known && least > 0;
        sum += e * inverse, logs += m * log_size;
        rise += (e * (s * (1 + w) + 1) * inverse - m * g) * inverse / 2;
        curve += m * g * g / (least * least) / 2 + e * (1 - g) / (least * least * least);
        rounding += cabs(twice) * e * large / square + m * (fabs(log_size) + large / size);
    }
    rounding += cabs(s) * job->size + cabs(twice) * job->flat + fabs(log(cabs(s)));
    double value = creal(job->slope * s + twice * sum) - logs / 2 - log(cabs(s)) - log(cabs(1 + s)) - job->level;
    double along = fabs(creal(rise * chord)) + cabs(rise) * (off + 2 * blur);
    *steep = curve * reach * reach / 2;
    value += along + *steep + SLACK * rounding;
    if (!(known && value < 700)) return *steep = INFINITY;
    return value;
}

/* Bound on the integral of |f| e^-level over a cell of a hyperbola, divided where it is too wide. */
static double cell(const Hyperbolas *job, const Line *line, double turn, double low, double high, int depth) {
    double top = line->rho * cosh(high), off = top * (high - low) * (high - low) / 8, steep;
    double blur = SLACK * (fabs(line->b) + top);
    double value = highest(job, line_at(line, turn, low), line_at(line, turn, high), off, blur, &steep);
    if (steep > 1 && value > -2 * job->goal && depth < DEEPEST) {
        double middle = (low + high) / 2;
        return cell(job, line, turn, low, middle, depth + 1) + cell(job, line, turn, middle, high, depth + 1);
    }
    return exp(value) * top * (high - low) * (1 + SLACK);
}

/* Bound on the integral of |f| e^-level over 0 <= u <= end. */
static double along(const Hyperbolas *job, const Line *line, double turn, double end) {
    double total = 0, u = 0;
    for (double length = 0.03; u < end; u += length, length = length < 0.5 ? 1.1 * length : length)
        total += cell(job, line, turn, u, fmin(u + length * (1 + SLACK), end * (1 + SLACK)), 0);
    return total;
}

/* Bound on the integral of |f| e^(-level - 2 pi |v|/step) over |v| <= half at u = end. */
static double across(const Hyperbolas *job, const Line *line, double end) {
    enum { CELLS = 24 };
    double total = 0, top = line->rho * cosh(end), wide = line->half / CELLS, blur = SLACK * (fabs(line->b) + top);
    for (int i = -CELLS; i < CELLS; i++) {
        double from = line->angle + i * wide, steep;
        double inner = (i < 0 ? -1 - i : i) * wide, off = top * wide * wide / 8 * (1 + SLACK);
        double value = highest(job, line_at(line, from, end), line_at(line, from + wide, end), off, blur, &steep);
        total += exp(value - 2 * M_PI * inner / line->step * (1 - SLACK));
    }
    return total * top * wide * (1 + SLACK);
}

/* Bound on the integral of |F| e^-level straight up from the end of the piece, where no factor but one grows: parts of
the exponent with 1 + g Re s < 0, by less than their real part at the end. */
static double upwards(const Hyperbolas *job, const Line *line, double end) {
    double complex place = line_at(line, line->angle, end);
    double blur = SLACK * (fabs(line->b) + line->rho * cosh(end)), steep;
    double value = highest(job, place, place, 0, blur, &steep), height = cimag(place) - blur;
    for (int j = 0; j < job->terms; j++) {
        double g = job->gap[j], slack = SLACK * (1 + cabs(place) * fabs(g)), opening = 1 + creal(place) * g;
        double size = cabs(1 + place * g) - slack;
        if (opening < slack) value += job->shift[j] * (1 - g) * (fabs(opening) + slack) / (2 * g * g * size * size);
    }
    double bound = exp(value) * (cabs(place) + blur) * (cabs(1 + place) + blur) / height * (1 + SLACK);
    return height > 0 && value < 700 ? bound : INFINITY;
}

/* Bound on pi times what the rule misses of delta e^-level. */
static double error_bound(const Hyperbolas *job, const Line *line) {
    double low = line->angle - line->half, high = line->angle + line->half;
    double gain = 2 * M_PI * line->half / line->step * (1 - SLACK), end = (line->nodes + 0.5) * line->step;
    int inside = line->b - line->rho * sin(high) > 0 && (line->b - line->rho * sin(low)) * job->limit < 1;
    if (!(inside && gain > 1 && low > -1.5 && high < 1.5 && line->rho > 0 && line->nodes < MOST_NODES)) return INFINITY;
    double outer = along(job, line, low, end) + along(job, line, high, end);
    return (outer / expm1(gain) + across(job, line, end) + upwards(job, line, end)) * (1 + SLACK);
}

/* How far from c, up to `most`, log F climbs by less than CLIMB; it is convex on the real line. */
static double room_beside(const Hyperbolas *job, double most) {
    double low = 0.02, high = 1;
    if (log_height(job, job->c + most) < CLIMB) return fabs(most);
    for (int i = 0; i < 6; i++) {
        double middle = (low + high) / 2;
        if (log_height(job, job->c + most * middle) < CLIMB) low = middle;
        else high = middle;
    }
    return fabs(most) * low;
}

/* A hyperbola between two angles, in floating point: a bad choice costs precision, never soundness. */
static Line chosen_line(const Hyperbolas *job, double low, double high, double below, double above) {
    Line line = {0, 0, (low + high) / 2, (high - low) / 2, 0, INFINITY};
    double down = sin(high) - sin(line.angle), up = sin(line.angle) - sin(low), outer = 0, u = 0;
    line.rho = fmin(below / down, above / up);
    line.b = job->c + line.rho * sin(line.angle);
    for (double left = INFINITY; !(left < -job->goal); u += 0.1 + u / 50) {
        double lift = log(line.rho / job->width * cosh(u));
        for (int way = -1; way <= 1; way += 2)
            outer = fmax(outer, log_height(job, line_at(&line, line.angle + way * line.half, u)) + lift);
        double complex s = line_at(&line, line.angle, u);
        left = log_height(job, s) + log(squared(s) * squared(1 + s)) / 2 - log(cimag(s) * job->width);
        left = fmax(left, log_height(job, s) + lift);
        if (!(u < 12 && outer < 300)) return line;
    }
    line.step = 2 * M_PI * line.half / (job->goal + outer);
    line.nodes = ceil(u / line.step - 0.5);
    return line;
}

/* The saddle c of log F on the real line, its width and its height, by bisection of c's odds. */
static void find_saddle(Hyperbolas *job) {
    double low = -80, high = 80, bend = 0;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2, odds = exp(middle), c = odds / (1 + job->limit * odds);
        double slope = job->slope + job->flat * (c + 0.5) - 1 / c - 1 / (1 + c);
        bend = job->flat + 1 / (c * c) + 1 / ((1 + c) * (1 + c));
        for (int j = 0; j < job->terms; j++) {
            double g = job->gap[j], m = job->number[j], e = job->shift[j], w = 1 + c * g;
            slope += (e * (c * (1 + w) + 1) / w - m * g) / (2 * w);
            bend += (m * g * g / 2 + e * (1 - g) / w) / (w * w);
        }
        job->c = c;
        if (slope < 0) low = middle;
        else high = middle;
    }
    job->width = 1 / sqrt(bend), job->level = 0;
    job->level = log_height(job, job->c);
}

/* Half the node at c and all others of the upper half plane, over pi, and a bound on the rounding of that. Every number
that enters is taken to be off by `unit` of its size or of what it is the difference of. */
static void summed(const Hyperbolas *job, const Line *line, double *sum, double *rounding) {
    double unit = 0x1p-53 * (32 + 4 * job->terms), blunt = 0, total = 0, sizes = 0;
    double share = line->rho * line->step / M_PI;
    for (int n = 0; n <= line->nodes; n++) {
        double u = n * line->step, blur = unit * (fabs(line->b) + line->rho * cosh(u) * (1 + u));
        double complex s = line_at(line, line->angle, u), value = job->flat, logs = 0, twice = s * (1 + s) / 2;
        double complex rise = job->slope + job->flat * (s + 0.5) - 1 / s - 1 / (1 + s);
        double off = fabs(job->level) + 16 + cabs(s) * job->size + cabs(twice) * job->flat;
        double curve = job->flat + 4 / squared(s) + 4 / squared(1 + s); /* of log F within blur of s */
        int known = 2 * blur < cabs(s) && 2 * blur < cabs(1 + s);
        for (int j = 0; j < job->terms; j++) {
            double g = job->gap[j], m = job->number[j], e = job->shift[j];
            double complex w = 1 + s * g;
            double square = squared(w), size = sqrt(square), large = 1 + cabs(s) * fabs(g);
            double complex inverse = conj(w) / square, log_w = CMPLX(log(square) / 2, carg(w));
            value += e * inverse, logs += m * log_w;
            rise += (e * (s * (1 + w) + 1) * inverse - m * g) * inverse / 2;
            curve += 2 * m * g * g / square + 8 * e * (1 - g) / (square * size);
            off += cabs(twice) * e * large / square + m * (fabs(creal(log_w)) + fabs(cimag(log_w)) + large / size);
            known = known && 2 * blur * fabs(g) < size && 2 * unit * large < size;
        }
        double log_s = log(squared(s)) / 2, log_beside = log(squared(1 + s)) / 2;
        value = job->slope * s + twice * value - logs / 2 - CMPLX(log_s + log_beside, carg(s) + carg(1 + s));
        off = unit * (off + fabs(log_s) + fabs(log_beside)) + (2 * cabs(rise) + curve * blur) * blur;
        double complex turn = CMPLX(cos(line->angle) * cosh(u), sin(line->angle) * sinh(u));
        double size = exp(creal(value) - job->level), half = n ? 1 : 0.5;
        total += half * size * creal(CMPLX(cos(cimag(value)), sin(cimag(value))) * turn);
        size *= half * cosh(u), sizes += size;
        blunt += known && off < 0x1p-10 ? 1.01 * off * size : INFINITY;
    }
    *sum = share * total, *rounding = 1.01 * share * (blunt + unit * (1 + line->nodes) * sizes);
}

static void hyperbola(Hyperbolas *job) {
    static const double strips[][2] = {{0, 1.2},  {0, 0.9},  {0, 0.65},  {-0.65, 0.65}, {-0.4, 0.9},
                                       {-1.2, 0}, {-0.9, 0}, {-0.65, 0}, {-0.9, 0.4}};
    enum { STRIPS = sizeof strips / sizeof *strips };
    if (job->c == 0) find_saddle(job);
    double error = INFINITY, sum = 0, rounding = INFINITY, first = 20 * job->width;
    for (int j = 0; j < job->terms; j++)
        if (job->gap[j] < 0) first = fmin(first, -0.9 * (1 + job->c * job->gap[j]) / job->gap[j]);
    double below = room_beside(job, -0.9 * job->c), above = room_beside(job, first);
    Line lines[STRIPS], best = {0, 0, 0, 0, 0, INFINITY};
    for (int i = 0; i < STRIPS; i++) lines[i] = chosen_line(job, strips[i][0], strips[i][1], below, above);
    for (int i = 0; i < TRIED && !(error < 1e4 * job->width * exp(-job->goal)); i++) {
        int chosen = 0;
        for (int k = 1; k < STRIPS; k++)
            if (lines[k].nodes < lines[chosen].nodes) chosen = k;
        double found = error_bound(job, &lines[chosen]);
        if (found < error) best = lines[chosen], error = found;
        lines[chosen].nodes = INFINITY;
    }
    if (error < INFINITY) summed(job, &best, &sum, &rounding);
    double found[] = {best.b,     best.rho, best.angle, best.half,  best.step, best.nodes,
                      error, sum,      rounding,   job->level, job->width};
    for (int i = 0; i < 11; i++) job->found[i] = found[i];
}

ENTRY(hyperbola, Hyperbolas) {
    Hyperbolas own = *job;
    hyperbola(&own);
    return 0;
}

/* --- What an approximate diagonaliser T leaves of M2 = T S2 T' and N = T (S2-S1) T' (derived: docs/math/spectrum)

Matrices are unevaluated sums hi + lo. A sum of n products of such numbers, hi parts added without error but for one
compensation in doubles (Ogita, Rump, Oishi 2005), is off by less than 4 (n+4)^2 2^-106 times the sum of the moduli.
Products and sums are made in functions apart, so that no compiler fuses what must be rounded. */

typedef struct {
    const double *mean_x, *cov_x, *mean_y, *cov_y; /* of all pairs, exact */
    const double *scale, *rows, *rows_low;         /* powers of two for the coordinates, and T after them: hi + lo */
    double *found; /* for each pair: gaps and means, each as hi, lo and error; |M2 - I| and |N - diag N|, and their errors */
    double *gram, *gap; /* M2 - I and N, to the precision of doubles */
    long long pairs, size;
} Diagonalisers;

typedef struct {
    double *hi, *lo;
} Pairs;

typedef struct {
    const double *change, *change_low;
    double *rows, *rows_low; /* T, whose place the change times T takes */
    long long pairs, size;
} Turns;

#define APART __attribute__((noinline))

/* p + e = a times each y without error. */
static APART void products(long long size, double a, const double *restrict y, double *restrict p, double *restrict e) {
    for (long long j = 0; j < size; j++) p[j] = a * y[j], e[j] = fma(a, y[j], -p[j]);
}

/* Adds each p to hi + lo, of which lo is a sum in doubles. */
static APART void add(long long size, const double *restrict p, double *restrict hi, double *restrict lo) {
    for (long long j = 0; j < size; j++) {
        double total = hi[j] + p[j], part = total - hi[j];
        lo[j] += (hi[j] - (total - part)) + (p[j] - part);
        hi[j] = total;
    }
}

/* left @ right for `height` rows of `size` and as many columns as `width`. */
static void multiply(long long height, long long size, long long width, Pairs left, Pairs right, Pairs found, double *room) {
    double *p = room, *e = room + width;
    for (long long i = 0; i < height; i++) {
        double *hi = found.hi + i * width, *lo = found.lo + i * width, *rest = room + 2 * width;
        for (long long j = 0; j < width; j++) hi[j] = lo[j] = rest[j] = 0;
        for (long long k = 0; k < size; k++) {
            double a = left.hi[i * size + k], small = left.lo[i * size + k];
            const double *b = right.hi + k * width, *less = right.lo + k * width;
            products(width, a, b, p, e);
            add(width, p, hi, lo);
            for (long long j = 0; j < width; j++) rest[j] += e[j] + (a * less[j] + small * b[j]);
        }
        for (long long j = 0; j < width; j++) p[j] = lo[j] + rest[j], lo[j] = 0;
        add(width, p, hi, lo);
    }
}

/* T S T' of a symmetric S, each of whose entries may be off by `blur`; bounds on the errors of its entries. */
static void congruence(long long n, Pairs rows, Pairs columns, Pairs matrix, const double *blur, Pairs half, Pairs found,
                       double *error, double *room) {
    double unit = 8.5 * (n + 4) * (n + 4) * 0x1p-106, *moduli = room;
    multiply(n, n, n, rows, matrix, half, room);
    multiply(n, n, n, half, columns, found, room);
    for (long long i = 0; i < n; i++) {
        for (long long j = 0; j < n; j++) moduli[j] = error[i * n + j] = 0;
        for (long long k = 0; k < n; k++)
            for (long long j = 0; j < n; j++)
                moduli[j] += fabs(rows.hi[i * n + k]) * (unit * fabs(matrix.hi[k * n + j]) + blur[k * n + j]);
        for (long long k = 0; k < n; k++)
            for (long long j = 0; j < n; j++) error[i * n + j] += moduli[k] * fabs(columns.hi[k * n + j]);
        for (long long j = 0; j < n; j++) error[i * n + j] *= 1 + SLACK;
    }
}

static void transposed(long long n, Pairs matrix, Pairs found) {
    for (long long i = 0; i < n; i++)
        for (long long j = 0; j < n; j++)
            found.hi[j * n + i] = matrix.hi[i * n + j], found.lo[j * n + i] = matrix.lo[i * n + j];
}

/* The symmetric part, scaled. */
static void symmetric_part(long long n, const double *matrix, const double *scale, Pairs found) {
    for (long long i = 0; i < n; i++)
        for (long long j = 0; j < n; j++) {
            double by = scale[i] * scale[j] / 2, other = matrix[j * n + i] * by;
            found.hi[i * n + j] = matrix[i * n + j] * by, found.lo[i * n + j] = 0;
            add(1, &other, found.hi + i * n + j, found.lo + i * n + j);
        }
}

static void diagonaliser(const Diagonalisers *job, long long pair, double *room) {
    long long n = job->size, square = n * n;
    Pairs parts[8];
    for (int i = 0; i < 8; i++) parts[i] = (Pairs){room, room + square}, room += 2 * square;
    Pairs x = parts[0], y = parts[1], apart = parts[2], rows = parts[3], columns = parts[4], half = parts[5];
    Pairs gram = parts[6], gap = parts[7];
    double *still = room, *blur = still + square, *gram_error = blur + square, *gap_error = gram_error + square;
    double *rest = gap_error + square, *found = job->found + pair * (6 * n + 4);
    symmetric_part(n, job->cov_x + pair * square, job->scale + pair * n, x);
    symmetric_part(n, job->cov_y + pair * square, job->scale + pair * n, y);
    int equal = !memcmp(job->cov_x + pair * square, job->cov_y + pair * square, sizeof(double) * square);
    for (long long i = 0; i < square; i++) { /* 1e-300: for what is lost below the range of doubles */
        double minus = -x.hi[i], less;
        apart.hi[i] = y.hi[i], apart.lo[i] = 0;
        add(1, &minus, apart.hi + i, apart.lo + i);
        less = apart.lo[i] + (y.lo[i] - x.lo[i]), apart.lo[i] = 0;
        add(1, &less, apart.hi + i, apart.lo + i);
        still[i] = 1e-300, blur[i] = equal ? 0 : 1e-300;
        if (!equal && (x.lo[i] != 0 || y.lo[i] != 0)) blur[i] += 0x1p-102 * (fabs(x.hi[i]) + fabs(y.hi[i]));
        rows.hi[i] = job->rows[pair * square + i], rows.lo[i] = job->rows_low[pair * square + i];
    }
    double across = 0, along = 0, across_error = 0, along_error = 0;
    transposed(n, rows, columns);
    congruence(n, rows, columns, y, still, half, gram, gram_error, rest);
    congruence(n, rows, columns, apart, blur, half, gap, gap_error, rest);
    for (long long i = 0; i < n; i++)
        for (long long j = 0; j < n; j++) {
            long long at = i * n + j;
            double off = (gram.hi[at] - (i == j)) + gram.lo[at];
            job->gram[pair * square + at] = off, job->gap[pair * square + at] = gap.hi[at];
            across += off * off, across_error += gram_error[at] * gram_error[at];
            if (i != j) along += gap.hi[at] * gap.hi[at], along_error += gap_error[at] * gap_error[at];
        }
    for (long long i = 0; i < n; i++) {
        double minus = -job->mean_y[pair * n + i] * job->scale[pair * n + i];
        half.hi[i] = job->mean_x[pair * n + i] * job->scale[pair * n + i], half.lo[i] = 0;
        add(1, &minus, half.hi + i, half.lo + i);
    }
    multiply(n, n, 1, rows, half, gram, rest);
    for (long long i = 0; i < n; i++) {
        double moduli = 0;
        for (long long k = 0; k < n; k++)
            moduli += fabs(rows.hi[i * n + k]) * (4 * (n + 4) * (n + 4) * 0x1p-106 * fabs(half.hi[k]) + (half.hi[k] != 0) * 1e-300);
        found[i] = gap.hi[i * n + i], found[n + i] = gap.lo[i * n + i], found[2 * n + i] = gap_error[i * n + i];
        found[3 * n + i] = gram.hi[i], found[4 * n + i] = gram.lo[i], found[5 * n + i] = moduli * (1 + SLACK);
    }
    found[6 * n] = sqrt(across) * (1 + 1e-9), found[6 * n + 1] = sqrt(along) * (1 + 1e-9);
    found[6 * n + 2] = sqrt(across_error) * (1 + 1e-9), found[6 * n + 3] = sqrt(along_error) * (1 + 1e-9);
}

ENTRY(diagonalisers, Diagonalisers) {
    double *room = malloc(sizeof(double) * (22 * job->size * job->size + 4 * job->size));
    if (!room) return 1;
    for (long long pair = 0; pair < job->pairs; pair++) diagonaliser(job, pair, room);
    free(room);
    return 0;
}

ENTRY(turns, Turns) {
    long long n = job->size, square = n * n;
    double *room = malloc(sizeof(double) * (2 * square + 3 * n));
    if (!room) return 1;
    for (long long pair = 0; pair < job->pairs; pair++) {
        Pairs change = {(double *)job->change + pair * square, (double *)job->change_low + pair * square};
        Pairs rows = {job->rows + pair * square, job->rows_low + pair * square}, found = {room, room + square};
        multiply(n, n, n, change, rows, found, room + 2 * square);
        memcpy(rows.hi, found.hi, sizeof(double) * square), memcpy(rows.lo, found.lo, sizeof(double) * square);
    }
    free(room);
    return 0;
}

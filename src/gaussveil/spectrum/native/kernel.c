/* The contour integral and the reduction of matrices, pair after pair: loops around the formulas of formulas.h.

One source serves both: C for the CPU, where LANES nodes or matrices go side by side so that the machine's vectors are
full, and CUDA for the GPU, where each thread has one pair and LANES is 1. contour.py and reduction.py hold the same
loops over whole arrays; tests compare them. Products and sums are fused on aarch64 alone, where every processor can; a
compiler may fuse them anywhere, though: base_block, which needs a product's rounding error, minds it. On x86_64 the file
is compiled twice, for every processor and for those with AVX2 (hatch_build.py): no loop adds in another order for it, so
that both give the same digits. */

#ifdef __CUDACC__

#define GV static __device__ __forceinline__
#define GV_ONCE static __device__ __noinline__ /* called from many places: inlined, it would take long to compile */
#define CONSTANT static __device__ const
#define INFINITY __longlong_as_double(0x7ff0000000000000LL)
#define LANES 1
typedef double Lanes;
typedef long long Bits;
#define LANE(block, lane) (block)
#define AS_BITS(block) __double_as_longlong(block)
#define AS_LANES(bits) __longlong_as_double(bits)
#define SPLAT(number) (number)
#define MAKE(type) type
#define GROUP 1
#define ROWS LANES
typedef Lanes Wide;
#define ORDINALS 0.0

#else

#include <math.h>
#include <stdlib.h>
#ifdef __aarch64__
#include <arm_neon.h>
#endif
#define GV static inline
#define GV_ONCE static __attribute__((noinline)) /* called from many places: inlined, it would take long to compile */
#define CONSTANT static const
#ifdef __aarch64__
#define LANES 2
#else
#define LANES 4
#endif
typedef double Lanes __attribute__((vector_size(8 * LANES), may_alias));
typedef long long Bits __attribute__((vector_size(8 * LANES), may_alias));
#define LANE(block, lane) (block)[lane]
#define AS_BITS(block) ((Bits)(block))
#define AS_LANES(bits) ((Lanes)(bits))
#define SPLAT(number) ((number) - (Lanes){0})
#define MAKE(type) (type)
/* Matrices that are reduced side by side: as many as fit into one vector, or wait for each other's roots in turn. */
#if defined(__x86_64__) && !defined(__AVX512F__)
#define ROWS 4
#else
#define ROWS 8
#endif
typedef double Wide __attribute__((vector_size(8 * ROWS), may_alias));
typedef long long WideBits __attribute__((vector_size(8 * ROWS), may_alias));
/* Blocks as wide as the machine's vectors, so that they stay in registers, and so many at a time that no one waits. */
#ifdef __aarch64__
#define GROUP 4
#define ORDINALS ((Lanes){0.0, 1.0})
#define ROUNDED_ONCE(block) __asm__("" : "+w"(block)) /* never fused with what comes after */
#else
#define GROUP 2
#define ORDINALS ((Lanes){0.0, 1.0, 2.0, 3.0})
#define ROUNDED_ONCE(block) __asm__("" : "+x"(block))
#endif

#endif

#define EACH(lane) for (int lane = 0; lane < LANES; lane++)
#define EACH_BLOCK(g) for (int g = 0; g < GROUP; g++)
#define NODES (GROUP * LANES) /* of a group of blocks */
#define BLOCKS(count) (((count) + LANES - 1) / LANES)
#define SIGN_BIT ((long long)(1ULL << 63))

GV double choose(double condition, double chosen, double otherwise) { return condition != 0 ? chosen : otherwise; }
GV double smaller(double a, double b) { return a != a || a < b ? a : b; }
GV double larger(double a, double b) { return a != a || a > b ? a : b; }
GV double clip(double value, double lowest, double highest) {
    return value < lowest ? lowest : value > highest ? highest : value;
}
GV double sign(double value) { return value > 0 ? 1.0 : value < 0 ? -1.0 : value; }

#include "formulas.h"

/* --- functions of a block */

GV Lanes absolute(Lanes x) { return AS_LANES(AS_BITS(x) & ~SIGN_BIT); }
GV Lanes signed_as(Lanes size, Lanes of) { return AS_LANES((AS_BITS(size) & ~SIGN_BIT) | (AS_BITS(of) & SIGN_BIT)); }

#ifdef __CUDACC__
GV Lanes blend(Bits mask, Lanes chosen, Lanes otherwise) { return mask ? chosen : otherwise; }
GV Bits less(Lanes a, Lanes b) { return -(Bits)(a < b); }
GV Bits equal(Lanes a, Lanes b) { return -(Bits)(a == b); }
GV int everywhere(Bits mask) { return mask != 0; }
GV double total(Lanes block) { return block; }
GV double even_total(Lanes block) { return block; }
GV Lanes exp_block(Lanes x) { return exp(x); }
GV int are_small(Lanes angle) { return 1; }
GV void waves(Lanes x, Lanes *cosine, Lanes *sine) { sincos(x, sine, cosine); }
GV void large_waves(Lanes x, Lanes *cosine, Lanes *sine) { waves(x, cosine, sine); }
GV Lanes log_block(Lanes x, Lanes excess) { return x < 0.25 ? log(x) : log1p(excess); }
GV Lanes angle_block(Lanes along, Lanes spread) { return atan2(along, spread); }
#else
GV Lanes blend(Bits mask, Lanes chosen, Lanes otherwise) {
    return (Lanes)((mask & (Bits)chosen) | (~mask & (Bits)otherwise));
}

GV Bits less(Lanes a, Lanes b) { return (Bits)(a < b); }
GV Bits equal(Lanes a, Lanes b) { return (Bits)(a == b); }
GV int everywhere(Bits mask) {
    long long all = -1;
    EACH(k) all &= mask[k];
    return all != 0;
}

GV double total(Lanes block) {
    double sum = 0.0;
    EACH(k) sum += block[k];
    return sum;
}
GV double even_total(Lanes block) {
    double sum = 0.0;
    for (int k = 0; k < LANES; k += 2) sum += block[k];
    return sum;
}

#define TO_INTEGER 6755399441055744.0 /* 1.5 2^52: added, it leaves the nearest integer in the lowest bits */

/* e^x to an ulp or two; beyond +-700, where nothing of weight is, as at +-700. */
GV Lanes exp_block(Lanes x) {
    x = blend(less(x, SPLAT(-700.0)), SPLAT(-700.0), blend(less(SPLAT(700.0), x), SPLAT(700.0), x));
    Lanes shifted = x * 1.4426950408889634 + TO_INTEGER, count = shifted - TO_INTEGER;
    Lanes r = (x - count * 0.693147180369123816490) - count * 1.90821492927058770002e-10;
    Lanes sum = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    return (1.0 + (r + r * r * sum)) * (Lanes)(((Bits)shifted << 52) + 0x3ff0000000000000LL);
}

/* Cosine and sine to an ulp or two of small angles; large ones by the library. */
GV int are_small(Lanes angle) { return everywhere(less(absolute(angle), SPLAT(1e5))); }
GV void large_waves(Lanes x, Lanes *cosine, Lanes *sine) { EACH(k) (*cosine)[k] = cos(x[k]), (*sine)[k] = sin(x[k]); }
GV void waves(Lanes x, Lanes *cosine, Lanes *sine) {
    Lanes shifted = x * 0.63661977236758134 + TO_INTEGER, count = shifted - TO_INTEGER;
    Lanes r = ((x - count * 1.57079632673412561417) - count * 6.07710050630396597660e-11) -
              count * 2.02226624879595063154e-21;
    Lanes square = r * r;
    Lanes odd = square * (1.0 / 355687428096000.0) - 1.0 / 1307674368000.0;
    odd = odd * square + 1.0 / 6227020800.0;
    odd = odd * square - 1.0 / 39916800.0;
    odd = odd * square + 1.0 / 362880.0;
    odd = odd * square - 1.0 / 5040.0;
    odd = odd * square + 1.0 / 120.0;
    odd = odd * square - 1.0 / 6.0;
    odd = r + r * square * odd;
    Lanes even = square * (1.0 / 20922789888000.0) - 1.0 / 87178291200.0;
    even = even * square + 1.0 / 479001600.0;
    even = even * square - 1.0 / 3628800.0;
    even = even * square + 1.0 / 40320.0;
    even = even * square - 1.0 / 720.0;
    even = even * square + 1.0 / 24.0;
    even = 1.0 - square * (0.5 - square * even);
    Bits quarter = (Bits)shifted, swap = -(quarter & 1); /* all bits where the roles change */
    Lanes wide = blend(swap, odd, even), high = blend(swap, even, odd);
    *cosine = (Lanes)((Bits)wide ^ ((quarter + 1) << 62 & SIGN_BIT));
    *sine = (Lanes)((Bits)high ^ (quarter << 62 & SIGN_BIT));
}

/* log x for x in the range of doubles, to an ulp or two; next to one from x - 1, which has digits that x lost. */
GV Lanes log_block(Lanes x, Lanes excess) {
    if (!everywhere(less(SPLAT(1e-300), x) & less(x, SPLAT(1e300)))) {
        EACH(k) x[k] = x[k] < 0.25 ? log(x[k]) : log1p(excess[k]);
        return x;
    }
    Bits power = ((Bits)x - 0x3fe6a09e667f3bcdLL) >> 52; /* the rest is between the roots of 1/2 and 2 */
    Lanes rest = blend(power == 0, excess, (Lanes)((Bits)x - (power << 52)) - 1.0);
    Lanes count = (Lanes)(power + 0x4338000000000000LL) - TO_INTEGER;
    Lanes share = rest / (2.0 + rest), square = share * share;
    Lanes sum = square * (2.0 / 23.0) + 2.0 / 21.0;
    sum = sum * square + 2.0 / 19.0;
    sum = sum * square + 2.0 / 17.0;
    sum = sum * square + 2.0 / 15.0;
    sum = sum * square + 2.0 / 13.0;
    sum = sum * square + 2.0 / 11.0;
    sum = sum * square + 2.0 / 9.0;
    sum = sum * square + 2.0 / 7.0;
    sum = sum * square + 2.0 / 5.0;
    sum = sum * square + 2.0 / 3.0;
    /* 2 share = rest - rest share: the larger part without rounding */
    return count * 0.693147180369123816490 + (rest - share * (rest - square * sum) + count * 1.90821492927058770002e-10);
}

/* atan2 to an ulp or two: the angle in an eighth of the circle, and from there to all. */
GV Lanes angle_block(Lanes along, Lanes spread) {
    Lanes high = absolute(along), wide = absolute(spread);
    Bits steep = less(wide, high);
    Lanes most = blend(steep, high, wide), least = blend(steep, wide, high);
    Bits near = less(0.41421356237309503 * most, least); /* the diagonal */
    Lanes below = blend(near, least + most, most);
    Lanes x = blend(near, least - most, least) / blend(equal(below, SPLAT(0.0)), SPLAT(1.0), below), square = x * x;
    Lanes over = -0.87506086000319041 * square - 16.157537187333651;
    over = over * square - 75.008557923147047;
    over = over * square - 122.88666844901361;
    over = over * square - 64.850219049420254;
    Lanes under = square + 24.858464901423063;
    under = under * square + 165.02700983169885;
    under = under * square + 432.88106049129027;
    under = under * square + 485.3903996359137;
    under = under * square + 194.55065714826140;
    Lanes angle = x + x * square * (over / under);
    angle = blend(near, 0.78539816339744828 + (angle + 3.061616997868383e-17), angle);
    angle = blend(steep, 1.5707963267948966 - (angle - 6.123233995736766e-17), angle);
    angle = blend(less(spread, SPLAT(0.0)), 3.1415926535897931 - (angle - 1.2246467991473532e-16), angle);
    return signed_as(angle, along);
}

#endif

/* 1 + gap * centre, the product's rounding error included. */
GV Lanes base_block(Lanes gap, Lanes centre) {
#if defined(__FP_FAST_FMA) && !defined(__CUDACC__)
    Lanes product = gap * centre, error;
    ROUNDED_ONCE(product);
    EACH(k) error[k] = __builtin_fma(gap[k], centre[k], -product[k]);
    return (1.0 + product) + error;
#else
    return spread_at_block(gap, centre);
#endif
}

GV Lanes sqrt_block(Lanes x) {
    EACH(k) LANE(x, k) = sqrt(LANE(x, k));
    return x;
}

/* --- one row of a batch: the terms of a loss, its cumulants, and where its contour crosses the real axis */

typedef struct {
    const double *poles;
    int pole_count;
    double base, direction, limit;
} Region;

typedef struct {
    int count; /* of terms; filled up to whole blocks with terms without weight */
    double *gap, *log_ratio, *ratio, *multiplicity, *energy, *base; /* base: room for 1 + centre * gap */
    double lowest, highest, threshold, drift, magnitude; /* drift: of log_ratio; magnitude: without signs */
    double equal_energy; /* of the terms of equal variances */
    double mean_sum, log_sum; /* at the centre: sums of energy / |base| and of multiplicity log base */
    int direct;               /* a mean part so large that its sum deserves a quotient for each term */
    int many; /* so many coordinates that small logarithms need all their digits */
    int few;  /* multiplicities so small that multiplying is the fastest way to add logarithms */
} Row;

#define ROW_ROOM(terms) (6 * BLOCKS(terms) * LANES)
#define TOGETHER 16 /* factors multiplied before a logarithm is taken */
#define MOST_FEW 4.0
#define SMALL 1e-280 /* squared moduli of products must stay between these */
#define GREAT 1e280
#define MOST_MEAN 8.0 /* of a mean part whose sum may be a quotient of products */
#define PI 3.141592653589793

CONSTANT double BOTH_POLES[] = {0.0, -1.0};

/* The terms of one loss; those of equal variances (gap zero), which are many at times, merge. */
GV Row load(const double *gap, const double *log_ratio, const double *multiplicity, const double *energy, int terms,
            double threshold, double *room) {
    int column = BLOCKS(terms) * LANES, equal = -1;
    Row row = {0, room, room + column, room + 2 * column, room + 3 * column, room + 4 * column, room + 5 * column,
               gap[0], gap[0], threshold, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 1};
    double drift = 0.0, lost = 0.0, coordinates = 0.0;
    for (int term = 0; term < terms; term++) {
        double part = multiplicity[term] * log_ratio[term] - lost, sum = drift + part;
        lost = (sum - drift) - part; /* the sum may have thousands of terms and is multiplied by s */
        drift = sum;
        row.magnitude += fabs(multiplicity[term] * log_ratio[term]);
        coordinates += multiplicity[term];
        row.lowest = smaller(row.lowest, gap[term]);
        row.highest = larger(row.highest, gap[term]);
        if (gap[term] == 0.0) row.equal_energy += energy[term];
        if (gap[term] == 0.0 && log_ratio[term] == 0.0) {
            if (equal >= 0) {
                row.multiplicity[equal] += multiplicity[term];
                row.energy[equal] += energy[term];
                continue;
            }
            equal = row.count;
        } else if (multiplicity[term] > MOST_FEW || multiplicity[term] != floor(multiplicity[term]))
            row.few = 0;
        row.gap[row.count] = gap[term];
        row.log_ratio[row.count] = log_ratio[term];
        row.ratio[row.count] = exp(log_ratio[term]);
        row.multiplicity[row.count] = multiplicity[term];
        row.energy[row.count] = energy[term];
        row.count++;
    }
    for (int term = row.count; term < BLOCKS(row.count) * LANES; term++) {
        row.gap[term] = row.log_ratio[term] = row.multiplicity[term] = row.energy[term] = 0.0;
        row.ratio[term] = 1.0;
    }
    row.drift = 0.5 * drift + threshold;
    row.many = coordinates > MANY;
    row.few = row.few && !row.many;
    return row;
}

#define COLUMN(row, name, block) (((const Lanes *)(row)->name)[block])

/* 1 + centre * gap of each term, with sums of them. */
GV void set_base(Row *row, double centre) {
    Lanes mean = SPLAT(0.0), logs = SPLAT(0.0);
    for (int block = 0; block < BLOCKS(row->count); block++) {
        Lanes gap = COLUMN(row, gap, block), base = base_block(gap, SPLAT(centre)), size = absolute(base);
        ((Lanes *)row->base)[block] = base;
        mean += COLUMN(row, energy, block) / blend(less(size, SPLAT(1e-300)), SPLAT(1e-300), size);
        logs += COLUMN(row, multiplicity, block) * log_block(base, centre * gap);
    }
    row->mean_sum = total(mean), row->log_sum = total(logs);
    row->direct = !(0.5 * fabs(centre * (1 + centre)) * row->mean_sum < MOST_MEAN && row->mean_sum < 1e20);
}

/* K - order * threshold at the order whose base is set. */
GV double exponent_at(const Row *row, double order) {
    double found = 0.5 * (order * (1 + order) * row->mean_sum - row->log_sum) - order * row->drift;
    return found == found ? found : INFINITY;
}

/* K' and K'' at a real order. */
GV Numbers cumulant_slopes(const Row *row, double order) {
    Lanes slope = SPLAT(0.0), curvature = SPLAT(0.0);
    for (int block = 0; block < BLOCKS(row->count); block++) {
        Blocks part = slope_parts_block(SPLAT(order), COLUMN(row, gap, block), COLUMN(row, log_ratio, block));
        Lanes multiplicity = COLUMN(row, multiplicity, block), energy = COLUMN(row, energy, block);
        slope += energy * part.at[0] - multiplicity * part.at[1];
        curvature += multiplicity * part.at[2] + 2.0 * energy * COLUMN(row, ratio, block) * part.at[3];
    }
    return MAKE(Numbers){{0.5 * total(slope), 0.5 * total(curvature)}};
}

/* Where the contour crosses the real axis, and its width. */
GV_ONCE Numbers saddle(const Row *row, Region region) {
    double reach = region.direction > 0 ? highest_order(row->lowest) - region.base
                                        : region.base - lowest_order(row->highest);
    double inverse_reach = 1 / smaller(reach, region.limit);
    Numbers slopes = cumulant_slopes(row, region.base);
    double coordinate = first_coordinate(region.direction, row->threshold, inverse_reach, slopes.at[0], slopes.at[1]);
    double below = -INFINITY, above = INFINITY;
    Numbers found = {{coordinate, coordinate}};
    for (int step = 0; step < NEWTON_STEPS; step++) {
        Numbers place = crossing(region.base, region.direction, inverse_reach, coordinate);
        slopes = cumulant_slopes(row, place.at[0]);
        Numbers pull = forces(region.poles, region.pole_count, place.at[0], slopes.at[0] - row->threshold, slopes.at[1]);
        Numbers next = newton_step(region.direction, inverse_reach, place.at[1], place.at[2], pull.at[0], pull.at[1],
                                   coordinate, below, above);
        found.at[0] = place.at[0];
        found.at[1] = pull.at[1];
        coordinate = next.at[1], below = next.at[2], above = next.at[3];
        if (next.at[0]) break;
    }
    found.at[1] = STRETCH / sqrt(found.at[1]);
    return found;
}

/* --- the integrand at a block of nodes */

typedef struct {
    Lanes mean_real, mean_imag; /* sums of energy / (1 + s g), the conjugate */
    Lanes log_modulus, angle;   /* of the factors' squares, but for those in the product */
    Lanes real, imag, square;   /* a product of factors, and its squared modulus */
    Bits turns;                 /* of it around zero */
    Lanes pole_real, pole_imag, pole_square; /* the product of s - pole; one where it is in the logarithms */
    Lanes inverse;                           /* 1 / (square * pole_square) */
} Sums;

/* Add logarithm and angle of factors spread + i along. */
GV void add_logarithm(double multiplicity, Lanes spread, Lanes along, Lanes excess, Lanes *logs, Lanes *angles) {
    *logs += multiplicity * log_block(spread * spread + along * along, excess);
    *angles += multiplicity * angle_block(along, spread);
}

/* Add logarithms, angles and mean parts of the terms start..stop-1, one by one. */
GV_ONCE void add_terms(const Row *row, double centre, Lanes offset, Lanes imag, int start, int stop, int logarithms,
                       Sums *sums) {
    Lanes logs = SPLAT(0.0), angles = SPLAT(0.0); /* of these, so that rounding grows with their number, not with all */
    for (int place = start; place < stop; place++) {
        double gap = row->gap[place], multiplicity = row->multiplicity[place], energy = row->energy[place];
        if (gap == 0.0) continue;
        Lanes spread = row->base[place] + offset * gap, along = imag * gap;
        Lanes modulus = spread * spread + along * along, excess = modulus - 1.0;
        if (energy != 0.0) {
            Lanes weight = energy / modulus;
            sums->mean_real += weight * spread;
            sums->mean_imag += weight * along;
        }
        if (!logarithms || multiplicity == 0.0) continue;
        if (row->many) { /* terms that count thousands of times need all digits of small logarithms */
            Lanes across = (centre + offset) * gap;
            excess = across * (2.0 + across) + along * along;
        }
        add_logarithm(multiplicity, spread, along, excess, &logs, &angles);
    }
    sums->log_modulus += logs;
    sums->angle += angles;
}

/* Move the product into the logarithms. */
GV_ONCE void take_logarithm(Sums *sums) {
    add_logarithm(1.0, sums->real, sums->imag, sums->square - 1.0, &sums->log_modulus, &sums->angle);
    EACH(k) LANE(sums->angle, k) += 2 * PI * (double)LANE(sums->turns, k);
}

GV int in_range(Lanes x) { return everywhere(less(SPLAT(SMALL), x) & less(x, SPLAT(GREAT))); }

/* The product of s - pole, or their logarithms where it leaves the range. */
GV void multiply_poles(Region region, double centre, Lanes offset, Lanes imag, Sums *sums) {
    Lanes real = centre - region.poles[0] + offset, across = imag;
    for (int pole = 1; pole < region.pole_count; pole++) {
        Lanes spread = centre - region.poles[pole] + offset, before = real;
        real = before * spread - across * imag;
        across = before * imag + across * spread;
    }
    Lanes square = real * real + across * across;
    if (!in_range(square)) {
        for (int pole = 0; pole < region.pole_count; pole++) {
            Lanes spread = centre - region.poles[pole] + offset;
            add_logarithm(2.0, spread, imag, spread * spread + imag * imag - 1.0, &sums->log_modulus, &sums->angle);
        }
        real = square = SPLAT(1.0), across = SPLAT(0.0);
    }
    sums->pole_real = real, sums->pole_imag = across, sums->pole_square = square;
}

/* Multiply the factors of the terms start..stop-1, each as often as it counts: a few operations instead of a logarithm
   and an angle. The mean parts' sum is a fraction with the product as its denominator. 0 where it leaves the range. */
GV int multiply_terms(const Row *row, const Lanes *offset, const Lanes *imag, int start, int stop, Sums *sums) {
    Lanes real[GROUP], across[GROUP], upper_real[GROUP], upper_imag[GROUP];
    Bits turns[GROUP], inside = ~AS_BITS(SPLAT(0.0));
    EACH_BLOCK(g) real[g] = SPLAT(1.0), across[g] = upper_real[g] = upper_imag[g] = SPLAT(0.0);
    EACH_BLOCK(g) turns[g] = AS_BITS(SPLAT(0.0));
    for (int place = start; place < stop; place++) {
        double gap = row->gap[place], energy = row->direct ? 0.0 : row->energy[place], base = row->base[place];
        if (gap == 0.0) continue;
        Bits falling = AS_BITS(SPLAT(gap)) >> 63, turn = falling | 1; /* angles fall where the gap is below zero */
        for (int times = (int)row->multiplicity[place]; times > 0; times--, energy = 0.0) EACH_BLOCK(g) {
            Lanes spread = base + offset[g] * gap, along = imag[g] * gap;
            Lanes before_real = real[g], before = across[g], before_upper = upper_real[g];
            upper_real[g] = energy * before_real + before_upper * spread - upper_imag[g] * along;
            upper_imag[g] = energy * before + before_upper * along + upper_imag[g] * spread;
            real[g] = before_real * spread - before * along;
            across[g] = before_real * along + before * spread;
            /* The sign bit tells the half plane also of zeros: two angles of pi make a whole turn. */
            Bits crossed = (AS_BITS(before) ^ AS_BITS(across[g])) & ~(AS_BITS(before) ^ falling);
            turns[g] += (crossed >> 63) & turn;
        }
    }
    Lanes square[GROUP], both[GROUP];
    EACH_BLOCK(g) {
        square[g] = real[g] * real[g] + across[g] * across[g], both[g] = square[g] * sums[g].pole_square;
        inside &= less(SPLAT(SMALL), square[g]) & less(square[g], SPLAT(GREAT));
        inside &= less(SPLAT(SMALL), both[g]) & less(both[g], SPLAT(GREAT));
    }
    if (!everywhere(inside)) return 0;
    EACH_BLOCK(g) {
        Lanes inverse = 1.0 / both[g], mean = inverse * sums[g].pole_square;
        sums[g].mean_real += (upper_real[g] * real[g] + upper_imag[g] * across[g]) * mean;
        sums[g].mean_imag += (upper_real[g] * across[g] - upper_imag[g] * real[g]) * mean;
        sums[g].real = real[g], sums[g].imag = across[g], sums[g].square = square[g];
        sums[g].turns = turns[g], sums[g].inverse = inverse;
    }
    return 1;
}

/* Sums over terms and poles at a group of blocks; logarithms where a product leaves the range of doubles. */
GV void sums_at(const Row *row, Region region, double centre, const Lanes *offset, const Lanes *imag, Sums *sums) {
    EACH_BLOCK(g) {
        sums[g].mean_real = SPLAT(row->equal_energy);
        sums[g].mean_imag = sums[g].log_modulus = sums[g].angle = SPLAT(0.0);
        multiply_poles(region, centre, offset[g], imag[g], sums + g);
    }
    int fits = 0;
    for (int start = 0; start < row->count; start += TOGETHER) {
        int stop = start + TOGETHER < row->count ? start + TOGETHER : row->count;
        if (fits) EACH_BLOCK(g) take_logarithm(sums + g);
        fits = row->few && multiply_terms(row, offset, imag, start, stop, sums);
        if (!fits || row->direct)
            EACH_BLOCK(g) add_terms(row, centre, offset[g], imag[g], start, stop, !fits, sums + g);
    }
    if (fits) return;
    EACH_BLOCK(g) {
        sums[g].real = sums[g].square = SPLAT(1.0), sums[g].imag = SPLAT(0.0), sums[g].turns = AS_BITS(SPLAT(0.0));
        sums[g].inverse = 1.0 / sums[g].pole_square;
    }
}

/* log |integrand| at a group of blocks. */
GV_ONCE void log_sizes(const Row *row, Region region, double centre, const Lanes *offset, const Lanes *imag, Lanes *size) {
    Sums sums[GROUP];
    sums_at(row, region, centre, offset, imag, sums);
    EACH_BLOCK(g) {
        Sums *at = sums + g;
        Lanes poles = at->pole_square * at->pole_square, together = at->square * poles;
        if (in_range(together) && in_range(poles))
            at->log_modulus += log_block(together, together - 1.0);
        else
            at->log_modulus += log_block(at->square, at->square - 1.0) +
                               2.0 * log_block(at->pole_square, at->pole_square - 1.0);
        size[g] = log_size_block(centre + offset[g], imag[g], SPLAT(row->drift), at->log_modulus, at->mean_real,
                                 at->mean_imag);
    }
}

/* The integrand relative to e^peak: what is in logarithms by polar coordinates, over the root of the product. */
GV_ONCE void relative_values(const Row *row, Region region, double centre, double peak, const Lanes *offset,
                             const Lanes *imag, Lanes *cosine, Lanes *sine) {
    Sums sums[GROUP];
    Lanes phase[GROUP], drift = SPLAT(row->drift);
    int small = 1;
    sums_at(row, region, centre, offset, imag, sums);
    EACH_BLOCK(g) {
        phase[g] = log_phase_block(centre + offset[g], imag[g], drift, sums[g].angle, sums[g].mean_real,
                                   sums[g].mean_imag);
        small &= are_small(phase[g]);
    }
    EACH_BLOCK(g) { /* the roots and quotients first: waiting for them is time for the rest */
        const Sums *at = sums + g;
        Lanes across, along, modulus = sqrt_block(at->square);
        Lanes main = sqrt_block(0.5 * (modulus + absolute(at->real))), other = 0.5 * at->imag / main;
        Lanes size = exp_block(log_size_block(centre + offset[g], imag[g], drift, at->log_modulus, at->mean_real,
                                              at->mean_imag) - peak) * (modulus * at->inverse);
        waves(phase[g], &across, &along);
        if (!small) large_waves(phase[g], &across, &along);
        Bits leftwards = AS_BITS(at->real) >> 63;
        Lanes root_real = blend(leftwards, absolute(other), main);
        Lanes root_imag = blend(leftwards, signed_as(main, at->imag), other);
        Lanes below_real = root_real * at->pole_real - root_imag * at->pole_imag;
        Lanes below_imag = root_real * at->pole_imag + root_imag * at->pole_real;
        size = AS_LANES(AS_BITS(size) ^ (at->turns << 63)); /* each turn is half a turn of the root */
        cosine[g] = size * (across * below_real + along * below_imag);
        sine[g] = size * (along * below_real - across * below_imag);
    }
}

/* How much log |integrand| may still grow straight up from a place. */
GV double growth_above(const Row *row, double offset, double imag) {
    double growth = 0.0;
    for (int term = 0; term < row->count; term++) {
        Numbers part = branch(row->gap[term], row->base[term], offset, imag);
        if (part.at[0] < 0)
            growth += row->energy[term] * later_growth(row->gap[term], row->log_ratio[term], part.at[0], part.at[2]);
    }
    return growth;
}

/* --- the trapezoid rule */

/* sinh u, cosh u, and the nodes' offset and imaginary part, from e^u / 2 and e^-u / 2: `place` for a block. */
GV Blocks places(Lanes grow, Lanes fall, Lanes bend, double width) {
    Lanes rise = grow - fall, swing = grow + fall;
    return MAKE(Blocks){{rise, swing, width * (bend * (swing - 1.0)), width * rise}};
}

/* Numbers of a block of nodes from `first` on, at most `count`, and their weights. */
GV void number_nodes(int first, int skip, int count, Lanes *number, Lanes *weight) {
    Lanes counted = (double)first + (double)skip * ORDINALS;
    Bits beyond = less(SPLAT((double)count), counted);
    *number = blend(beyond, SPLAT((double)count), counted);
    *weight = blend(beyond, SPLAT(0.0), blend(equal(counted, SPLAT(0.0)), SPLAT(0.5), SPLAT(1.0)));
}

/* The bend with the shortest contour, and its length; `reach` where none falls off. */
GV Numbers choose_bend(const Row *row, Region region, double centre, double width, double reach, double peak) {
    int count = 0;
    while (count < PROBES_COUNT && PROBES[count] <= reach) count++;
    double level[BENDS_COUNT * PROBES_COUNT + NODES], offset[BENDS_COUNT * PROBES_COUNT + NODES];
    double imag[BENDS_COUNT * PROBES_COUNT + NODES];
    for (int first = 0, bend = 0, spot = 0; first < BENDS_COUNT * count; first += NODES) {
        Lanes swing[GROUP], aside[GROUP], above[GROUP], size[GROUP];
        EACH_BLOCK(g) {
            Lanes position, bends;
            EACH(k) {
                LANE(position, k) = PROBES[spot], LANE(bends, k) = BENDS[bend];
                if (++spot == count) spot = 0, bend = bend + 1 < BENDS_COUNT ? bend + 1 : 0;
            }
            Lanes grow = 0.5 * exp_block(position);
            Blocks at = places(grow, 0.25 / grow, bends, width);
            swing[g] = at.at[1], aside[g] = at.at[2], above[g] = at.at[3];
        }
        log_sizes(row, region, centre, aside, above, size);
        EACH_BLOCK(g) {
            Lanes found = size[g] - peak + log_block(swing[g], swing[g] - 1.0);
            EACH(k) {
                int probe = first + g * LANES + k;
                level[probe] = LANE(found, k), offset[probe] = LANE(aside[g], k), imag[probe] = LANE(above[g], k);
            }
        }
    }
    Numbers found = {{BENDS[0], reach}};
    double least = INFINITY;
    for (int bend = 0; bend < BENDS_COUNT; bend++)
        for (int spot = 0; spot < count; spot++) {
            int probe = bend * count + spot;
            if (grown(level[probe])) break;
            if (!decayed(level[probe], 0.0)) continue;
            if (!decayed(level[probe], growth_above(row, offset[probe], imag[probe]))) continue;
            double extent = PROBES[spot];
            if (reach == TRAPEZOID_RULES[1]) extent = shortened(extent, level[probe]);
            if (extent * PENALTY[bend] < least) {
                found = MAKE(Numbers){{BENDS[bend], extent}};
                least = extent * PENALTY[bend];
            }
            break;
        }
    return found;
}

/* log |integral|, slope and error by the first rule that settles; else Chernoff's bound and an infinite error. */
GV_ONCE Numbers integrate(const Row *row, Region region, double centre, double width) {
    double log_poles = 0.0;
    for (int pole = 0; pole < region.pole_count; pole++) log_poles += log(fabs(centre - region.poles[pole]));
    double rounding = exponent_rounding(row->threshold, centre, row->magnitude, row->mean_sum);
    double peak = exponent_at(row, centre) - log_poles; /* log |integrand| at the crossing itself */
    double fine = 0.0, lever = 0.0, moment = 0.0, last = 0.0;
    Numbers way = {{0.0, 0.0}};
    for (int rule = 0; rule < TRAPEZOID_RULES_COUNT; rule++) {
        const double *now = TRAPEZOID_RULES + 2 * rule;
        int count = (int)now[0], start = 0, skip = 1;
        double coarse = 0.0, coarse_lever = 0.0, coarse_moment = 0.0, tail = 0.0;
        if (rule > 0 && now[1] == now[-1] && now[0] == 2 * now[-2]) { /* only the nodes between are new */
            start = 1, skip = 2, tail = last;
            coarse = 2 * fine, coarse_lever = 2 * lever, coarse_moment = 2 * moment;
        } else {
            way = choose_bend(row, region, centre, width, now[1], peak);
            fine = lever = moment = 0.0;
        }
        double step = way.at[1] / count;
        double onwards = exp(skip * NODES * step), back = 1 / onwards;
        Lanes grow[GROUP], fall[GROUP], offset[GROUP], imag[GROUP], cosine[GROUP], sine[GROUP];
        Blocks at[GROUP];
        Lanes sums[3][2]; /* values, levers, moments at nodes of even and of odd numbers (in blocks also by lanes) */
        for (int sum = 0; sum < 3; sum++) sums[sum][0] = sums[sum][1] = SPLAT(0.0);
        for (int first = start, group = 0; first <= count; first += skip * NODES, group++) {
            int last_group = first + skip * NODES >= count;
            EACH_BLOCK(g) {
                Lanes number, weight;
                if (group % 8 == 0 || last_group) {
                    number_nodes(first + g * skip * LANES, skip, count, &number, &weight);
                    grow[g] = 0.5 * exp_block(step * number), fall[g] = 0.25 / grow[g];
                } else
                    grow[g] *= onwards, fall[g] *= back;
                at[g] = places(grow[g], fall[g], SPLAT(way.at[0]), width);
                offset[g] = at[g].at[2], imag[g] = at[g].at[3];
            }
            relative_values(row, region, centre, peak, offset, imag, cosine, sine);
            EACH_BLOCK(g) {
                Lanes number, weight;
                int place = first + g * skip * LANES;
                number_nodes(place, skip, count, &number, &weight);
                Blocks part = node_block(SPLAT(way.at[0]), at[g].at[0], at[g].at[1], centre + offset[g], imag[g], cosine[g],
                                         sine[g]);
                Lanes value = weight * part.at[0], position = step * number;
                sums[0][place % 2] += value;
                sums[1][place % 2] += position * position * value;
                sums[2][place % 2] += weight * part.at[1];
                if (last_group) EACH(k) {
                    int here = place + skip * k;
                    if (here == count) last = fabs(LANE(part.at[0], k));
                    if (here == count || here == count - 1) tail = larger(tail, fabs(LANE(part.at[0], k)));
                }
            }
        }
        fine += total(sums[0][0] + sums[0][1]), lever += total(sums[1][0] + sums[1][1]);
        moment += total(sums[2][0] + sums[2][1]);
        if (skip == 1)
            coarse = 2 * even_total(sums[0][0]), coarse_lever = 2 * even_total(sums[1][0]),
            coarse_moment = 2 * even_total(sums[2][0]);
        Numbers found = verdict(region.direction, fine, coarse, lever, coarse_lever, moment, coarse_moment, tail,
                                rounding, peak, centre, width, step);
        if (!isinf(found.at[2])) return found;
    }
    return MAKE(Numbers){{peak + log_poles + rounding, -centre, INFINITY}};
}

/* log delta, its slope and error, through 1 - delta where delta is large. */
GV Numbers log_hockey_stick(Row *row) {
    Region region = {BOTH_POLES, 2, 0.0, 1.0, INFINITY};
    Numbers at = saddle(row, region);
    set_base(row, at.at[0]);
    if (!looks_large(row->threshold, at.at[0], at.at[1], exponent_at(row, at.at[0]) + at.at[0] * row->threshold))
        return integrate(row, region, at.at[0], at.at[1]);
    region.direction = -1.0, region.limit = 1.0;
    at = saddle(row, region);
    set_base(row, at.at[0]);
    Numbers missing = integrate(row, region, at.at[0], at.at[1]);
    return from_complement(missing.at[0], missing.at[1], missing.at[2]);
}

/* log of a tail, its slope and error: a region next to its only pole. */
GV Numbers log_tail(Row *row, double pole, double direction) {
    Region region = {&pole, 1, pole, direction, INFINITY};
    Numbers at = saddle(row, region);
    set_base(row, at.at[0]);
    return integrate(row, region, at.at[0], at.at[1]);
}

/* --- moments for gradients of delta: on the CPU alone, where searches run over many small batches */

typedef struct {
    const double *gap, *log_ratio, *multiplicity, *energy, *threshold;
    double *log_value, *first, *plain, *tilted;
    unsigned char *settled;
    long long rows;
    int terms, parts;
} GradientIntegrals;

#ifndef __CUDACC__

#define MOMENT_ROOM(terms) (ROW_ROOM(terms) + ((terms) * 7 + 2 * (terms) * (terms)) * LANES)

/* One rule: Im sums of w / q_i, w / (q_i q_j), w s / (q_i q_j) over its nodes, w the integrand times s (1 + s), and
   whether it has settled, as `_rule` of gradient.py. Pairs i, j only inside each of the equal parts. */
GV int moments_by_rule(const GradientIntegrals *job, long long index, const Row *row, Region region, Numbers at,
                       double peak, const double *rule, Lanes *room) {
    int terms = job->terms, size = terms / job->parts, count = (int)rule[0];
    const double *gap = job->gap + index * terms;
    Lanes *real = room, *imag = real + terms, *lean_real = imag + terms, *lean_imag = lean_real + terms;
    Lanes *far_real = lean_imag + terms, *far_imag = far_real + terms, *first = far_imag + terms;
    Lanes *plain = first + terms, *tilted = plain + terms * size;
    double centre = at.at[0], width = at.at[1];
    Numbers way = choose_bend(row, region, centre, width, rule[1], peak);
    double step = way.at[1] / count, highest = 0.0, tail = 0.0;
    Lanes sizes = SPLAT(0.0), values[2] = {sizes, sizes}, weighed[2] = {sizes, sizes}; /* of even and odd numbers */
    for (int place = 0; place < terms; place++) first[place] = SPLAT(0.0);
    for (int place = 0; place < terms * size; place++) plain[place] = tilted[place] = SPLAT(0.0);
    for (int start = 0; start <= count; start += NODES) {
        Lanes offset[GROUP], rises[GROUP], cosines[GROUP], sines[GROUP];
        Blocks nodes[GROUP];
        EACH_BLOCK(g) {
            Lanes number, weight;
            number_nodes(start + g * LANES, 1, count, &number, &weight);
            Lanes grow = 0.5 * exp_block(step * number);
            nodes[g] = places(grow, 0.25 / grow, SPLAT(way.at[0]), width);
            offset[g] = nodes[g].at[2], rises[g] = nodes[g].at[3];
        }
        relative_values(row, region, centre, peak, offset, rises, cosines, sines);
        EACH_BLOCK(g) {
        int place = start + g * LANES;
        Lanes number, weight, cosine = cosines[g], sine = sines[g];
        Blocks node = nodes[g];
        number_nodes(place, 1, count, &number, &weight);
        Lanes lead = way.at[0] * node.at[0], swing = node.at[1], order = centre + node.at[2], rise = node.at[3];
        Lanes value_real = weight * (cosine * lead - sine * swing), value_imag = weight * (cosine * swing + sine * lead);
        values[place % 2] += value_imag;
        Lanes product_real = order * (1.0 + order) - rise * rise, product_imag = rise * (1.0 + 2.0 * order);
        Lanes w_real = value_real * product_real - value_imag * product_imag;
        Lanes w_imag = value_real * product_imag + value_imag * product_real;
        Lanes modulus = sqrt_block(w_real * w_real + w_imag * w_imag);
        weighed[place % 2] += w_imag, sizes += modulus;
        EACH(k) {
            highest = larger(highest, modulus[k]);
            if (place + k == count || place + k == count - 1) tail = larger(tail, modulus[k]);
        }
        for (int i = 0; i < terms; i++) {
            Lanes spread = 1.0 + gap[i] * order, along = gap[i] * rise;
            Lanes inverse = 1.0 / (spread * spread + along * along);
            real[i] = spread * inverse, imag[i] = -along * inverse;
            lean_real[i] = w_real * real[i] - w_imag * imag[i], lean_imag[i] = w_real * imag[i] + w_imag * real[i];
            far_real[i] = lean_real[i] * order - lean_imag[i] * rise;
            far_imag[i] = lean_real[i] * rise + lean_imag[i] * order;
            first[i] += lean_imag[i];
        }
        for (int i = 0; i < terms; i++)
            for (int j = i - i % size; j <= i; j++) {
                plain[i * size + j % size] += lean_real[i] * imag[j] + lean_imag[i] * real[j];
                tilted[i * size + j % size] += far_real[i] * imag[j] + far_imag[i] * real[j];
            }
        }
    }
    double sum = total(values[0] + values[1]), fine = total(weighed[0] + weighed[1]), scale = sum > 0 ? 1 / sum : 1.0;
    for (int i = 0; i < terms; i++) {
        job->first[index * terms + i] = scale * total(first[i]);
        for (int j = 0; j <= i % size; j++) {
            long long here = (index * terms + i) * size + j, there = (index * terms + i - i % size + j) * size + i % size;
            job->plain[here] = job->plain[there] = scale * total(plain[i * size + j]);
            job->tilted[here] = job->tilted[there] = scale * total(tilted[i * size + j]);
        }
    }
    job->log_value[index] = smaller(peak + log((sum > 0 ? sum : 1.0) * step * width / PI), 0.0);
    return sum > 0 && fabs(sum - 2 * even_total(values[0])) <= GRADIENT_HALF_RULE * sum && tail <= GRADIENT_TAIL * highest &&
           fabs(fine - 2 * even_total(weighed[0])) <= GRADIENT_HALF_RULE * total(sizes);
}

GV void moments_row(const GradientIntegrals *job, long long index, Lanes *room) {
    long long at = index * job->terms;
    Region region = {BOTH_POLES, 2, 0.0, 1.0, INFINITY};
    Row row = load(job->gap + at, job->log_ratio + at, job->multiplicity + at, job->energy + at, job->terms,
                   job->threshold[index], (double *)room);
    Numbers crossing = saddle(&row, region);
    set_base(&row, crossing.at[0]);
    double peak = exponent_at(&row, crossing.at[0]) - log(fabs(crossing.at[0] * (1 + crossing.at[0])));
    int settled = 0;
    for (int rule = 0; rule < TRAPEZOID_RULES_COUNT && !settled; rule++)
        settled = moments_by_rule(job, index, &row, region, crossing, peak, TRAPEZOID_RULES + 2 * rule,
                                  room + ROW_ROOM(job->terms) / LANES);
    job->settled[index] = (unsigned char)settled;
}

#endif

/* --- the reduction of ROWS pairs of matrices: LAPACK's work for small matrices, without eigenvectors

   What the terms need of the eigenvectors is one product with a vector, so the reflections and rotations that
   diagonalise the whitened difference are applied to that vector alone. Rows that need anything special (an error
   message, singular values) are left to reduction.py. */

#define EACH_ROW(lane) for (int lane = 0; lane < ROWS; lane++)
#ifdef __CUDACC__
#define WIDE_SPLAT(number) (number)
#else
#define WIDE_SPLAT(number) ((number) - (Wide){0})
#endif

GV Wide wide_sqrt(Wide x) {
    EACH_ROW(k) LANE(x, k) = sqrt(LANE(x, k));
    return x;
}
GV Wide wide_size(Wide x) {
    EACH_ROW(k) LANE(x, k) = fabs(LANE(x, k));
    return x;
}
GV Wide wide_signed(Wide size, Wide of) {
    EACH_ROW(k) LANE(size, k) = copysign(LANE(size, k), LANE(of, k));
    return size;
}

#define AT(matrix, i, j) (matrix)[(i) * size + (j)]
#define SWEEPS 60 /* of rotations for one eigenvalue; two or three are usual */

/* The scaled symmetric part of one lane, lower triangle; 0 where the matrix is not symmetric. */
GV int symmetric(const double *cov, int size, const Wide *scale, Wide *into, int lane) {
    int same = 1;
    for (int row = 0; row < size; row++)
        for (int column = 0; column <= row; column++) {
            double entry = AT(cov, row, column), mirrored = AT(cov, column, row);
            if (entry != mirrored) same &= agree(entry, mirrored, AT(cov, row, row), AT(cov, column, column)) != 0;
            LANE(AT(into, row, column), lane) =
                (entry + mirrored) / 2 * LANE(scale[row], lane) * LANE(scale[column], lane);
        }
    return same;
}

/* Lower factors in place; lanes singular to working precision are left. */
GV void cholesky(Wide *cov, int size, Wide *inverse_pivots, int *left) {
    for (int column = 0; column < size; column++) {
        Wide pivot = AT(cov, column, column);
        for (int inner = 0; inner < column; inner++) pivot -= AT(cov, column, inner) * AT(cov, column, inner);
        EACH_ROW(k) {
            int fails = !definite(LANE(pivot, k) / LANE(AT(cov, column, column), k), size);
            left[k] |= fails;
            if (fails) LANE(pivot, k) = 1.0;
        }
        AT(cov, column, column) = wide_sqrt(pivot);
        Wide inverse = inverse_pivots[column] = 1.0 / AT(cov, column, column);
        for (int row = column + 1; row < size; row++) {
            Wide entry = AT(cov, row, column);
            for (int inner = 0; inner < column; inner++) entry -= AT(cov, row, inner) * AT(cov, column, inner);
            AT(cov, row, column) = entry * inverse;
        }
    }
}

/* rows <- factor^-1 rows, in place. */
GV void solve_rows(const Wide *factor, int size, const Wide *inverse_pivots, Wide *rows) {
    for (int row = 0; row < size; row++)
        for (int column = 0; column < size; column++) {
            Wide entry = AT(rows, row, column);
            for (int inner = 0; inner < row; inner++) entry -= AT(factor, row, inner) * AT(rows, inner, column);
            AT(rows, row, column) = entry * inverse_pivots[row];
        }
}

/* rows <- factor^-1 rows', in place, where the result is symmetric. */
GV void solve_mirrored(const Wide *factor, int size, const Wide *inverse_pivots, Wide *rows) {
    for (int row = 0; row < size; row++)
        for (int column = row; column < size; column++) {
            Wide entry = AT(rows, column, row);
            for (int inner = 0; inner < row; inner++) entry -= AT(factor, row, inner) * AT(rows, column, inner);
            AT(rows, column, row) = entry * inverse_pivots[row];
        }
}

/* Householder reflections that make symmetric matrices (lower triangles) tridiagonal, applied to the vectors too. */
GV void tridiagonal(Wide *matrix, int size, Wide *vector, Wide *beside, Wide *mirror, Wide *image) {
    for (int start = 1; start < size - 1; start++) {
        Wide square = WIDE_SPLAT(0.0), overlap = WIDE_SPLAT(0.0), along = WIDE_SPLAT(0.0), head = AT(matrix, start, start - 1);
        for (int row = start; row < size; row++) {
            mirror[row] = AT(matrix, row, start - 1);
            image[row] = WIDE_SPLAT(0.0);
            if (row > start) square += mirror[row] * mirror[row];
        }
        Wide length = wide_sqrt(square + head * head);
        Wide edge = wide_signed(length, head), factor = 1.0 / (length * (length + wide_size(head)));
        edge = -edge;
        /* 2 / |mirror|^2, or nothing where nothing is to be done */
        EACH_ROW(k) if (LANE(square, k) == 0.0) LANE(edge, k) = LANE(head, k), LANE(factor, k) = 0.0;
        mirror[start] = head - edge;
        beside[start - 1] = edge;
        for (int row = start; row < size; row++) {
            Wide value = AT(matrix, row, row) * mirror[row];
            for (int column = start; column < row; column++) {
                value += AT(matrix, row, column) * mirror[column];
                image[column] += AT(matrix, row, column) * mirror[row];
            }
            image[row] += value;
        }
        for (int row = start; row < size; row++) {
            image[row] *= factor;
            overlap += mirror[row] * image[row];
            along += mirror[row] * vector[row];
        }
        for (int row = start; row < size; row++) {
            image[row] -= 0.5 * factor * overlap * mirror[row];
            vector[row] -= factor * along * mirror[row];
        }
        for (int row = start; row < size; row++)
            for (int column = start; column <= row; column++)
                AT(matrix, row, column) -= mirror[row] * image[column] + image[row] * mirror[column];
    }
    if (size > 1) beside[size - 2] = AT(matrix, size - 1, size - 2);
}

/* Implicit QL sweeps over a tridiagonal matrix until nothing is left beside the diagonal, applied to a vector too. Wide
   take their rotations in turn: a square root and a quotient are waited for in each, and other lanes fill the wait. */
typedef struct {
    double *diagonal, *beside, *vector;
    int low, high, place, sweeps, state; /* state: 1 at work, 0 done, -1 failed */
    double sine, cosine, moved, chase;
} Sweep;

GV void next_sweep(Sweep *at, int size) {
    const double *diagonal = at->diagonal, *beside = at->beside;
    for (;; at->low++, at->sweeps = 0) {
        int low = at->low, high = low;
        if (low >= size) {
            at->state = 0;
            return;
        }
        while (high < size - 1 &&
               !(fabs(beside[high]) <= UNIT_ROUNDOFF * (fabs(diagonal[high]) + fabs(diagonal[high + 1]))))
            high++;
        if (high == low) continue;
        if (at->sweeps++ == SWEEPS) {
            at->state = -1;
            return;
        }
        double half = (diagonal[low + 1] - diagonal[low]) / (2 * beside[low]);
        double shift = half + copysign(sqrt(half * half + 1), half);
        at->chase = diagonal[high] - diagonal[low] + beside[low] / shift;
        at->sine = at->cosine = 1.0, at->moved = 0.0;
        at->high = high, at->place = high - 1;
        return;
    }
}

GV void rotate(Sweep *at, int size) {
    double *diagonal = at->diagonal, *beside = at->beside, *vector = at->vector;
    int place = at->place--;
    double bulge = at->sine * beside[place], rest = at->cosine * beside[place];
    double length = sqrt(bulge * bulge + at->chase * at->chase);
    beside[place + 1] = length;
    if (length == 0.0) {
        diagonal[place + 1] -= at->moved;
        beside[at->high] = 0.0;
        next_sweep(at, size);
        return;
    }
    double inverse = 1 / length, sine = bulge * inverse, cosine = at->chase * inverse;
    double chase = diagonal[place + 1] - at->moved;
    double turn = (diagonal[place] - chase) * sine + 2 * cosine * rest;
    at->moved = sine * turn;
    diagonal[place + 1] = chase + at->moved;
    at->chase = cosine * turn - rest;
    at->sine = sine, at->cosine = cosine;
    double lower = vector[place], upper = vector[place + 1];
    vector[place + 1] = sine * lower + cosine * upper;
    vector[place] = cosine * lower - sine * upper;
    if (place > at->low) return;
    diagonal[place] -= at->moved;
    beside[place] = at->chase;
    beside[at->high] = 0.0;
    next_sweep(at, size);
}

/* Zero for what is rounding noise beside the largest. */
GV void clean(double *values, int size) {
    double largest = 0.0;
    for (int place = 0; place < size; place++) largest = larger(largest, fabs(values[place]));
    for (int place = 0; place < size; place++)
        if (is_noise(values[place], largest, size)) values[place] = 0.0;
}

/* Ascending order; the companion follows. */
GV void sort_together(double *values, double *companion, int size) {
    for (int place = 1; place < size; place++) {
        double value = values[place], other = companion[place];
        int hole = place;
        for (; hole > 0 && values[hole - 1] > value; hole--)
            values[hole] = values[hole - 1], companion[hole] = companion[hole - 1];
        values[hole] = value, companion[hole] = other;
    }
}

#define REDUCTION_ROOM(size) ((2 * (size) + 7) * (size)*ROWS)

typedef struct {
    const double *mean_x, *cov_x, *mean_y, *cov_y;
    double *gap, *log_ratio, *mean_gap, *strain;
    unsigned char *left;
    long long rows;
    int size;
} Reductions;

/* The trace of a matrix times that of its inverse, from its factor: at least its condition number. */
GV Wide strain_of(const Wide *factor, int size, const Wide *inverse_pivots, Wide *column) {
    Wide trace = WIDE_SPLAT(0.0), inverse_trace = WIDE_SPLAT(0.0);
    for (int start = 0; start < size; start++)
        for (int row = start; row < size; row++) {
            Wide entry = WIDE_SPLAT(row == start ? 1.0 : 0.0);
            for (int inner = start; inner < row; inner++) entry -= AT(factor, row, inner) * column[inner];
            column[row] = entry * inverse_pivots[row];
            inverse_trace += column[row] * column[row];
            trace += AT(factor, row, start) * AT(factor, row, start);
        }
    return trace * inverse_trace;
}

/* Variance gaps, logs of ratios and mean gaps of ROWS pairs; `left` where the array library has to look. */
GV void reduce_lanes(const Reductions *job, long long first, Wide *room) {
    int size = job->size, left[ROWS];
    Wide *factor = room, *difference = factor + size * size, *scale = difference + size * size;
    Wide *inverse_pivots = scale + size, *beside = inverse_pivots + size, *mirror = beside + size;
    Wide *image = mirror + size, *shift = image + size, unit = WIDE_SPLAT(1.0), inverse_unit = WIDE_SPLAT(1.0);
    long long rows[ROWS];
    EACH_ROW(k) rows[k] = first + k < job->rows ? first + k : job->rows - 1;
    EACH_ROW(k) {
        const double *cov_x = job->cov_x + rows[k] * size * size, *cov_y = job->cov_y + rows[k] * size * size;
        const double *mean_x = job->mean_x + rows[k] * size, *mean_y = job->mean_y + rows[k] * size;
        left[k] = 0;
        for (int row = 0; row < size; row++) {
            int positive = AT(cov_y, row, row) > 0;
            left[k] |= !positive;
            LANE(scale[row], k) = positive ? scale_of(AT(cov_y, row, row)) : 1.0;
            LANE(shift[row], k) = (mean_x[row] - mean_y[row]) * LANE(scale[row], k);
        }
        left[k] |= !symmetric(cov_y, size, scale, factor, k);
        left[k] |= !symmetric(cov_x, size, scale, difference, k);
    }
    Wide largest = WIDE_SPLAT(0.0);
    for (int row = 0; row < size; row++)
        for (int column = 0; column <= row; column++) {
            Wide entry = AT(difference, row, column) = AT(factor, row, column) - AT(difference, row, column);
            EACH_ROW(k) LANE(largest, k) = larger(LANE(largest, k), fabs(LANE(entry, k)));
        }
    /* A power of two keeps squares of the entries within the range of doubles and changes no digit. */
    EACH_ROW(k) {
        int exponent = 0;
        if (LANE(largest, k) > 0 && LANE(largest, k) < INFINITY) frexp(LANE(largest, k), &exponent);
        LANE(unit, k) = ldexp(1.0, exponent), LANE(inverse_unit, k) = ldexp(1.0, -exponent);
    }
    for (int row = 0; row < size; row++)
        for (int column = 0; column <= row; column++)
            AT(difference, column, row) = AT(difference, row, column) *= inverse_unit;
    cholesky(factor, size, inverse_pivots, left);
    Wide strain = strain_of(factor, size, inverse_pivots, mirror);
    for (int row = 0; row < size; row++) {
        for (int inner = 0; inner < row; inner++) shift[row] -= AT(factor, row, inner) * shift[inner];
        shift[row] *= inverse_pivots[row];
    }
    solve_rows(factor, size, inverse_pivots, difference);
    solve_mirrored(factor, size, inverse_pivots, difference);
    tridiagonal(difference, size, shift, beside, mirror, image);
    Sweep sweeps[ROWS];
    EACH_ROW(k) {
        Sweep *at = sweeps + k;
        *at = MAKE(Sweep){job->gap + rows[k] * size, (double *)mirror + k * size, job->mean_gap + rows[k] * size};
        at->state = rows[k] == first + k; /* lanes beyond the last row repeat it */
        if (!at->state) continue;
        for (int row = 0; row < size; row++) {
            at->diagonal[row] = LANE(AT(difference, row, row), k);
            at->beside[row] = LANE(beside[row], k);
            at->vector[row] = LANE(shift[row], k);
        }
        next_sweep(at, size);
    }
    for (int working = 1; working;) {
        working = 0;
        EACH_ROW(k) if (sweeps[k].state > 0) {
            rotate(sweeps + k, size);
            working = 1;
        }
    }
    for (int k = 0; k < ROWS && first + k < job->rows; k++) {
        double *gap = sweeps[k].diagonal, *mean_gap = sweeps[k].vector;
        left[k] |= sweeps[k].state < 0;
        for (int row = 0; row < size; row++) gap[row] *= LANE(unit, k);
        sort_together(gap, mean_gap, size);
        clean(gap, size);
        clean(mean_gap, size);
        left[k] |= spans_decades(gap[0], gap[size - 1]) != 0;
        for (int row = 0; row < size; row++) job->log_ratio[rows[k] * size + row] = log_ratio_of(gap[row]);
        job->left[rows[k]] = (unsigned char)left[k];
        job->strain[rows[k]] = LANE(strain, k);
    }
}

/* --- entry points: rows of contiguous doubles; terms that serve all rows have a stride of 0 */

typedef struct {
    const double *gap, *log_ratio, *multiplicity, *energy, *threshold;
    double *log_value, *slope, *log_error;
    long long rows, stride;
    int terms, tail;
    double pole, direction;
} Integrals;

GV void integral_row(const Integrals *job, long long index, double *room) {
    long long at = index * job->stride;
    Row row = load(job->gap + at, job->log_ratio + at, job->multiplicity + at, job->energy + at, job->terms,
                   job->threshold[index], room);
    Numbers found = job->tail ? log_tail(&row, job->pole, job->direction) : log_hockey_stick(&row);
    job->log_value[index] = found.at[0], job->slope[index] = found.at[1], job->log_error[index] = found.at[2];
}

#ifdef __CUDACC__

extern "C" __global__ void integrals(Integrals job) {
    double room[ROW_ROOM(MOST_TERMS)];
    long long index = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (index < job.rows) integral_row(&job, index, room);
}

extern "C" __global__ void reductions(Reductions job) {
    double room[REDUCTION_ROOM(MOST_TERMS)];
    long long index = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (index < job.rows) reduce_lanes(&job, index, room);
}

#else

/* gaussveil_NAME of one job: 0, or 1 where memory is lacking. Of two objects in one library, WIDE is the one for wider
   vectors, and the one BESIDE_WIDE calls it where the processor has them. */
#if defined(WIDE)
#define ENTRY(name, Job) int gaussveil_wide_##name(const Job *job)
#elif defined(BESIDE_WIDE)
#define ENTRY(name, Job)                                                                                               \
    int gaussveil_wide_##name(const Job *job);                                                                         \
    static int name##_here(const Job *job);                                                                            \
    int gaussveil_##name(const Job *job) {                                                                             \
        int wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");                                    \
        return wide ? gaussveil_wide_##name(job) : name##_here(job);                                                   \
    }                                                                                                                  \
    static int name##_here(const Job *job)
#else
#define ENTRY(name, Job) int gaussveil_##name(const Job *job)
#endif

#ifndef WIDE
const char *gaussveil_revision(void) { return REVISION; }
#endif

ENTRY(integrals, Integrals) {
    double *room = aligned_alloc(sizeof(Wide), sizeof(double) * ROW_ROOM(job->terms));
    if (!room) return 1;
    for (long long index = 0; index < job->rows; index++) integral_row(job, index, room);
    free(room);
    return 0;
}

ENTRY(moments, GradientIntegrals) {
    Lanes *room = aligned_alloc(sizeof(Wide), sizeof(double) * MOMENT_ROOM(job->terms));
    if (!room) return 1;
    for (long long index = 0; index < job->rows; index++) moments_row(job, index, room);
    free(room);
    return 0;
}

ENTRY(reductions, Reductions) {
    Wide *room = aligned_alloc(sizeof(Wide), sizeof(double) * REDUCTION_ROOM(job->size));
    if (!room) return 1;
    for (long long first = 0; first < job->rows; first += ROWS) reduce_lanes(job, first, room);
    free(room);
    return 0;
}

#include "proofs.h"
#include "steps.h"

#endif

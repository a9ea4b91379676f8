/* The optional compiled kernel: what `kernel.py`, `pointwise.py`, `moments.py` and `distribution.py` do block by block
 * with numpy, in one sweep over both sides.
 *
 * A block is cut into tiles that stay in the first cache. Of each tile both sides are widened to double, then ranged,
 * then swept. Every sum has LANES accumulators whatever the machine's vectors hold, and nothing is contracted or
 * reordered, so that all machines give the same bits. Loops over lanes are plain C that compilers turn into vectors.
 *
 * What would need scaled sums (magnitudes beyond 2**300) is refused, and the block is left as if it had not been seen:
 * the caller measures it with numpy.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__)
#error "the kernel needs a compiler that knows GNU C; without it numpy does the work"
#endif
#if FLT_EVAL_METHOD != 0 || defined(__FAST_MATH__)
#error "the kernel needs doubles that are rounded to double, and NaN and Inf; without them numpy does the work"
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute) && !defined(MSDUMP_ONE_TARGET)
#if __has_attribute(target_clones)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef CLONES
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = 8,
    FLOAT_LANES = 2 * LANES,
    GROUP = 4 * LANES, /* four vectors at a time: they share one division */
    CHUNK = 512,       /* how far a search for a maximum's place goes at most */
    TILE = 1024,
    MOST_WORST = 16,
};

#define EACH_LANE for (int j = 0; j < LANES; j++)
#define EACH_FLOAT_LANE for (int j = 0; j < FLOAT_LANES; j++)

static const double SAFE_HIGH = 0x1p300, SAFE_LOW = 0x1p-301;

/* Raw elements may lie at any address. */
typedef float RawFloat __attribute__((may_alias, aligned(1)));
typedef double RawDouble __attribute__((may_alias, aligned(1)));
typedef uint8_t RawU8 __attribute__((may_alias, aligned(1)));
typedef int8_t RawI8 __attribute__((may_alias, aligned(1)));
typedef uint16_t RawU16 __attribute__((may_alias, aligned(1)));
typedef int16_t RawI16 __attribute__((may_alias, aligned(1)));
typedef uint32_t RawU32 __attribute__((may_alias, aligned(1)));
typedef int32_t RawI32 __attribute__((may_alias, aligned(1)));
typedef uint64_t RawU64 __attribute__((may_alias, aligned(1)));

typedef enum { FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8, UINT8, INT16, UINT16, INT32, UINT32, BOOL, KINDS } Kind;

static const Py_ssize_t ITEMSIZE[KINDS] = {4, 8, 2, 2, 1, 1, 2, 2, 4, 4, 1};

#define LESS(a, b) ((a) < (b) ? (a) : (b))
#define MORE(a, b) ((a) > (b) ? (a) : (b))

/* -- sums ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    double high, low;
} Sum;

typedef struct {
    double v[LANES];
} Lanes;

INLINE void add_to(Sum *sum, double value)
{
    /* Knuth's two-sum, as `sums.py` has it. */
    double high = sum->high + value;
    double part = high - sum->high;
    sum->low += (sum->high - (high - part)) + (value - part);
    sum->high = high;
}

INLINE double value_of(const Sum *sum)
{
    return sum->high + sum->low;
}

INLINE double across(const double *v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

INLINE double greatest(const double *v)
{
    double most = v[0];
    for (int j = 1; j < LANES; j++)
        most = v[j] > most ? v[j] : most;
    return most;
}

INLINE double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* -- from stored elements to doubles ------------------------------------------------------------------------------- */

INLINE float half_value(uint32_t half)
{
    uint32_t magnitude = half & 0x7fffu, sign = (half & 0x8000u) << 16;
    /* Normal: the exponent's bias grows from 15 to 127; beyond the largest, to float32's own NaN and Inf. */
    uint32_t normal = (magnitude << 13) + (112u << 23) + (magnitude >= 0x7c00u ? 112u << 23 : 0u);
    /* Subnormal: m·2**-24 is what is left of 2**-14 + m·2**-24; no subnormal float is ever touched. */
    float small = float_of((magnitude << 13) + (113u << 23)) - 0x1p-14f;
    uint32_t bits;
    memcpy(&bits, &small, sizeof bits);
    return float_of((magnitude < 0x0400u ? bits : normal) | sign);
}

#define CONVERT(TO, TYPE, VALUE)                                                                                       \
    do {                                                                                                               \
        const TYPE *in = raw;                                                                                          \
        for (Py_ssize_t i = 0; i < count; i++)                                                                         \
            out[i] = (TO)(VALUE);                                                                                      \
    } while (0)

/* Whether every element is a float, exactly. */
INLINE int is_narrow(Kind kind)
{
    return kind != FLOAT64 && kind != INT32 && kind != UINT32;
}

CLONES static void half_floats(const RawU16 *restrict raw, Py_ssize_t count, float *restrict out)
{
    /* First wide, then all in vectors of one width. */
    uint32_t words[TILE];
    for (Py_ssize_t i = 0; i < count; i++)
        words[i] = raw[i];
    for (Py_ssize_t i = 0; i < count; i++)
        out[i] = half_value(words[i]);
}

CLONES static void to_floats(Kind kind, const void *restrict raw, Py_ssize_t count, float *restrict out)
{
    switch (kind) {
    case FLOAT16: half_floats(raw, count, out); break;
    case BFLOAT16: CONVERT(float, RawU16, float_of((uint32_t)in[i] << 16)); break;
    case INT8: CONVERT(float, RawI8, in[i]); break;
    case UINT8: CONVERT(float, RawU8, in[i]); break;
    case INT16: CONVERT(float, RawI16, in[i]); break;
    case UINT16: CONVERT(float, RawU16, in[i]); break;
    case BOOL: CONVERT(float, RawU8, in[i] != 0); break;
    default: CONVERT(float, RawFloat, in[i]); break;
    }
}

CLONES static void to_doubles(Kind kind, const void *restrict raw, Py_ssize_t count, double *restrict out)
{
    switch (kind) {
    case INT32: CONVERT(double, RawI32, in[i]); break;
    /* 2**52 + x, less 2**52: few machines have an instruction for unsigned numbers. */
    case UINT32: CONVERT(double, RawU32, double_of(0x4330000000000000u | in[i]) - 0x1p52); break;
    default: CONVERT(double, RawDouble, in[i]); break;
    }
}

#define COUNT_DIFFERING(TYPE)                                                                                          \
    do {                                                                                                               \
        const TYPE *a = left, *b = right;                                                                              \
        for (Py_ssize_t i = 0; i < count; i++)                                                                         \
            differing += a[i] != b[i];                                                                                 \
    } while (0)

CLONES static uint32_t differing_bits(Py_ssize_t itemsize, const void *left, const void *right, Py_ssize_t count)
{
    uint32_t differing = 0;
    switch (itemsize) {
    case 1: COUNT_DIFFERING(RawU8); break;
    case 2: COUNT_DIFFERING(RawU16); break;
    case 4: COUNT_DIFFERING(RawU32); break;
    default: COUNT_DIFFERING(RawU64); break;
    }
    return differing;
}

/* -- one side ------------------------------------------------------------------------------------------------------ */

typedef struct {
    double minimum, maximum, total;
    double least; /* of all magnitudes */
} Range;

/* As `moments.Moments`. */
typedef struct {
    long long elements;
    Sum total, deviations;
    double minimum, maximum;
} Moments;

/* The total is not finite if one of the elements is not; the rest means nothing then. */
CLONES static Range range_of(const double *restrict x, Py_ssize_t count)
{
    Lanes low, high, near, total;
    Py_ssize_t whole = count - count % GROUP;
    EACH_LANE {
        low.v[j] = high.v[j] = x[0];
        near.v[j] = fabs(x[0]);
        total.v[j] = 0.0;
    }
    for (Py_ssize_t i = 0; i < whole; i += GROUP)
        EACH_LANE {
            double a = x[i + j], b = x[i + LANES + j], c = x[i + 2 * LANES + j], d = x[i + 3 * LANES + j];
            double least = LESS(LESS(a, b), LESS(c, d)), most = MORE(MORE(a, b), MORE(c, d));
            double nearest = LESS(LESS(fabs(a), fabs(b)), LESS(fabs(c), fabs(d)));
            low.v[j] = LESS(least, low.v[j]);
            high.v[j] = MORE(most, high.v[j]);
            near.v[j] = LESS(nearest, near.v[j]);
            total.v[j] += (a + b) + (c + d);
        }
    Range range = {low.v[0], high.v[0], across(total.v), near.v[0]};
    EACH_LANE {
        range.minimum = LESS(low.v[j], range.minimum);
        range.maximum = MORE(high.v[j], range.maximum);
        range.least = LESS(near.v[j], range.least);
    }
    for (Py_ssize_t i = whole; i < count; i++) {
        range.minimum = LESS(x[i], range.minimum);
        range.maximum = MORE(x[i], range.maximum);
        range.least = LESS(fabs(x[i]), range.least);
        range.total += x[i];
    }
    return range;
}

/* Minimum, maximum and least magnitude of floats: twice as fast as of doubles. */
CLONES static Range range_of_floats(const RawFloat *restrict x, Py_ssize_t count)
{
    float low[FLOAT_LANES], high[FLOAT_LANES], near[FLOAT_LANES];
    Py_ssize_t whole = count - count % GROUP;
    EACH_FLOAT_LANE {
        low[j] = high[j] = x[0];
        near[j] = fabsf(x[0]);
    }
    for (Py_ssize_t i = 0; i < whole; i += GROUP)
        EACH_FLOAT_LANE {
            float a = x[i + j], b = x[i + FLOAT_LANES + j];
            float least = LESS(a, b), most = MORE(a, b), nearest = LESS(fabsf(a), fabsf(b));
            low[j] = LESS(least, low[j]);
            high[j] = MORE(most, high[j]);
            near[j] = LESS(nearest, near[j]);
        }
    for (Py_ssize_t i = whole; i < count; i++) {
        low[0] = LESS(x[i], low[0]);
        high[0] = MORE(x[i], high[0]);
        near[0] = LESS(fabsf(x[i]), near[0]);
    }
    for (int half = FLOAT_LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++) {
            low[j] = LESS(low[j + half], low[j]);
            high[j] = MORE(high[j + half], high[j]);
            near[j] = LESS(near[j + half], near[j]);
        }
    return (Range){low[0], high[0], 0.0, near[0]};
}

CLONES static void widen(const RawFloat *restrict x, Py_ssize_t count, double *restrict out)
{
    for (Py_ssize_t i = 0; i < count; i++)
        out[i] = (double)x[i];
}

CLONES static double total_of(const double *restrict x, Py_ssize_t count)
{
    Lanes total;
    Py_ssize_t whole = count - count % GROUP;
    EACH_LANE total.v[j] = 0.0;
    for (Py_ssize_t i = 0; i < whole; i += GROUP)
        EACH_LANE total.v[j] += (x[i + j] + x[i + LANES + j]) + (x[i + 2 * LANES + j] + x[i + 3 * LANES + j]);
    double sum = across(total.v);
    for (Py_ssize_t i = whole; i < count; i++)
        sum += x[i];
    return sum;
}

/* Bring one side of a tile to doubles, and return its range. */
static Range take(Kind kind, const void *raw, Py_ssize_t count, float *floats, double *out)
{
    if (!is_narrow(kind)) {
        to_doubles(kind, raw, count, out);
        return range_of(out, count);
    }
    const void *x = raw;
    if (kind != FLOAT32) {
        to_floats(kind, raw, count, floats);
        x = floats;
    }
    Range range = range_of_floats(x, count);
    widen(x, count, out);
    range.total = total_of(out, count);
    return range;
}

CLONES static double deviations_from(double mean, const double *restrict x, Py_ssize_t count)
{
    Lanes total;
    Py_ssize_t whole = count - count % GROUP;
    EACH_LANE total.v[j] = 0.0;
    for (Py_ssize_t i = 0; i < whole; i += GROUP)
        EACH_LANE {
            double a = x[i + j] - mean, b = x[i + LANES + j] - mean;
            double c = x[i + 2 * LANES + j] - mean, d = x[i + 3 * LANES + j] - mean;
            total.v[j] += (a * a + b * b) + (c * c + d * d);
        }
    double sum = across(total.v);
    for (Py_ssize_t i = whole; i < count; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

INLINE double peak_of(const Range *range)
{
    return MORE(-range->minimum, range->maximum);
}

/* Whether squares of such a magnitude, and their sums, can be taken as they are (`sums.scale_exponent` is 0). */
INLINE int is_safe(double magnitude)
{
    return magnitude == 0.0 || (magnitude >= SAFE_LOW && magnitude < SAFE_HIGH);
}

/* A tile's squared deviations from its mean. */
INLINE double deviations_of(const Range *range, const double *x, Py_ssize_t count)
{
    return range->minimum == range->maximum ? 0.0 : deviations_from(range->total / (double)count, x, count);
}

/* Add one tile to a side's moments, after Chan, Golub and LeVeque. */
INLINE void add_moments(Moments *all, const Range *range, double deviations, Py_ssize_t count)
{
    double number = (double)count;
    double total = range->minimum == range->maximum ? range->minimum * number : range->total;
    double minimum = LESS(range->minimum, all->minimum), maximum = MORE(range->maximum, all->maximum);
    if (all->elements && minimum != maximum) {
        double before = (double)all->elements;
        double step = total / number - value_of(&all->total) / before;
        deviations += step * step * (before / (before + number) * number);
    }
    add_to(&all->deviations, deviations);
    add_to(&all->total, total);
    all->minimum = minimum;
    all->maximum = maximum;
    all->elements += count;
}

/* -- both sides ---------------------------------------------------------------------------------------------------- */

/* A value and the number of the first element that has it; -1 while nothing exceeded 0. As `sums.Peak`. */
typedef struct {
    double value;
    long long element;
} Peak;

/* As `worst.Candidate`: `forbidden` where nothing is allowed, and then the score is |l-r|, else the ratio. */
typedef struct {
    double score, left, right;
    long long element;
    int forbidden;
} Candidate;

typedef struct {
    double left, right;
    long long element;
} Mismatch;

/* As `nonfinite.Classes`. */
enum { NAN_BOTH, NAN_LEFT, NAN_RIGHT, INF_BOTH, INF_LEFT, INF_RIGHT, MISMATCH, LEFT_ONLY, CLASS_COUNTS };

/* What is known of the blocks seen so far. As `kernel.Partial`. */
typedef struct {
    long long elements, bits, differing, right_zero, outside, saturated;
    long long classes[CLASS_COUNTS], first_mismatch, first_nonfinite, first_left_only, first_saturated;
    Moments left, right;
    Sum product, absolute, squares, relative;
    /* Of integers: Σ|l-r| is exact_high·2**32 + exact_low. */
    unsigned long long exact_high, exact_low;
    double right_peak;
    Peak largest, largest_relative;
    Candidate worst[MOST_WORST];
    Mismatch mismatches[MOST_WORST];
    int worst_count, mismatch_count;
} Found;

typedef struct {
    Kind left, right;
    double rtol, atol, maximum;
    int worst, compare_bits;
} Job;

/* Buffers of one tile. `places` is used where elements were left out. */
typedef struct {
    double left[TILE] __attribute__((aligned(64)));
    double right[TILE] __attribute__((aligned(64)));
    float floats[TILE] __attribute__((aligned(64)));
    int32_t places[TILE];
} Tile;

INLINE long long element_at(const Tile *tile, int split, long long start, Py_ssize_t place)
{
    return start + (split ? tile->places[place] : (long long)place);
}

INLINE void first_of(long long *first, long long element)
{
    if (*first < 0 || element < *first)
        *first = element;
}

/* 0 finite, 1 or 2 Inf, 3 NaN */
INLINE int class_of(double x)
{
    return x != x ? 3 : x > DBL_MAX ? 1 : x < -DBL_MAX ? 2 : 0;
}

/* Count classes, and move what is finite on both sides to the front. Return how many these are. */
static Py_ssize_t split_classes(Tile *tile, Py_ssize_t count, long long start, const Job *job, Found *found)
{
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        double l = tile->left[i], r = tile->right[i];
        int a = class_of(l), b = class_of(r);
        long long element = start + i;
        if (!a && !b) {
            tile->left[kept] = l;
            tile->right[kept] = r;
            tile->places[kept++] = (int32_t)i;
            continue;
        }
        first_of(&found->first_nonfinite, element);
        found->classes[NAN_BOTH] += a == 3 && b == 3;
        found->classes[NAN_LEFT] += a == 3 && b != 3;
        found->classes[NAN_RIGHT] += a != 3 && b == 3;
        found->classes[INF_BOTH] += a == b && a != 3;
        found->classes[INF_LEFT] += (a == 1 || a == 2) && a != b;
        found->classes[INF_RIGHT] += (b == 1 || b == 2) && a != b;
        if (!b) {
            found->classes[LEFT_ONLY]++;
            first_of(&found->first_left_only, element);
        }
        if (a != b) {
            found->classes[MISMATCH]++;
            first_of(&found->first_mismatch, element);
            if (found->mismatch_count < job->worst)
                found->mismatches[found->mismatch_count++] = (Mismatch){l, r, element};
        }
    }
    return kept;
}

/* -- the worst elements -------------------------------------------------------------------------------------------- */

/* The score that has to be exceeded to be one of the worst. */
INLINE double floor_of(const Found *found, const Job *job, int forbidden)
{
    if (job->worst == 0)
        return INFINITY;
    if (found->worst_count < job->worst)
        return 0.0;
    const Candidate *last = &found->worst[job->worst - 1];
    if (last->forbidden != forbidden)
        return forbidden ? 0.0 : INFINITY;
    return last->score;
}

/* Elements come in ascending order, so that of equals the one that is there already stays in front. */
static void insert(Found *found, const Job *job, Candidate candidate)
{
    int place = found->worst_count < job->worst ? found->worst_count++ : job->worst - 1;
    while (place > 0) {
        const Candidate *before = &found->worst[place - 1];
        if (before->forbidden > candidate.forbidden)
            break;
        if (before->forbidden == candidate.forbidden && before->score >= candidate.score)
            break;
        found->worst[place] = *before;
        place--;
    }
    found->worst[place] = candidate;
}

/* What a chunk's elements are ranked by: |l-r| where there is no tolerance, else |l-r| / (atol + rtol·|r|). */
typedef struct {
    double rtol, atol;
    int forbidden;
} Scale;

INLINE Scale scale_of(const Job *job)
{
    int forbidden = job->rtol == 0.0 && job->atol == 0.0;
    return forbidden ? (Scale){0.0, 1.0, 1} : (Scale){job->rtol, job->atol, 0};
}

CLONES static void find_worst(const Tile *tile, int split, long long start, Py_ssize_t from, Py_ssize_t to,
                              const Job *job, Found *found)
{
    const double *l = tile->left, *r = tile->right;
    const Scale scale = scale_of(job);
    double floor = floor_of(found, job, scale.forbidden), floor_forbidden = floor_of(found, job, 1);
    Lanes any;
    EACH_LANE any.v[j] = 0.0;
    for (Py_ssize_t i = from; i < to; i += LANES)
        EACH_LANE {
            double a = fabs(l[i + j] - r[i + j]), allowed = fabs(r[i + j]) * scale.rtol + scale.atol;
            double least = allowed == 0.0 ? floor_forbidden : floor, score = a / (allowed == 0.0 ? 1.0 : allowed);
            any.v[j] = score > least ? 1.0 : any.v[j];
        }
    if (greatest(any.v) == 0.0)
        return;
    for (Py_ssize_t i = from; i < to; i++) {
        double a = fabs(l[i] - r[i]), allowed = fabs(r[i]) * scale.rtol + scale.atol;
        int forbidden = scale.forbidden || allowed == 0.0;
        double score = allowed == 0.0 ? a : a / allowed;
        if (score > floor_of(found, job, forbidden))
            insert(found, job, (Candidate){score, l[i], r[i], element_at(tile, split, start, i), forbidden});
    }
}

/* -- maxima and their places --------------------------------------------------------------------------------------- */

static void find_largest(const Tile *tile, int split, long long start, Py_ssize_t from, Py_ssize_t to, Peak *largest)
{
    for (Py_ssize_t i = from; i < to; i++) {
        double a = fabs(tile->left[i] - tile->right[i]);
        if (a > largest->value)
            *largest = (Peak){a, element_at(tile, split, start, i)};
    }
}

INLINE double relative_error(double l, double r)
{
    return r == 0.0 ? 0.0 : fabs(l - r) / fabs(r);
}

CLONES static void find_largest_relative(const Tile *tile, int split, long long start, Py_ssize_t from, Py_ssize_t to,
                                         Peak *largest)
{
    Lanes most;
    EACH_LANE most.v[j] = 0.0;
    for (Py_ssize_t i = from; i < to; i += LANES)
        EACH_LANE {
            double a = fabs(tile->left[i + j] - tile->right[i + j]), m = fabs(tile->right[i + j]);
            double ratio = (m == 0.0 ? 0.0 : a) / (m == 0.0 ? 1.0 : m);
            most.v[j] = MORE(ratio, most.v[j]);
        }
    double ratio = greatest(most.v);
    if (!(ratio > largest->value))
        return;
    Py_ssize_t i = from;
    while (relative_error(tile->left[i], tile->right[i]) != ratio)
        i++;
    *largest = (Peak){ratio, element_at(tile, split, start, i)};
}

/* -- errors -------------------------------------------------------------------------------------------------------- */

typedef struct {
    Lanes product, absolute, squares, relative, counts, right_zero;
    double peak;
} Errors;

/* Counts of both fit one exact double: those that differ, and those of them that are outside of the tolerance. */
static const double ONE_OUTSIDE = 0x1p26;

/* A bound that n/d exceeds only if n > bound·d, also when a few such products are rounded. */
INLINE double lowered(double bound)
{
    return isinf(bound) ? DBL_MAX : bound < 0x1p-900 ? bound * 0.5 : bound * (1.0 - 0x1p-50);
}

/* Whether any element of a chunk may be one of the worst, by the largest |l-r| and the least |r|. */
INLINE int may_be_worst(double most, double least, const Scale *scale, const Job *job, const Found *found)
{
    double allowed = least * scale->rtol + scale->atol;
    return allowed == 0.0 ? most > 0.0 : most / allowed > floor_of(found, job, scale->forbidden);
}

/* Sum up one chunk, and look for maxima where something in it may exceed what was found before.
 *
 * `shared`: products of four right sides neither overflow nor underflow, so four elements share one division.
 * `zeros`: a right side may be 0; relative errors leave these out.
 */
INLINE void add_errors(const double *restrict left, const double *restrict right, Py_ssize_t count, const Scale *scale,
                       double largest_relative, Errors *errors, double *most, int *flag, const int shared,
                       const int zeros)
{
    const double rtol = scale->rtol, atol = scale->atol, most_relative = lowered(largest_relative);
    /* Lifts what is subnormal; where nothing can be (`shared`), it is none. */
    const double lift = shared ? 1.0 : 0x1p600;
    Lanes peak, flags;
    Errors e = *errors;
    EACH_LANE peak.v[j] = flags.v[j] = 0.0;

    for (Py_ssize_t i = 0; i < count; i += GROUP)
        EACH_LANE {
            double l0 = left[i + j], l1 = left[i + LANES + j];
            double l2 = left[i + 2 * LANES + j], l3 = left[i + 3 * LANES + j];
            double r0 = right[i + j], r1 = right[i + LANES + j];
            double r2 = right[i + 2 * LANES + j], r3 = right[i + 3 * LANES + j];
            double a0 = fabs(l0 - r0), a1 = fabs(l1 - r1), a2 = fabs(l2 - r2), a3 = fabs(l3 - r3);
            double m0 = fabs(r0), m1 = fabs(r1), m2 = fabs(r2), m3 = fabs(r3);

            e.product.v[j] += (l0 * r0 + l1 * r1) + (l2 * r2 + l3 * r3);
            e.absolute.v[j] += (a0 + a1) + (a2 + a3);
            e.squares.v[j] += (a0 * a0 + a1 * a1) + (a2 * a2 + a3 * a3);
            double larger = MORE(MORE(a0, a1), MORE(a2, a3));
            peak.v[j] = MORE(larger, peak.v[j]);

            double w0 = m0 * rtol + atol, w1 = m1 * rtol + atol, w2 = m2 * rtol + atol, w3 = m3 * rtol + atol;
            double x0 = a0 != 0.0 ? 1.0 : 0.0, x1 = a1 != 0.0 ? 1.0 : 0.0;
            double x2 = a2 != 0.0 ? 1.0 : 0.0, x3 = a3 != 0.0 ? 1.0 : 0.0;
            double c0 = a0 > w0 ? ONE_OUTSIDE + 1.0 : x0, c1 = a1 > w1 ? ONE_OUTSIDE + 1.0 : x1;
            double c2 = a2 > w2 ? ONE_OUTSIDE + 1.0 : x2, c3 = a3 > w3 ? ONE_OUTSIDE + 1.0 : x3;
            e.counts.v[j] += (c0 + c1) + (c2 + c3);

            double n0 = a0, n1 = a1, n2 = a2, n3 = a3, d0 = m0, d1 = m1, d2 = m2, d3 = m3;
            if (zeros) {
                double z0 = m0 == 0.0 ? x0 : 0.0, z1 = m1 == 0.0 ? x1 : 0.0;
                double z2 = m2 == 0.0 ? x2 : 0.0, z3 = m3 == 0.0 ? x3 : 0.0;
                e.right_zero.v[j] += (z0 + z1) + (z2 + z3);
                n0 = m0 == 0.0 ? 0.0 : a0, n1 = m1 == 0.0 ? 0.0 : a1;
                n2 = m2 == 0.0 ? 0.0 : a2, n3 = m3 == 0.0 ? 0.0 : a3;
                d0 = m0 == 0.0 ? 1.0 : m0, d1 = m1 == 0.0 ? 1.0 : m1;
                d2 = m2 == 0.0 ? 1.0 : m2, d3 = m3 == 0.0 ? 1.0 : m3;
            }
            if (shared) {
                double d01 = d0 * d1, d23 = d2 * d3;
                double q0 = n0 * d1, q1 = n1 * d0, q2 = n2 * d3, q3 = n3 * d2;
                e.relative.v[j] += ((q0 + q1) * d23 + (q2 + q3) * d01) / (d01 * d23);
                flags.v[j] = MORE(q0, q1) > most_relative * d01 ? 1.0 : flags.v[j];
                flags.v[j] = MORE(q2, q3) > most_relative * d23 ? 1.0 : flags.v[j];
            } else {
                e.relative.v[j] += (n0 / d0 + n1 / d1) + (n2 / d2 + n3 / d3);
                flags.v[j] = n0 * lift > most_relative * (d0 * lift) ? 1.0 : flags.v[j];
                flags.v[j] = n1 * lift > most_relative * (d1 * lift) ? 1.0 : flags.v[j];
                flags.v[j] = n2 * lift > most_relative * (d2 * lift) ? 1.0 : flags.v[j];
                flags.v[j] = n3 * lift > most_relative * (d3 * lift) ? 1.0 : flags.v[j];
            }
        }

    *errors = e;
    *most = greatest(peak.v);
    *flag = greatest(flags.v) != 0.0;
}

typedef void (*AddErrors)(const double *, const double *, Py_ssize_t, const Scale *, double, Errors *, double *, int *);

#define ADD_ERRORS(NAME, SHARED, ZEROS)                                                                                \
    CLONES static void NAME(const double *left, const double *right, Py_ssize_t count, const Scale *scale,             \
                            double largest_relative, Errors *errors, double *most, int *flag)                          \
    {                                                                                                                  \
        add_errors(left, right, count, scale, largest_relative, errors, most, flag, SHARED, ZEROS);                    \
    }

ADD_ERRORS(add_errors_alone, 0, 0)
ADD_ERRORS(add_errors_alone_zeros, 0, 1)
ADD_ERRORS(add_errors_shared, 1, 0)
ADD_ERRORS(add_errors_shared_zeros, 1, 1)

INLINE AddErrors errors_of(const Job *job, int zeros)
{
    int shared = job->left != FLOAT64 && job->right != FLOAT64;
    return shared ? (zeros ? add_errors_shared_zeros : add_errors_shared)
                  : (zeros ? add_errors_alone_zeros : add_errors_alone);
}

INLINE int is_integer(Kind kind)
{
    return kind >= INT8;
}

static void count_saturated(const Tile *tile, int split, long long start, Py_ssize_t count, const Job *job,
                            Found *found)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (fabs(tile->left[i]) == job->maximum && tile->left[i] != tile->right[i]) {
            found->saturated++;
            first_of(&found->first_saturated, element_at(tile, split, start, i));
        }
}

/* Add what the differences of a tile of finite elements tell. Return whether their magnitudes are safe. */
static int add_differences(Tile *tile, const Range *right, int split, long long start, Py_ssize_t count,
                           const Job *job, Found *found)
{
    const Scale scale = scale_of(job);
    Errors errors;
    memset(&errors, 0, sizeof errors);
    Py_ssize_t padded = (count + GROUP - 1) / GROUP * GROUP;
    /* Two zeros differ by nothing, so they add nothing. */
    for (Py_ssize_t i = count; i < padded; i++)
        tile->left[i] = tile->right[i] = 0.0;
    const AddErrors add = errors_of(job, right->least == 0.0 || padded != count);
    for (Py_ssize_t from = 0; from < padded; from += CHUNK) {
        Py_ssize_t to = LESS(from + CHUNK, padded);
        double most;
        int flag;
        add(tile->left + from, tile->right + from, to - from, &scale, found->largest_relative.value, &errors, &most,
            &flag);
        errors.peak = MORE(most, errors.peak);
        if (most > found->largest.value)
            find_largest(tile, split, start, from, to, &found->largest);
        if (flag)
            find_largest_relative(tile, split, start, from, to, &found->largest_relative);
        if (may_be_worst(most, right->least, &scale, job, found))
            find_worst(tile, split, start, from, to, job, found);
    }
    if (!is_safe(errors.peak) || !(found->largest_relative.value < SAFE_HIGH))
        return 0;

    double absolute = across(errors.absolute.v), counts = across(errors.counts.v);
    long long outside = (long long)(counts / ONE_OUTSIDE);
    long long differing = (long long)(counts - (double)outside * ONE_OUTSIDE);
    add_to(&found->product, across(errors.product.v));
    add_to(&found->absolute, absolute);
    add_to(&found->squares, across(errors.squares.v));
    add_to(&found->relative, across(errors.relative.v));
    found->differing += differing;
    found->right_zero += (long long)across(errors.right_zero.v);
    found->outside += scale.forbidden ? differing : outside;
    if (is_integer(job->left) && is_integer(job->right)) {
        unsigned long long exact = (unsigned long long)absolute;
        found->exact_high += exact >> 32;
        found->exact_low += exact & 0xffffffffu;
    }
    return 1;
}

/* Measure a tile of finite elements. Return whether its magnitudes are safe. */
static int add_tile(Tile *tile, const Range *left, const Range *right, int split, long long start, Py_ssize_t count,
                    const Job *job, Found *found)
{
    double right_peak = peak_of(right), left_peak = peak_of(left);
    if (!is_safe(left_peak) || !is_safe(right_peak))
        return 0;
    add_moments(&found->left, left, deviations_of(left, tile->left, count), count);
    add_moments(&found->right, right, deviations_of(right, tile->right, count), count);
    found->right_peak = MORE(right_peak, found->right_peak);
    if (left_peak >= job->maximum)
        count_saturated(tile, split, start, count, job, found);
    return add_differences(tile, right, split, start, count, job, found);
}

/* Measure a tile whose sides are finite and equal bit by bit: nothing differs. */
static int add_identical(const double *x, const Range *range, Py_ssize_t count, Found *found)
{
    double peak = peak_of(range), deviations = deviations_of(range, x, count);
    if (!is_safe(peak))
        return 0;
    add_moments(&found->left, range, deviations, count);
    add_moments(&found->right, range, deviations, count);
    add_to(&found->product, deviations + range->total / (double)count * range->total);
    found->right_peak = MORE(peak, found->right_peak);
    return 1;
}

/* Add a block. Return whether all of its magnitudes are safe; what was found is worthless when they are not. */
static int add_block(const char *left, const char *right, Py_ssize_t count, long long start, const Job *job,
                            Found *found)
{
    Tile tile;
    const Py_ssize_t left_size = ITEMSIZE[job->left], right_size = ITEMSIZE[job->right];
    for (Py_ssize_t done = 0; done < count; done += TILE) {
        Py_ssize_t n = LESS(count - done, (Py_ssize_t)TILE);
        const char *a = left + done * left_size, *b = right + done * right_size;
        int split = 0;
        uint32_t bits = job->compare_bits ? differing_bits(left_size, a, b, n) : 0;
        found->bits += bits;
        found->elements += n;
        Range l = take(job->left, a, n, tile.floats, tile.left);
        if (job->compare_bits && bits == 0 && isfinite(l.total)) {
            if (!add_identical(tile.left, &l, n, found))
                return 0;
            continue;
        }
        Range r = take(job->right, b, n, tile.floats, tile.right);
        if (!isfinite(l.total) || !isfinite(r.total)) {
            n = split_classes(&tile, n, start + done, job, found);
            split = 1;
            if (n == 0)
                continue;
            l = range_of(tile.left, n);
            r = range_of(tile.right, n);
        }
        if (!add_tile(&tile, &l, &r, split, start + done, n, job, found))
            return 0;
    }
    /* Infinite ratios are ranked by what the caller knows better. */
    for (int i = 0; i < found->worst_count; i++)
        if (isinf(found->worst[i].score))
            return 0;
    return 1;
}

/* -- KL divergence ------------------------------------------------------------------------------------------------- */

/* As `distribution.Divergence`. */
typedef struct {
    Sum left, right, weighted;
} Divergence;

typedef struct {
    double minimum, width;
} Span;

/* The machine epsilon of float32: nothing counts as less probable. */
static const double LEAST = 0x1p-23;

/* Place in the range; everywhere the same where a side is constant. */
#define NORMALISE(NAME, TYPE)                                                                                          \
    CLONES static void NAME(const TYPE *x, Py_ssize_t count, Span span, double *out)                                   \
    {                                                                                                                  \
        double minimum = span.minimum, factor = span.width == 0.0 ? 0.0 : 1.0 / span.width;                            \
        double least = span.width == 0.0 ? 1.0 : LEAST;                                                                \
        for (Py_ssize_t i = 0; i < count; i++) {                                                                       \
            double place = ((double)x[i] - minimum) * factor;                                                          \
            out[i] = MORE(place, least);                                                                               \
        }                                                                                                              \
    }

NORMALISE(normalise_floats, RawFloat)
NORMALISE(normalise_doubles, double)

/* Bring one side of a tile to places in its range. */
static void take_places(Kind kind, const void *raw, Py_ssize_t count, Span span, float *floats, double *out)
{
    if (!is_narrow(kind)) {
        to_doubles(kind, raw, count, out);
        normalise_doubles(out, count, span, out);
    } else if (kind == FLOAT32) {
        normalise_floats(raw, count, span, out);
    } else {
        to_floats(kind, raw, count, floats);
        normalise_floats(floats, count, span, out);
    }
}

/* ln(p/q) is k·ln 2 + 2·artanh((p - q·2**k) / (p + q·2**k)), where k, the rounded difference of the bits of p and q
 * read as logarithms, keeps the fraction below 0.2006. The polynomial is artanh's, interpolated at Chebyshev's nodes. */
static const double LN2_HIGH = 0x1.62e42fefa3000p-1, LN2_LOW = 2.8235290563031577e-13;
static const double ARTANH[7] = {0.6666666666666697,  0.39999999999261193, 0.2857142886060308, 0.22222179858311245,
                                 0.18184765029711916, 0.15279958588929263, 0.1515218343619192};
/* Added to the difference of two exponents to make it positive. */
enum { LIFT = 64 };

INLINE double log_ratio(double k, double fraction)
{
    double z = fraction * fraction;
    double high = (ARTANH[5] + z * ARTANH[6]) * (z * z) + (ARTANH[3] + z * ARTANH[4]);
    double low = ARTANH[0] + z * (ARTANH[1] + z * ARTANH[2]);
    double series = low + (z * z) * (z * high);
    return k * LN2_HIGH + (2.0 * fraction + (fraction * (z * series) + k * LN2_LOW));
}

/* Return the exponent k, lifted, of the power of two that brings q nearest to p. */
INLINE uint64_t distance(double p, double q)
{
    return (bits_of(p) - bits_of(q) + ((uint64_t)LIFT << 52) + ((uint64_t)1 << 51)) >> 52;
}

INLINE double brought_nearer(double q, uint64_t lifted)
{
    return double_of(bits_of(q) + ((lifted - LIFT) << 52));
}

INLINE double unlifted(uint64_t lifted)
{
    return double_of(0x4330000000000000u | lifted) - (0x1p52 + LIFT);
}

CLONES static void add_divergences(const double *restrict left, const double *restrict right, Py_ssize_t padded,
                                   Divergence *all)
{
    Lanes p_total, q_total, weighted;
    EACH_LANE p_total.v[j] = q_total.v[j] = weighted.v[j] = 0.0;
    for (Py_ssize_t i = 0; i < padded; i += GROUP)
        EACH_LANE {
            double p0 = left[i + j], p1 = left[i + LANES + j];
            double p2 = left[i + 2 * LANES + j], p3 = left[i + 3 * LANES + j];
            double q0 = right[i + j], q1 = right[i + LANES + j];
            double q2 = right[i + 2 * LANES + j], q3 = right[i + 3 * LANES + j];
            uint64_t e0 = distance(p0, q0), e1 = distance(p1, q1), e2 = distance(p2, q2), e3 = distance(p3, q3);
            double s0 = brought_nearer(q0, e0), s1 = brought_nearer(q1, e1);
            double s2 = brought_nearer(q2, e2), s3 = brought_nearer(q3, e3);
            double d0 = p0 + s0, d1 = p1 + s1, d2 = p2 + s2, d3 = p3 + s3;
            /* Four fractions share one division; all denominators are between 2**-24 and 4. */
            double d01 = d0 * d1, d23 = d2 * d3, inverse = 1.0 / (d01 * d23);
            double i01 = inverse * d23, i23 = inverse * d01;
            double f0 = (p0 - s0) * (i01 * d1), f1 = (p1 - s1) * (i01 * d0);
            double f2 = (p2 - s2) * (i23 * d3), f3 = (p3 - s3) * (i23 * d2);
            p_total.v[j] += (p0 + p1) + (p2 + p3);
            q_total.v[j] += (q0 + q1) + (q2 + q3);
            weighted.v[j] += (p0 * log_ratio(unlifted(e0), f0) + p1 * log_ratio(unlifted(e1), f1)) +
                             (p2 * log_ratio(unlifted(e2), f2) + p3 * log_ratio(unlifted(e3), f3));
        }
    add_to(&all->left, across(p_total.v));
    add_to(&all->right, across(q_total.v));
    add_to(&all->weighted, across(weighted.v));
}

static Py_ssize_t keep_finite(Tile *tile, Py_ssize_t count)
{
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (isfinite(tile->left[i]) && isfinite(tile->right[i])) {
            tile->left[kept] = tile->left[i];
            tile->right[kept++] = tile->right[i];
        }
    return kept;
}

typedef struct {
    Kind left, right;
    Span left_span, right_span;
    int all_finite;
} DivergenceJob;

static void add_divergence(const char *left, const char *right, Py_ssize_t count, const DivergenceJob *job,
                           Divergence *all)
{
    Tile tile;
    for (Py_ssize_t done = 0; done < count; done += TILE) {
        Py_ssize_t n = LESS(count - done, (Py_ssize_t)TILE);
        const char *a = left + done * ITEMSIZE[job->left], *b = right + done * ITEMSIZE[job->right];
        if (job->all_finite) {
            take_places(job->left, a, n, job->left_span, tile.floats, tile.left);
            take_places(job->right, b, n, job->right_span, tile.floats, tile.right);
        } else {
            take(job->left, a, n, tile.floats, tile.left);
            take(job->right, b, n, tile.floats, tile.right);
            n = keep_finite(&tile, n);
            normalise_doubles(tile.left, n, job->left_span, tile.left);
            normalise_doubles(tile.right, n, job->right_span, tile.right);
        }
        Py_ssize_t whole = n - n % GROUP;
        if (whole)
            add_divergences(tile.left, tile.right, whole, all);
        if (n == whole)
            continue;
        /* Ones on both sides are equal and add nothing but to the two totals, out of which they are taken exactly. */
        for (Py_ssize_t i = n; i < whole + GROUP; i++)
            tile.left[i] = tile.right[i] = 1.0;
        add_divergences(tile.left + whole, tile.right + whole, GROUP, all);
        add_to(&all->left, -(double)(whole + GROUP - n));
        add_to(&all->right, -(double)(whole + GROUP - n));
    }
}

/* -- Python -------------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Job job;
    Found found;
} SweepObject;

typedef struct {
    PyObject_HEAD
    DivergenceJob job;
    Divergence found;
} DivergenceObject;

/* Two blocks as plain bytes: of any dtype, at any address, as many elements on both sides. */
typedef struct {
    Py_buffer left, right;
    Py_ssize_t count;
} Blocks;

static int take_blocks(PyObject *left, PyObject *right, Kind left_kind, Kind right_kind, Blocks *blocks)
{
    if (PyObject_GetBuffer(left, &blocks->left, PyBUF_SIMPLE) < 0)
        return -1;
    if (PyObject_GetBuffer(right, &blocks->right, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&blocks->left);
        return -1;
    }
    blocks->count = blocks->left.len / ITEMSIZE[left_kind];
    if (blocks->left.len == blocks->count * ITEMSIZE[left_kind] &&
        blocks->right.len == blocks->count * ITEMSIZE[right_kind])
        return 0;
    PyErr_Format(PyExc_ValueError, "blocks of %zd and %zd bytes do not hold as many elements of these kinds",
                 blocks->left.len, blocks->right.len);
    PyBuffer_Release(&blocks->left);
    PyBuffer_Release(&blocks->right);
    return -1;
}

static void release_blocks(Blocks *blocks)
{
    PyBuffer_Release(&blocks->left);
    PyBuffer_Release(&blocks->right);
}

static int check_kinds(int left, int right)
{
    if (left >= 0 && left < KINDS && right >= 0 && right < KINDS)
        return 0;
    PyErr_Format(PyExc_ValueError, "kinds are 0 to %d, not %d and %d", KINDS - 1, left, right);
    return -1;
}

static PyObject *sweep_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    int left, right, worst, compare_bits;
    double rtol, atol, maximum;
    if (kwargs && PyDict_GET_SIZE(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Sweep takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "iidddip:Sweep", &left, &right, &rtol, &atol, &maximum, &worst, &compare_bits))
        return NULL;
    if (check_kinds(left, right) < 0)
        return NULL;
    if (worst < 0 || worst > MOST_WORST || (compare_bits && ITEMSIZE[left] != ITEMSIZE[right])) {
        PyErr_Format(PyExc_ValueError, "at most %d worst elements are kept, and bits are compared of one kind",
                     MOST_WORST);
        return NULL;
    }
    SweepObject *self = (SweepObject *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->job = (Job){left, right, rtol, atol, maximum, worst, compare_bits};
    Found *found = &self->found;
    memset(found, 0, sizeof *found);
    found->first_mismatch = found->first_nonfinite = found->first_left_only = found->first_saturated = -1;
    found->largest.element = found->largest_relative.element = -1;
    found->left.minimum = found->right.minimum = INFINITY;
    found->left.maximum = found->right.maximum = -INFINITY;
    return (PyObject *)self;
}

static PyObject *sweep_add(SweepObject *self, PyObject *const *args, Py_ssize_t given)
{
    if (given != 3) {
        PyErr_SetString(PyExc_TypeError, "add takes a left block, a right block and the first element's number");
        return NULL;
    }
    long long start = PyLong_AsLongLong(args[2]);
    if (start == -1 && PyErr_Occurred())
        return NULL;
    Blocks blocks;
    if (take_blocks(args[0], args[1], self->job.left, self->job.right, &blocks) < 0)
        return NULL;
    const Job job = self->job;
    Found found = self->found;
    int safe;
    Py_BEGIN_ALLOW_THREADS
    safe = add_block(blocks.left.buf, blocks.right.buf, blocks.count, start, &job, &found);
    Py_END_ALLOW_THREADS
    release_blocks(&blocks);
    if (safe)
        self->found = found;
    return PyBool_FromLong(safe);
}

static PyObject *of_moments(const Moments *moments)
{
    return Py_BuildValue("(Ldddddd)", moments->elements, moments->total.high, moments->total.low,
                         moments->deviations.high, moments->deviations.low, moments->minimum, moments->maximum);
}

static PyObject *of_classes(const Found *found)
{
    const long long *c = found->classes;
    return Py_BuildValue("(LLLLLLLLLLL)", c[NAN_BOTH], c[NAN_LEFT], c[NAN_RIGHT], c[INF_BOTH], c[INF_LEFT],
                         c[INF_RIGHT], c[MISMATCH], c[LEFT_ONLY], found->first_mismatch, found->first_nonfinite,
                         found->first_left_only);
}

/* Append what was built; it is owned by this function, and NULL where building failed. */
static int append(PyObject *list, PyObject *item)
{
    int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return failed;
}

static PyObject *of_worst(const Found *found)
{
    PyObject *list = PyList_New(0);
    int failed = !list;
    for (int i = 0; !failed && i < found->mismatch_count; i++) {
        const Mismatch *m = &found->mismatches[i];
        failed = append(list, Py_BuildValue("(OdLdd)", Py_None, INFINITY, m->element, m->left, m->right));
    }
    for (int i = 0; !failed && i < found->worst_count; i++) {
        const Candidate *c = &found->worst[i];
        failed = append(list, Py_BuildValue("(OdLdd)", c->forbidden ? Py_True : Py_False, c->score, c->element, c->left,
                                            c->right));
    }
    if (failed)
        Py_CLEAR(list);
    return list;
}

static PyObject *sweep_found(SweepObject *self, PyObject *Py_UNUSED(none))
{
    const Found *f = &self->found;
    return Py_BuildValue("(LLNNN(dddddddd)(LLLLL)(KK)d(dL)(dL)N)", f->elements, f->bits, of_classes(f),
                         of_moments(&f->left), of_moments(&f->right), f->product.high, f->product.low,
                         f->absolute.high, f->absolute.low, f->squares.high, f->squares.low, f->relative.high,
                         f->relative.low, f->differing, f->right_zero, f->outside, f->saturated, f->first_saturated,
                         f->exact_high, f->exact_low, f->right_peak, f->largest.value, f->largest.element,
                         f->largest_relative.value, f->largest_relative.element, of_worst(f));
}

static PyObject *divergence_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    int left, right, all_finite;
    Span a, b;
    if (kwargs && PyDict_GET_SIZE(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Divergence takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "iiddddp:Divergence", &left, &right, &a.minimum, &a.width, &b.minimum, &b.width,
                          &all_finite))
        return NULL;
    if (check_kinds(left, right) < 0)
        return NULL;
    DivergenceObject *self = (DivergenceObject *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->job = (DivergenceJob){left, right, a, b, all_finite};
    memset(&self->found, 0, sizeof self->found);
    return (PyObject *)self;
}

static PyObject *divergence_add(DivergenceObject *self, PyObject *const *args, Py_ssize_t given)
{
    if (given != 2) {
        PyErr_SetString(PyExc_TypeError, "add takes a left block and a right block");
        return NULL;
    }
    Blocks blocks;
    if (take_blocks(args[0], args[1], self->job.left, self->job.right, &blocks) < 0)
        return NULL;
    const DivergenceJob job = self->job;
    Divergence found = self->found;
    Py_BEGIN_ALLOW_THREADS
    add_divergence(blocks.left.buf, blocks.right.buf, blocks.count, &job, &found);
    Py_END_ALLOW_THREADS
    release_blocks(&blocks);
    self->found = found;
    Py_RETURN_NONE;
}

static PyObject *divergence_found(DivergenceObject *self, PyObject *Py_UNUSED(none))
{
    const Divergence *f = &self->found;
    return Py_BuildValue("(dddddd)", f->left.high, f->left.low, f->right.high, f->right.low, f->weighted.high,
                         f->weighted.low);
}

static PyMethodDef sweep_methods[] = {
    {"add", (PyCFunction)(void (*)(void))sweep_add, METH_FASTCALL,
     "Add two blocks; False, and nothing added, where magnitudes ask for scaled sums. In ascending order."},
    {"found", (PyCFunction)sweep_found, METH_NOARGS, "Return what is known of the blocks added so far."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef divergence_methods[] = {
    {"add", (PyCFunction)(void (*)(void))divergence_add, METH_FASTCALL, "Add two blocks."},
    {"found", (PyCFunction)divergence_found, METH_NOARGS, "Return the three sums of the blocks added so far."},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject sweep_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pytest_msdump.metrics._sweep.Sweep",
    .tp_basicsize = sizeof(SweepObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Everything that one pass over a pair tells.",
    .tp_methods = sweep_methods,
    .tp_new = sweep_new,
};

static PyTypeObject divergence_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pytest_msdump.metrics._sweep.Divergence",
    .tp_basicsize = sizeof(DivergenceObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The sums of the KL divergence.",
    .tp_methods = divergence_methods,
    .tp_new = divergence_new,
};

static int execute(PyObject *module)
{
    if (PyModule_AddType(module, &sweep_type) < 0 || PyModule_AddType(module, &divergence_type) < 0)
        return -1;
    return PyModule_AddIntConstant(module, "MOST_WORST", MOST_WORST);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pytest_msdump.metrics._sweep",
    .m_doc = "The compiled kernel; `compiled.py` chooses between it and numpy.",
    .m_size = 0,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__sweep(void)
{
    return PyModuleDef_Init(&module);
}

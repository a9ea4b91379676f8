/* The optional compiled kernel: what `kernel.py`, `pointwise.py`, `moments.py` and `distribution.py` do block by block
 * with numpy, in one sweep over both sides.
 *
 * A block is cut into tiles that stay in the first cache. A tile is looked at once, for its ranges, and then swept for
 * all sums; places of maxima and the worst elements are looked for only in those groups of it that hold something
 * beyond what was found before. What is NaN or Inf shows in the sums, and is counted in a slower lane. Every sum has
 * LANES accumulators whatever the machine's vectors hold, and nothing is contracted or reordered, so that all machines
 * give the same bits. Loops over lanes are plain C that compilers turn into vectors.
 *
 * What would need scaled sums (magnitudes beyond 2**300) is refused, and the block is left as if it had not been seen:
 * the caller measures it with numpy.
 * It gives sums, counts, extrema and places; metrics are defined from them in `definitions.py` alone.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Of which state of this file it was built; setup.py knows. */
#ifndef MSDUMP_SOURCE
#define MSDUMP_SOURCE unknown
#endif
#define QUOTED(NAME) #NAME
#define IN_QUOTES(NAME) QUOTED(NAME)

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
#else
#include <immintrin.h>
#define HAS_F16C
#endif
#define INLINE static inline __attribute__((always_inline))

enum {
    LANES = 8,
    FLOAT_LANES = 2 * LANES,
    GROUP = 4 * LANES, /* four vectors at a time: they share one division */
    TILE = 1024,
    GROUPS = TILE / GROUP,
    MOST_WORST = 16,
    /* What compiled.py and this file agree on: a change of it changes the number, there and here. */
    FORM = 6,
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

typedef enum { FLOAT32, FLOAT64, FLOAT16, INT8, UINT8, INT16, UINT16, INT32, UINT32, BOOL, KINDS } Kind;

static const Py_ssize_t ITEMSIZE[KINDS] = {4, 8, 2, 1, 1, 2, 2, 4, 4, 1};

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

CLONES static void half_floats_of_any(const RawU16 *restrict raw, Py_ssize_t count, float *restrict out)
{
    /* First wide, then all in vectors of one width. */
    uint32_t words[TILE];
    for (Py_ssize_t i = 0; i < count; i++)
        words[i] = raw[i];
    for (Py_ssize_t i = 0; i < count; i++)
        out[i] = half_value(words[i]);
}

#ifdef HAS_F16C
/* One instruction, and as exact: only what of a NaN no one looks at differs. */
__attribute__((target("avx,f16c"))) static void half_floats_of_f16c(const RawU16 *restrict raw, Py_ssize_t count,
                                                                    float *restrict out)
{
    Py_ssize_t whole = count - count % LANES;
    for (Py_ssize_t i = 0; i < whole; i += LANES)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)(raw + i))));
    for (Py_ssize_t i = whole; i < count; i++)
        out[i] = half_value(raw[i]);
}
#endif

static void half_floats(const RawU16 *restrict raw, Py_ssize_t count, float *restrict out)
{
#ifdef HAS_F16C
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c")) {
        half_floats_of_f16c(raw, count, out);
        return;
    }
#endif
    half_floats_of_any(raw, count, out);
}

CLONES static void to_floats(Kind kind, const void *restrict raw, Py_ssize_t count, float *restrict out)
{
    switch (kind) {
    case FLOAT16: half_floats(raw, count, out); break;
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

/* -- a tile -------------------------------------------------------------------------------------------------------- */

/* A tile of both sides. `places` tells where elements are when some were left out. */
typedef struct {
    const RawDouble *left, *right;
    Py_ssize_t count;
    const int32_t *places;
    long long start;
} Elements;

/* Buffers of one tile. */
typedef struct {
    double left[TILE] __attribute__((aligned(64)));
    double right[TILE] __attribute__((aligned(64)));
    float left_floats[TILE] __attribute__((aligned(64)));
    float right_floats[TILE] __attribute__((aligned(64)));
    int32_t places[TILE];
} Tile;

INLINE long long element_at(const Elements *x, Py_ssize_t i)
{
    return x->start + (x->places ? x->places[i] : (long long)i);
}

CLONES static void widen(const RawFloat *restrict x, Py_ssize_t count, double *restrict out)
{
    for (Py_ssize_t i = 0; i < count; i++)
        out[i] = (double)x[i];
}

/* One side's elements as floats; float32 is where it is. */
static const RawFloat *as_floats(Kind kind, const void *raw, Py_ssize_t count, float *floats)
{
    if (kind == FLOAT32)
        return raw;
    to_floats(kind, raw, count, floats);
    return floats;
}

/* One side's elements as doubles; float64 is where it is. */
static const RawDouble *as_doubles(Kind kind, const void *raw, Py_ssize_t count, float *floats, double *doubles)
{
    if (kind == FLOAT64)
        return raw;
    if (is_narrow(kind))
        widen(as_floats(kind, raw, count, floats), count, doubles);
    else
        to_doubles(kind, raw, count, doubles);
    return doubles;
}

static Elements take(Kind left, Kind right, const char *a, const char *b, Py_ssize_t count, long long start, Tile *tile)
{
    return (Elements){as_doubles(left, a, count, tile->left_floats, tile->left),
                      as_doubles(right, b, count, tile->right_floats, tile->right), count, NULL, start};
}

/* Where the elements of the next tile are: what is fetched while this one is computed costs no waiting. */
typedef struct {
    const char *left, *right;
    Py_ssize_t left_step, right_step;
} Ahead;

INLINE Ahead ahead_of(const char *left, const char *right, Py_ssize_t left_size, Py_ssize_t right_size, int is_last)
{
    return (Ahead){left + (is_last ? 0 : TILE * left_size), right + (is_last ? 0 : TILE * right_size),
                   GROUP * left_size, GROUP * right_size};
}

INLINE void fetch(const Ahead *ahead, Py_ssize_t group)
{
    const char *left = ahead->left + group * ahead->left_step, *right = ahead->right + group * ahead->right_step;
    __builtin_prefetch(left);
    __builtin_prefetch(right);
    /* A line of the cache has 64 bytes nearly everywhere. */
    if (ahead->left_step > 64)
        __builtin_prefetch(left + 64);
    if (ahead->right_step > 64)
        __builtin_prefetch(right + 64);
}

/* -- one side ------------------------------------------------------------------------------------------------------ */

typedef struct {
    double minimum, maximum;
} Range;

/* What a look at a tile tells; nothing where an element is NaN. */
typedef struct {
    Range left, right;
    double least; /* of the right side's magnitudes */
    long long differing;
} Look;

/* Floats are looked at as floats: it is twice as fast. */
#define LOOK(NAME, TYPE, WIDTH, COUNT, MAGNITUDE)                                                                      \
    CLONES static Look NAME(const TYPE *restrict l, const TYPE *restrict r, Py_ssize_t count)                          \
    {                                                                                                                  \
        TYPE low[WIDTH], high[WIDTH], right_low[WIDTH], right_high[WIDTH], near[WIDTH];                                \
        COUNT differing[WIDTH];                                                                                        \
        Py_ssize_t whole = count - count % WIDTH;                                                                      \
        for (int j = 0; j < WIDTH; j++) {                                                                              \
            low[j] = high[j] = l[0];                                                                                   \
            right_low[j] = right_high[j] = r[0];                                                                       \
            near[j] = MAGNITUDE(r[0]);                                                                                 \
            differing[j] = 0;                                                                                          \
        }                                                                                                              \
        for (Py_ssize_t i = 0; i < whole; i += WIDTH)                                                                  \
            for (int j = 0; j < WIDTH; j++) {                                                                          \
                TYPE a = l[i + j], b = r[i + j], m = MAGNITUDE(b);                                                     \
                low[j] = LESS(a, low[j]);                                                                              \
                high[j] = MORE(a, high[j]);                                                                            \
                right_low[j] = LESS(b, right_low[j]);                                                                  \
                right_high[j] = MORE(b, right_high[j]);                                                                \
                near[j] = LESS(m, near[j]);                                                                            \
                differing[j] += a != b;                                                                                \
            }                                                                                                          \
        for (Py_ssize_t i = whole; i < count; i++) {                                                                   \
            low[0] = LESS(l[i], low[0]);                                                                               \
            high[0] = MORE(l[i], high[0]);                                                                             \
            right_low[0] = LESS(r[i], right_low[0]);                                                                   \
            right_high[0] = MORE(r[i], right_high[0]);                                                                 \
            near[0] = LESS(MAGNITUDE(r[i]), near[0]);                                                                  \
            differing[0] += l[i] != r[i];                                                                              \
        }                                                                                                              \
        for (int j = 1; j < WIDTH; j++) {                                                                              \
            low[0] = LESS(low[j], low[0]);                                                                             \
            high[0] = MORE(high[j], high[0]);                                                                          \
            right_low[0] = LESS(right_low[j], right_low[0]);                                                           \
            right_high[0] = MORE(right_high[j], right_high[0]);                                                        \
            near[0] = LESS(near[j], near[0]);                                                                          \
            differing[0] += differing[j];                                                                              \
        }                                                                                                              \
        return (Look){{low[0], high[0]}, {right_low[0], right_high[0]}, near[0], (long long)differing[0]};             \
    }

LOOK(look_at_floats, RawFloat, FLOAT_LANES, uint32_t, fabsf)
LOOK(look_at_doubles, RawDouble, LANES, uint64_t, fabs)

static Look look_at(const Elements *x, Kind left, Kind right, const char *a, const char *b, const float *left_floats,
                    const float *right_floats)
{
    if (!is_narrow(left) || !is_narrow(right))
        return look_at_doubles(x->left, x->right, x->count);
    return look_at_floats(left == FLOAT32 ? (const void *)a : left_floats,
                          right == FLOAT32 ? (const void *)b : right_floats, x->count);
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

/* As `moments.Moments`. */
typedef struct {
    long long elements;
    Sum total, deviations;
    double minimum, maximum;
} Moments;

/* Σ(x - shift) and Σ(x - shift)². The shift is the middle of the range: n·(mean - shift)² is at most n/2 times the
 * squared deviations, so that taking it off them later costs few bits, whatever the elements are. */
typedef struct {
    Lanes sum, squares;
} Shifted;

INLINE double middle_of(const Range *range)
{
    return range->minimum * 0.5 + range->maximum * 0.5;
}

CLONES static void add_shifted(Shifted *all, const RawDouble *x, Py_ssize_t count, double shift, const Ahead *ahead)
{
    Py_ssize_t groups = count - count % GROUP, whole = count - count % LANES;
    Shifted s = *all;
    for (Py_ssize_t i = 0, group = 0; i < groups; i += GROUP, group++) {
        fetch(ahead, group);
        EACH_LANE {
            double a0 = x[i + j] - shift, a1 = x[i + LANES + j] - shift;
            double a2 = x[i + 2 * LANES + j] - shift, a3 = x[i + 3 * LANES + j] - shift;
            s.sum.v[j] += (a0 + a1) + (a2 + a3);
            s.squares.v[j] += (a0 * a0 + a1 * a1) + (a2 * a2 + a3 * a3);
        }
    }
    for (Py_ssize_t i = groups; i < whole; i += LANES)
        EACH_LANE {
            double a = x[i + j] - shift;
            s.sum.v[j] += a;
            s.squares.v[j] += a * a;
        }
    for (Py_ssize_t i = whole; i < count; i++) {
        double a = x[i] - shift;
        s.sum.v[i - whole] += a;
        s.squares.v[i - whole] += a * a;
    }
    *all = s;
}

/* Two numbers of a side that a tile adds. */
typedef struct {
    double total, deviations;
} Added;

INLINE Added added_by(const Shifted *shifted, const Range *range, Py_ssize_t count)
{
    double number = (double)count, sum = across(shifted->sum.v);
    if (range->minimum == range->maximum)
        return (Added){range->minimum * number, 0.0};
    double deviations = across(shifted->squares.v) - sum * (sum / number);
    return (Added){middle_of(range) * number + sum, MORE(deviations, 0.0)};
}

/* Add one tile to a side's moments, after Chan, Golub and LeVeque. */
INLINE void add_moments(Moments *all, const Range *range, Added added, Py_ssize_t count)
{
    double number = (double)count, deviations = added.deviations;
    double minimum = LESS(range->minimum, all->minimum), maximum = MORE(range->maximum, all->maximum);
    if (all->elements && minimum != maximum) {
        double before = (double)all->elements;
        double step = added.total / number - value_of(&all->total) / before;
        deviations += step * step * (before / (before + number) * number);
    }
    add_to(&all->deviations, deviations);
    add_to(&all->total, added.total);
    all->minimum = minimum;
    all->maximum = maximum;
    all->elements += count;
}

/* -- what is found ------------------------------------------------------------------------------------------------- */

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
    long long elements, bits, differing, right_zero, near_zero, outside, saturated;
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
    double rtol, atol, maximum, near_zero;
    int worst, compare_bits;
} Job;

INLINE void first_of(long long *first, long long element)
{
    if (*first < 0 || element < *first)
        *first = element;
}

/* -- NaN and Inf --------------------------------------------------------------------------------------------------- */

/* 0 finite, 1 or 2 Inf, 3 NaN */
INLINE int class_of(double x)
{
    return x != x ? 3 : x > DBL_MAX ? 1 : x < -DBL_MAX ? 2 : 0;
}

static void add_classes(double l, double r, long long element, const Job *job, Found *found)
{
    int a = class_of(l), b = class_of(r);
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

/* Count classes, and return what is finite on both sides, as doubles. */
static Elements split_classes(const Elements *x, Tile *tile, const Job *job, Found *found)
{
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < x->count; i++) {
        double l = x->left[i], r = x->right[i];
        if (class_of(l) || class_of(r)) {
            add_classes(l, r, x->start + i, job, found);
            continue;
        }
        tile->left[kept] = l;
        tile->right[kept] = r;
        tile->places[kept++] = (int32_t)i;
    }
    return (Elements){tile->left, tile->right, kept, tile->places, x->start};
}

/* -- maxima, the worst elements, and their places ------------------------------------------------------------------ */

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

/* What elements are ranked by: |l-r| where there is no tolerance, else |l-r| / (atol + rtol·|r|). */
typedef struct {
    double rtol, atol;
    int forbidden;
} Scale;

INLINE Scale scale_of(const Job *job)
{
    int forbidden = job->rtol == 0.0 && job->atol == 0.0;
    return forbidden ? (Scale){0.0, 1.0, 1} : (Scale){job->rtol, job->atol, 0};
}

/* Lifts what is subnormal; no safe magnitude is lifted beyond a double. */
static const double LIFTING = 0x1p200;

/* A bound that n/d exceeds only if n > bound·d, also when a few such products are rounded. */
INLINE double lowered(double bound)
{
    return isinf(bound) ? DBL_MAX : bound < 0x1p-900 ? bound * 0.5 : bound * (1.0 - 0x1p-50);
}

/* What an element has to exceed to be of interest. */
typedef struct {
    double largest, largest_relative, worst;
} Bounds;

INLINE Bounds bounds_of(const Found *found, const Job *job, const Scale *scale)
{
    double worst = floor_of(found, job, scale->forbidden);
    /* What is ranked by |l-r| is not divided. */
    return (Bounds){found->largest.value, lowered(found->largest_relative.value),
                    scale->forbidden ? worst : lowered(worst)};
}

/* |l-r|/|r|; 0 where there is none: where r is 0, and where l is 0 and r next to it. */
INLINE double relative_of(double l, double a, double m, const Job *job)
{
    return m == 0.0 || (l == 0.0 && a <= job->near_zero) ? 0.0 : a / m;
}

/* For each group of a tile, lanes that are not 0 where it may hold something of interest. */
typedef struct {
    Lanes groups[GROUPS];
} Marks;

INLINE int is_marked(const Lanes *marks)
{
    uint64_t any = 0;
    EACH_LANE any |= bits_of(marks->v[j]);
    return any != 0;
}

/* Whether an element of a whole group goes beyond what was found. Marks only tell that one may: where a few values are
 * all there is, as of integers, or one ratio is everywhere, most groups hold another one of the farthest. What is next to
 * 0 may seem to go beyond.
 */
INLINE int goes_beyond(const RawDouble *restrict left, const RawDouble *restrict right, const Job *job,
                       const Found *found, const int forbidden)
{
    const Scale scale = scale_of(job);
    const double largest = found->largest.value, largest_relative = found->largest_relative.value;
    const double worst = floor_of(found, job, 0), worst_forbidden = floor_of(found, job, 1);
    uint64_t beyond = 0;
    for (int i = 0; i < GROUP; i++) {
        double a = fabs(left[i] - right[i]), m = fabs(right[i]), relative = m == 0.0 ? 0.0 : a / m;
        double allowed = forbidden ? 0.0 : m * scale.rtol + scale.atol, score = allowed == 0.0 ? a : a / allowed;
        beyond |= (uint64_t)(a > largest) | (uint64_t)(relative > largest_relative) |
                  (uint64_t)(score > (allowed == 0.0 ? worst_forbidden : worst));
    }
    return beyond != 0;
}

CLONES static int group_goes_beyond(const Elements *x, Py_ssize_t from, const Job *job, const Found *found)
{
    const RawDouble *left = x->left + from, *right = x->right + from;
    return scale_of(job).forbidden ? goes_beyond(left, right, job, found, 1) : goes_beyond(left, right, job, found, 0);
}

/* Look at each element of a group. */
static void search_group(const Elements *x, Py_ssize_t from, Py_ssize_t to, const Job *job, Found *found)
{
    const Scale scale = scale_of(job);
    Bounds bounds = bounds_of(found, job, &scale);
    for (Py_ssize_t i = from; i < to; i++) {
        double l = x->left[i], r = x->right[i];
        double a = fabs(l - r), m = fabs(r), allowed = m * scale.rtol + scale.atol, lifted = a * LIFTING;
        /* In the first tile all groups are marked, and most of their elements are passed over without a division. */
        if (!(a > bounds.largest || lifted > bounds.largest_relative * (m * LIFTING) ||
              lifted > bounds.worst * (allowed * LIFTING)))
            continue;
        if (a > found->largest.value)
            found->largest = (Peak){a, element_at(x, i)};
        double relative = relative_of(l, a, m, job);
        if (relative > found->largest_relative.value)
            found->largest_relative = (Peak){relative, element_at(x, i)};
        int forbidden = scale.forbidden || allowed == 0.0;
        double score = allowed == 0.0 ? a : a / allowed;
        if (score > floor_of(found, job, forbidden))
            insert(found, job, (Candidate){score, l, r, element_at(x, i), forbidden});
        bounds = bounds_of(found, job, &scale);
    }
}

static void search(const Elements *x, const Marks *marks, const Job *job, Found *found)
{
    for (Py_ssize_t from = 0, group = 0; from < x->count; from += GROUP, group++)
        if (is_marked(&marks->groups[group]) &&
            (from + GROUP > x->count || group_goes_beyond(x, from, job, found)))
            search_group(x, from, LESS(from + GROUP, x->count), job, found);
}

/* -- errors -------------------------------------------------------------------------------------------------------- */

typedef struct {
    Lanes product, absolute, squares, relative, outside, right_zero, near_zero, peak;
    Shifted left, right;
} Errors;

/* What stays the same for all elements of a tile. */
typedef struct {
    Scale scale;
    Bounds bounds;
    double left_middle, right_middle, near_zero;
    Ahead ahead;
} Sweeping;

/* Sum up whole groups, and mark those that may hold something beyond the bounds. Return whether any does.
 *
 * `shared`: products of four right sides neither overflow nor underflow, so four elements share one division.
 * `zeros`: a right side may be 0 or next to it; relative errors leave these out.
 */
INLINE int add_errors(const RawDouble *restrict left, const RawDouble *restrict right, Py_ssize_t count,
                      const Sweeping *sweeping, Errors *errors, Marks *marks, const int shared, const int zeros)
{
    const double rtol = sweeping->scale.rtol, atol = sweeping->scale.atol;
    const double largest = sweeping->bounds.largest, relative = sweeping->bounds.largest_relative;
    const double worst = sweeping->bounds.worst;
    const double left_middle = sweeping->left_middle, right_middle = sweeping->right_middle;
    const double near = sweeping->near_zero;
    /* Where nothing can be subnormal (`shared`), nothing is lifted. */
    const double lift = shared ? 1.0 : LIFTING;
    /* So that a product is 0 only where a factor is. */
    const double far = shared ? 1.0 : 0x1p600;
    Lanes any;
    Errors e = *errors;
    EACH_LANE any.v[j] = 0.0;

    for (Py_ssize_t i = 0, group = 0; i < count; i += GROUP, group++) {
        fetch(&sweeping->ahead, group);
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
            double s0 = l0 - left_middle, s1 = l1 - left_middle, s2 = l2 - left_middle, s3 = l3 - left_middle;
            e.left.sum.v[j] += (s0 + s1) + (s2 + s3);
            e.left.squares.v[j] += (s0 * s0 + s1 * s1) + (s2 * s2 + s3 * s3);
            double t0 = r0 - right_middle, t1 = r1 - right_middle, t2 = r2 - right_middle, t3 = r3 - right_middle;
            e.right.sum.v[j] += (t0 + t1) + (t2 + t3);
            e.right.squares.v[j] += (t0 * t0 + t1 * t1) + (t2 * t2 + t3 * t3);

            double w0 = m0 * rtol + atol, w1 = m1 * rtol + atol, w2 = m2 * rtol + atol, w3 = m3 * rtol + atol;
            double o0 = a0 > w0 ? 1.0 : 0.0, o1 = a1 > w1 ? 1.0 : 0.0;
            double o2 = a2 > w2 ? 1.0 : 0.0, o3 = a3 > w3 ? 1.0 : 0.0;
            e.outside.v[j] += (o0 + o1) + (o2 + o3);

            double peak = MORE(MORE(a0, a1), MORE(a2, a3)), mark = peak > largest ? 1.0 : 0.0;
            e.peak.v[j] = MORE(peak, e.peak.v[j]);
            mark = a0 * lift > worst * (w0 * lift) ? 1.0 : mark;
            mark = a1 * lift > worst * (w1 * lift) ? 1.0 : mark;
            mark = a2 * lift > worst * (w2 * lift) ? 1.0 : mark;
            mark = a3 * lift > worst * (w3 * lift) ? 1.0 : mark;

            double n0 = a0, n1 = a1, n2 = a2, n3 = a3, d0 = m0, d1 = m1, d2 = m2, d3 = m3;
            if (zeros) {
                double x0 = a0 != 0.0 ? 1.0 : 0.0, x1 = a1 != 0.0 ? 1.0 : 0.0;
                double x2 = a2 != 0.0 ? 1.0 : 0.0, x3 = a3 != 0.0 ? 1.0 : 0.0;
                /* One side is 0, and the other at most next to it. */
                double c0 = a0 > near ? 0.0 : 1.0, c1 = a1 > near ? 0.0 : 1.0;
                double c2 = a2 > near ? 0.0 : 1.0, c3 = a3 > near ? 0.0 : 1.0;
                double s0 = (l0 * far) * (r0 * far) == 0.0 ? 1.0 : 0.0, s1 = (l1 * far) * (r1 * far) == 0.0 ? 1.0 : 0.0;
                double s2 = (l2 * far) * (r2 * far) == 0.0 ? 1.0 : 0.0, s3 = (l3 * far) * (r3 * far) == 0.0 ? 1.0 : 0.0;
                /* Products of 0 and 1: GCC makes no vectors of conditions inside of conditions. */
                double y0 = x0 * c0 * s0, y1 = x1 * c1 * s1, y2 = x2 * c2 * s2, y3 = x3 * c3 * s3;
                double z0 = m0 == 0.0 ? x0 : 0.0, z1 = m1 == 0.0 ? x1 : 0.0;
                double z2 = m2 == 0.0 ? x2 : 0.0, z3 = m3 == 0.0 ? x3 : 0.0;
                e.near_zero.v[j] += (y0 + y1) + (y2 + y3);
                e.right_zero.v[j] += (z0 * (1.0 - y0) + z1 * (1.0 - y1)) + (z2 * (1.0 - y2) + z3 * (1.0 - y3));
                n0 = m0 == 0.0 ? 0.0 : a0, n1 = m1 == 0.0 ? 0.0 : a1;
                n2 = m2 == 0.0 ? 0.0 : a2, n3 = m3 == 0.0 ? 0.0 : a3;
                n0 *= 1.0 - y0, n1 *= 1.0 - y1, n2 *= 1.0 - y2, n3 *= 1.0 - y3;
                d0 = m0 == 0.0 ? 1.0 : m0, d1 = m1 == 0.0 ? 1.0 : m1;
                d2 = m2 == 0.0 ? 1.0 : m2, d3 = m3 == 0.0 ? 1.0 : m3;
            }
            if (shared) {
                double d01 = d0 * d1, d23 = d2 * d3;
                double q0 = n0 * d1, q1 = n1 * d0, q2 = n2 * d3, q3 = n3 * d2;
                e.relative.v[j] += ((q0 + q1) * d23 + (q2 + q3) * d01) / (d01 * d23);
                mark = MORE(q0, q1) > relative * d01 ? 1.0 : mark;
                mark = MORE(q2, q3) > relative * d23 ? 1.0 : mark;
            } else {
                e.relative.v[j] += (n0 / d0 + n1 / d1) + (n2 / d2 + n3 / d3);
                mark = n0 * lift > relative * (d0 * lift) ? 1.0 : mark;
                mark = n1 * lift > relative * (d1 * lift) ? 1.0 : mark;
                mark = n2 * lift > relative * (d2 * lift) ? 1.0 : mark;
                mark = n3 * lift > relative * (d3 * lift) ? 1.0 : mark;
            }
            marks->groups[group].v[j] = mark;
            any.v[j] = MORE(mark, any.v[j]);
        }
    }
    *errors = e;
    return is_marked(&any);
}

typedef int (*AddErrors)(const RawDouble *, const RawDouble *, Py_ssize_t, const Sweeping *, Errors *, Marks *);

#define ADD_ERRORS(NAME, SHARED, ZEROS)                                                                                \
    CLONES static int NAME(const RawDouble *left, const RawDouble *right, Py_ssize_t count, const Sweeping *sweeping,  \
                           Errors *errors, Marks *marks)                                                               \
    {                                                                                                                  \
        return add_errors(left, right, count, sweeping, errors, marks, SHARED, ZEROS);                                 \
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

/* What is left of a tile behind its whole groups, filled up to a group. */
typedef struct {
    double left[GROUP], right[GROUP];
} Rest;

/* Sum up all elements of a tile, and return whether some group is marked. */
static int sum_up(const Elements *x, const Look *look, const Sweeping *sweeping, const Job *job, Errors *errors,
                  Marks *marks)
{
    Py_ssize_t count = x->count % GROUP, whole = x->count - count;
    int marked = 0;
    if (whole)
        marked = errors_of(job, look->least <= job->near_zero)(x->left, x->right, whole, sweeping, errors, marks);
    if (!count)
        return marked;
    Rest rest;
    memset(&rest, 0, sizeof rest);
    memcpy(rest.left, x->left + whole, (size_t)count * sizeof(double));
    memcpy(rest.right, x->right + whole, (size_t)count * sizeof(double));
    Shifted left = errors->left, right = errors->right;
    Marks mark;
    /* Two zeros differ by nothing, so they add nothing, but to what each side adds up by itself. */
    int more = errors_of(job, 1)(rest.left, rest.right, GROUP, sweeping, errors, &mark);
    marks->groups[whole / GROUP] = mark.groups[0];
    add_shifted(&left, rest.left, count, sweeping->left_middle, &sweeping->ahead);
    add_shifted(&right, rest.right, count, sweeping->right_middle, &sweeping->ahead);
    errors->left = left;
    errors->right = right;
    return marked || more;
}

INLINE int is_integer(Kind kind)
{
    return kind >= INT8;
}

static void count_saturated(const Elements *x, const Job *job, Found *found)
{
    for (Py_ssize_t i = 0; i < x->count; i++) {
        double l = x->left[i];
        if (fabs(l) == job->maximum && l != x->right[i]) {
            found->saturated++;
            first_of(&found->first_saturated, element_at(x, i));
        }
    }
}

/* Add what the differences of a tile tell. */
static void add_differences(const Errors *errors, long long differing, const Job *job, Found *found)
{
    double absolute = across(errors->absolute.v);
    add_to(&found->product, across(errors->product.v));
    add_to(&found->absolute, absolute);
    add_to(&found->squares, across(errors->squares.v));
    add_to(&found->relative, across(errors->relative.v));
    found->differing += differing;
    found->right_zero += (long long)across(errors->right_zero.v);
    found->near_zero += (long long)across(errors->near_zero.v);
    found->outside += scale_of(job).forbidden ? differing : (long long)across(errors->outside.v);
    if (is_integer(job->left) && is_integer(job->right)) {
        unsigned long long exact = (unsigned long long)absolute;
        found->exact_high += exact >> 32;
        found->exact_low += exact & 0xffffffffu;
    }
}

typedef enum { MEASURED, NOT_FINITE, FAR_AWAY } Outcome;

/* Measure a tile. Nothing was added unless it is MEASURED. */
static Outcome add_tile(const Elements *x, const Look *look, const Ahead *ahead, const Job *job, Found *found)
{
    const Scale scale = scale_of(job);
    const Sweeping sweeping = {scale, bounds_of(found, job, &scale), middle_of(&look->left), middle_of(&look->right),
                               job->near_zero, *ahead};
    Errors errors;
    Marks marks;
    memset(&errors, 0, sizeof errors);
    int marked = sum_up(x, look, &sweeping, job, &errors, &marks);
    if (!isfinite(across(errors.left.sum.v)) || !isfinite(across(errors.right.sum.v)))
        return NOT_FINITE;
    double left_peak = peak_of(&look->left), right_peak = peak_of(&look->right);
    if (!is_safe(left_peak) || !is_safe(right_peak) || !is_safe(greatest(errors.peak.v)))
        return FAR_AWAY;
    if (marked)
        search(x, &marks, job, found);
    if (!(found->largest_relative.value < SAFE_HIGH))
        return FAR_AWAY;
    add_moments(&found->left, &look->left, added_by(&errors.left, &look->left, x->count), x->count);
    add_moments(&found->right, &look->right, added_by(&errors.right, &look->right, x->count), x->count);
    found->right_peak = MORE(right_peak, found->right_peak);
    if (left_peak >= job->maximum)
        count_saturated(x, job, found);
    add_differences(&errors, look->differing, job, found);
    return MEASURED;
}

/* Measure what is finite of a tile that is not. */
static Outcome add_finite(const Elements *x, Tile *tile, const Ahead *ahead, const Job *job, Found *found)
{
    const Elements finite = split_classes(x, tile, job, found);
    if (!finite.count)
        return MEASURED;
    const Look look = look_at_doubles(finite.left, finite.right, finite.count);
    Outcome outcome = add_tile(&finite, &look, ahead, job, found);
    return outcome == NOT_FINITE ? FAR_AWAY : outcome;
}

/* Measure a tile whose sides are equal bit by bit, of which the left one is enough. Nothing was added unless it is
 * MEASURED. */
static Outcome add_identical(const char *raw, Py_ssize_t count, const Ahead *ahead, Tile *tile, const Job *job,
                             Found *found)
{
    const RawDouble *x = as_doubles(job->left, raw, count, tile->left_floats, tile->left);
    const Elements both = {x, x, count, NULL, 0};
    const Look look = look_at(&both, job->left, job->left, raw, raw, tile->left_floats, tile->left_floats);
    const Range *range = &look.left;
    Shifted shifted;
    memset(&shifted, 0, sizeof shifted);
    add_shifted(&shifted, x, count, middle_of(range), ahead);
    if (!isfinite(across(shifted.sum.v)))
        return NOT_FINITE;
    double peak = peak_of(range);
    if (!is_safe(peak))
        return FAR_AWAY;
    Added added = added_by(&shifted, range, count);
    add_moments(&found->left, range, added, count);
    add_moments(&found->right, range, added, count);
    add_to(&found->product, added.deviations + added.total / (double)count * added.total);
    found->right_peak = MORE(peak, found->right_peak);
    return MEASURED;
}

/* Measure a tile of which nothing is known but how many elements differ in their bits. */
static Outcome add_differing(const char *left, const char *right, Py_ssize_t count, long long start,
                             const Ahead *ahead, Tile *tile, const Job *job, Found *found)
{
    const Elements x = take(job->left, job->right, left, right, count, start, tile);
    const Look look = look_at(&x, job->left, job->right, left, right, tile->left_floats, tile->right_floats);
    Outcome outcome = add_tile(&x, &look, ahead, job, found);
    return outcome == NOT_FINITE ? add_finite(&x, tile, ahead, job, found) : outcome;
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
        const Ahead ahead = ahead_of(a, b, left_size, right_size, count - done <= TILE);
        uint32_t bits = job->compare_bits ? differing_bits(left_size, a, b, n) : 0;
        Outcome outcome = NOT_FINITE;
        found->bits += bits;
        found->elements += n;
        if (job->compare_bits && bits == 0)
            outcome = add_identical(a, n, &ahead, &tile, job, found);
        if (outcome == NOT_FINITE)
            outcome = add_differing(a, b, n, start + done, &ahead, &tile, job, found);
        if (outcome != MEASURED)
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

typedef struct {
    Kind left, right;
    Span left_span, right_span;
    int all_finite;
} DivergenceJob;

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
NORMALISE(normalise_doubles, RawDouble)

/* Bring one side of a tile to places in its range. */
static void take_places(Kind kind, const void *raw, Py_ssize_t count, Span span, float *floats, double *out)
{
    if (is_narrow(kind))
        normalise_floats(as_floats(kind, raw, count, floats), count, span, out);
    else
        normalise_doubles(as_doubles(kind, raw, count, floats, out), count, span, out);
}

/* ln(p/q) is k·ln 2 + 2·artanh((p - q·2**k) / (p + q·2**k)), where k, the rounded difference of the bits of p and q
 * read as logarithms, keeps the fraction below 0.2006. The polynomial is artanh's, interpolated at Chebyshev's nodes. */
static const double LN2_HIGH = 0x1.62e42fefa3000p-1, LN2_LOW = 2.8235290563031577e-13;
static const double ARTANH[7] = {0.6666666666666697,  0.39999999999261193, 0.2857142886060308, 0.22222179858311245,
                                 0.18184765029711916, 0.15279958588929263, 0.1515218343619192};
/* Of fractions within NEAR three terms of artanh's series are enough; within MIDDLE it is the polynomial, with k = 0. */
static const double NEAR = 0x1p-7, MIDDLE = 0.2, SERIES[3] = {2.0 / 3.0, 2.0 / 5.0, 2.0 / 7.0};
/* Added to the difference of two exponents to make it positive. */
enum { LIFT = 64 };

INLINE double near_ratio(double fraction)
{
    double z = fraction * fraction;
    return 2.0 * fraction + fraction * (z * (SERIES[0] + z * (SERIES[1] + z * SERIES[2])));
}

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

/* (p - q) / (p + q) of whole groups of places, and for each group and lane the greatest of its magnitudes. */
typedef struct {
    double values[TILE] __attribute__((aligned(64)));
    Lanes greatest[GROUPS];
} Fractions;

/* Add up the places, and tell how far apart they are. */
CLONES static void take_fractions(const double *restrict left, const double *restrict right, Py_ssize_t count,
                                  const Ahead *ahead, Fractions *restrict fractions, Divergence *all)
{
    double *restrict f = fractions->values;
    Lanes p_total, q_total;
    EACH_LANE p_total.v[j] = q_total.v[j] = 0.0;
    for (Py_ssize_t i = 0, group = 0; i < count; i += GROUP, group++) {
        fetch(ahead, group);
        EACH_LANE {
            double p0 = left[i + j], p1 = left[i + LANES + j];
            double p2 = left[i + 2 * LANES + j], p3 = left[i + 3 * LANES + j];
            double q0 = right[i + j], q1 = right[i + LANES + j];
            double q2 = right[i + 2 * LANES + j], q3 = right[i + 3 * LANES + j];
            double d0 = p0 + q0, d1 = p1 + q1, d2 = p2 + q2, d3 = p3 + q3;
            /* Four fractions share one division; all denominators are between 2**-24 and 4. */
            double d01 = d0 * d1, d23 = d2 * d3, inverse = 1.0 / (d01 * d23);
            double i01 = inverse * d23, i23 = inverse * d01;
            double f0 = (p0 - q0) * (i01 * d1), f1 = (p1 - q1) * (i01 * d0);
            double f2 = (p2 - q2) * (i23 * d3), f3 = (p3 - q3) * (i23 * d2);
            p_total.v[j] += (p0 + p1) + (p2 + p3);
            q_total.v[j] += (q0 + q1) + (q2 + q3);
            fractions->greatest[group].v[j] = MORE(MORE(fabs(f0), fabs(f1)), MORE(fabs(f2), fabs(f3)));
            f[i + j] = f0;
            f[i + LANES + j] = f1;
            f[i + 2 * LANES + j] = f2;
            f[i + 3 * LANES + j] = f3;
        }
    }
    add_to(&all->left, across(p_total.v));
    add_to(&all->right, across(q_total.v));
}

/* Σ p·ln(p/q) of a group, lane by lane, by a function of the fractions. */
#define WEIGHTED(RATIO)                                                                                                \
    EACH_LANE weighted.v[j] += (p[j] * RATIO(f[j]) + p[LANES + j] * RATIO(f[LANES + j])) +                             \
                               (p[2 * LANES + j] * RATIO(f[2 * LANES + j]) + p[3 * LANES + j] * RATIO(f[3 * LANES + j]))

INLINE double middle_ratio(double fraction)
{
    return log_ratio(0.0, fraction);
}

/* The same where some places are far apart. */
INLINE void add_far(const double *restrict p, const double *restrict q, Lanes *weighted)
{
    EACH_LANE {
        double p0 = p[j], p1 = p[LANES + j], p2 = p[2 * LANES + j], p3 = p[3 * LANES + j];
        double q0 = q[j], q1 = q[LANES + j], q2 = q[2 * LANES + j], q3 = q[3 * LANES + j];
        uint64_t e0 = distance(p0, q0), e1 = distance(p1, q1), e2 = distance(p2, q2), e3 = distance(p3, q3);
        double s0 = brought_nearer(q0, e0), s1 = brought_nearer(q1, e1);
        double s2 = brought_nearer(q2, e2), s3 = brought_nearer(q3, e3);
        double d0 = p0 + s0, d1 = p1 + s1, d2 = p2 + s2, d3 = p3 + s3;
        double d01 = d0 * d1, d23 = d2 * d3, inverse = 1.0 / (d01 * d23);
        double i01 = inverse * d23, i23 = inverse * d01;
        double f0 = (p0 - s0) * (i01 * d1), f1 = (p1 - s1) * (i01 * d0);
        double f2 = (p2 - s2) * (i23 * d3), f3 = (p3 - s3) * (i23 * d2);
        weighted->v[j] += (p0 * log_ratio(unlifted(e0), f0) + p1 * log_ratio(unlifted(e1), f1)) +
                          (p2 * log_ratio(unlifted(e2), f2) + p3 * log_ratio(unlifted(e3), f3));
    }
}

/* Add up p·ln(p/q) of whole groups, of each as shortly as its fractions allow. */
CLONES static void add_logarithms(const double *restrict left, const double *restrict right, Py_ssize_t count,
                                  const Fractions *restrict fractions, Divergence *all)
{
    Lanes weighted;
    EACH_LANE weighted.v[j] = 0.0;
    for (Py_ssize_t i = 0, group = 0; i < count; i += GROUP, group++) {
        const double *p = left + i, *f = fractions->values + i, *g = fractions->greatest[group].v;
        double most = MORE(MORE(MORE(g[0], g[4]), MORE(g[2], g[6])), MORE(MORE(g[1], g[5]), MORE(g[3], g[7])));
        if (most <= NEAR)
            WEIGHTED(near_ratio);
        else if (most <= MIDDLE)
            WEIGHTED(middle_ratio);
        else
            add_far(p, right + i, &weighted);
    }
    add_to(&all->weighted, across(weighted.v));
}

static void add_divergences(const double *left, const double *right, Py_ssize_t count, const Ahead *ahead,
                            Divergence *all)
{
    Fractions fractions;
    take_fractions(left, right, count, ahead, &fractions, all);
    add_logarithms(left, right, count, &fractions, all);
}

/* Keep what is finite on both sides, and return how many elements that are. */
static Py_ssize_t keep_finite(const Elements *x, Tile *tile)
{
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < x->count; i++) {
        double l = x->left[i], r = x->right[i];
        if (isfinite(l) && isfinite(r)) {
            tile->left[kept] = l;
            tile->right[kept++] = r;
        }
    }
    return kept;
}

static void add_divergence_of_tile(Tile *tile, Py_ssize_t count, const Ahead *ahead, Divergence *all)
{
    Py_ssize_t whole = count - count % GROUP;
    if (whole)
        add_divergences(tile->left, tile->right, whole, ahead, all);
    if (count == whole)
        return;
    /* Ones on both sides are equal and add nothing but to the two totals, out of which they are taken exactly. */
    for (Py_ssize_t i = count; i < whole + GROUP; i++)
        tile->left[i] = tile->right[i] = 1.0;
    add_divergences(tile->left + whole, tile->right + whole, GROUP, ahead, all);
    add_to(&all->left, -(double)(whole + GROUP - count));
    add_to(&all->right, -(double)(whole + GROUP - count));
}

static void add_divergence(const char *left, const char *right, Py_ssize_t count, const DivergenceJob *job,
                           Divergence *all)
{
    Tile tile;
    const Py_ssize_t left_size = ITEMSIZE[job->left], right_size = ITEMSIZE[job->right];
    for (Py_ssize_t done = 0; done < count; done += TILE) {
        Py_ssize_t n = LESS(count - done, (Py_ssize_t)TILE);
        const char *a = left + done * left_size, *b = right + done * right_size;
        const Ahead ahead = ahead_of(a, b, left_size, right_size, count - done <= TILE);
        if (job->all_finite) {
            take_places(job->left, a, n, job->left_span, tile.left_floats, tile.left);
            take_places(job->right, b, n, job->right_span, tile.right_floats, tile.right);
        } else {
            const Elements x = take(job->left, job->right, a, b, n, 0, &tile);
            n = keep_finite(&x, &tile);
            normalise_doubles(tile.left, n, job->left_span, tile.left);
            normalise_doubles(tile.right, n, job->right_span, tile.right);
        }
        add_divergence_of_tile(&tile, n, &ahead, all);
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

/* What to measure by: both kinds, rtol, atol, the left type's maximum, how near to 0 is next to it, how many worst, and
 * whether bits count. */
static int take_job(PyObject *terms, Job *job)
{
    int left, right, worst, compare_bits;
    double rtol, atol, maximum, near_zero;
    if (!PyArg_ParseTuple(terms, "iiddddip:Sweep", &left, &right, &rtol, &atol, &maximum, &near_zero, &worst,
                          &compare_bits) ||
        check_kinds(left, right) < 0)
        return -1;
    if (worst < 0 || worst > MOST_WORST || (compare_bits && ITEMSIZE[left] != ITEMSIZE[right])) {
        PyErr_Format(PyExc_ValueError, "at most %d worst elements are kept, and bits are compared of one kind",
                     MOST_WORST);
        return -1;
    }
    *job = (Job){left, right, rtol, atol, maximum, near_zero, worst, compare_bits};
    return 0;
}

/* Nothing is found yet. */
static void begin(Found *found)
{
    memset(found, 0, sizeof *found);
    found->first_mismatch = found->first_nonfinite = found->first_left_only = found->first_saturated = -1;
    found->largest.element = found->largest_relative.element = -1;
    found->left.minimum = found->right.minimum = INFINITY;
    found->left.maximum = found->right.maximum = -INFINITY;
}

static PyObject *sweep_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    Job job;
    if (kwargs && PyDict_GET_SIZE(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "Sweep takes no keyword arguments");
        return NULL;
    }
    if (take_job(args, &job) < 0)
        return NULL;
    SweepObject *self = (SweepObject *)type->tp_alloc(type, 0);
    if (!self)
        return NULL;
    self->job = job;
    begin(&self->found);
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

/* The named tuples of `kernel.Partial`, in the order that `swept.py` gives them. */
enum { PARTIAL, CLASSES, MOMENTS, SUM, PEAK, ERRORS, CANDIDATE, TYPES };

static int check_types(PyObject *types)
{
    if (PyTuple_Check(types) && PyTuple_GET_SIZE(types) == TYPES) {
        Py_ssize_t known = 0;
        while (known < TYPES) {
            PyTypeObject *type = (PyTypeObject *)PyTuple_GET_ITEM(types, known);
            if (!PyType_Check(type) || !PyType_IsSubtype(type, &PyTuple_Type) ||
                type->tp_basicsize != PyTuple_Type.tp_basicsize)
                break;
            known++;
        }
        if (known == TYPES)
            return 0;
    }
    PyErr_SetString(PyExc_TypeError, "the types of what it returns are asked for, which are tuples");
    return -1;
}

/* Return a tuple of this type out of items that it owns from now on; NULL where one of them could not be made. */
static PyObject *made(PyObject *type, Py_ssize_t count, PyObject *const *items)
{
    PyObject *tuple = NULL;
    Py_ssize_t whole = 0;
    while (whole < count && items[whole])
        whole++;
    if (whole == count)
        tuple = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, count);
    for (Py_ssize_t i = 0; i < count; i++)
        if (tuple)
            PyTuple_SET_ITEM(tuple, i, items[i]);
        else
            Py_XDECREF(items[i]);
    return tuple;
}

#define MADE(TYPE, ...)                                                                                                \
    made(TYPE, sizeof((PyObject *[]){__VA_ARGS__}) / sizeof(PyObject *), (PyObject *const[]){__VA_ARGS__})
#define MADE_AS(NUMBER, ...) MADE(PyTuple_GET_ITEM(types, NUMBER), __VA_ARGS__)
#define INTEGER PyLong_FromLongLong
#define REAL PyFloat_FromDouble

static PyObject *none(void)
{
    Py_RETURN_NONE;
}

static PyObject *of_place(long long element)
{
    return element < 0 ? none() : INTEGER(element);
}

static PyObject *of_value(double value, int integer)
{
    return integer ? PyLong_FromDouble(value) : REAL(value);
}

static PyObject *of_sum(PyObject *types, Sum sum)
{
    return MADE_AS(SUM, REAL(sum.high), REAL(sum.low), INTEGER(0));
}

static PyObject *of_peak(PyObject *types, Peak peak, int integer)
{
    if (peak.element < 0)
        return MADE_AS(PEAK, INTEGER(0), none());
    return MADE_AS(PEAK, of_value(peak.value, integer), INTEGER(peak.element));
}

static PyObject *of_moments(PyObject *types, const Moments *m)
{
    if (!m->elements)
        return PyTuple_New(0);
    return MADE((PyObject *)&PyTuple_Type,
                MADE_AS(MOMENTS, INTEGER(m->elements), of_sum(types, m->total), of_sum(types, m->deviations),
                        REAL(m->minimum), REAL(m->maximum)));
}

static PyObject *of_classes(PyObject *types, const Found *found)
{
    const long long *c = found->classes;
    return MADE_AS(CLASSES, INTEGER(c[NAN_BOTH]), INTEGER(c[NAN_LEFT]), INTEGER(c[NAN_RIGHT]), INTEGER(c[INF_BOTH]),
                   INTEGER(c[INF_LEFT]), INTEGER(c[INF_RIGHT]), INTEGER(c[MISMATCH]), INTEGER(c[LEFT_ONLY]),
                   of_place(found->first_mismatch), of_place(found->first_nonfinite),
                   of_place(found->first_left_only));
}

/* Σ|l-r| of integers, which may need more than 64 bits. */
static PyObject *of_exact(const Found *found)
{
    PyObject *low = PyLong_FromUnsignedLongLong(found->exact_low);
    if (!found->exact_high || !low)
        return low;
    PyObject *high = PyLong_FromUnsignedLongLong(found->exact_high), *places = INTEGER(32);
    PyObject *lifted = high && places ? PyNumber_Lshift(high, places) : NULL;
    PyObject *exact = lifted ? PyNumber_Add(lifted, low) : NULL;
    Py_XDECREF(high);
    Py_XDECREF(places);
    Py_XDECREF(lifted);
    Py_DECREF(low);
    return exact;
}

static PyObject *of_errors(PyObject *types, const Job *job, const Found *f)
{
    int integers = is_integer(job->left) && is_integer(job->right);
    return MADE_AS(ERRORS, INTEGER(f->differing), INTEGER(f->right_zero), INTEGER(f->outside), INTEGER(f->saturated),
                   of_exact(f), of_sum(types, f->absolute), of_sum(types, f->squares), of_sum(types, f->relative),
                   REAL(f->right_peak), of_peak(types, f->largest, integers),
                   of_peak(types, f->largest_relative, 0), of_place(f->first_saturated), INTEGER(f->near_zero));
}

/* Those whose classes differ come first, then those where nothing is allowed, then by ratio: as `Candidate.rank`. */
static PyObject *of_worst(PyObject *types, const Job *job, const Found *found)
{
    int left = is_integer(job->left), right = is_integer(job->right);
    int mismatches = found->mismatch_count, all = LESS(mismatches + found->worst_count, job->worst);
    PyObject *tuple = PyTuple_New(all);
    for (int i = 0; tuple && i < all; i++) {
        PyObject *item;
        if (i < mismatches) {
            const Mismatch *m = &found->mismatches[i];
            item = MADE_AS(CANDIDATE, REAL(INFINITY), PyBool_FromLong(1), REAL(INFINITY), INTEGER(m->element),
                           of_value(m->left, left), of_value(m->right, right));
        } else {
            const Candidate *c = &found->worst[i - mismatches];
            item = MADE_AS(CANDIDATE, REAL(c->forbidden ? INFINITY : c->score), PyBool_FromLong(0),
                           REAL(c->forbidden ? c->score : 0.0), INTEGER(c->element), of_value(c->left, left),
                           of_value(c->right, right));
        }
        if (item)
            PyTuple_SET_ITEM(tuple, i, item);
        else
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *sweep_found(SweepObject *self, PyObject *types)
{
    const Found *f = &self->found;
    const Job *job = &self->job;
    if (check_types(types) < 0)
        return NULL;
    return MADE_AS(PARTIAL, INTEGER(f->elements), job->compare_bits ? INTEGER(f->bits) : none(),
                   of_classes(types, f), of_moments(types, &f->left), of_moments(types, &f->right),
                   of_sum(types, f->product), of_errors(types, job, f), of_worst(types, job, f));
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
    {"found", (PyCFunction)sweep_found, METH_O, "Return what is known of the blocks added so far, in these types."},
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
    PyTypeObject *types[] = {&sweep_type, &divergence_type};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyModule_AddType(module, types[i]) < 0)
            return -1;
    if (PyModule_AddIntConstant(module, "FORM", FORM) < 0)
        return -1;
    if (PyModule_AddStringConstant(module, "SOURCE", IN_QUOTES(MSDUMP_SOURCE)) < 0)
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

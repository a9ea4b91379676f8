/* The compiled kernel: what `numpy_kernel.py` does block by block, in one sweep over both sides.
 *
 * A block is cut into tiles that stay in the first cache. Each tile is read once for its ranges and once for all sums;
 * places of maxima and the worst elements are searched only in those groups of it that hold something beyond what was
 * found before. NaN and Inf show in the sums, and are then counted by a slower loop. Every sum has LANES
 * accumulators whatever the machine's vectors hold, and nothing is contracted or reordered, so that all machines give
 * the same bits. Loops over lanes are plain C that compilers turn into vectors.
 *
 * A block that would need scaled sums (magnitudes beyond 2**300) is refused and nothing of it is added: the caller
 * measures it with numpy.
 * The results are sums, counts, extrema and places; `definitions.py` makes metrics of them.
 * `c_kernel.py` calls it through ctypes, and declares the same structs: `Job`, `Found`, `DivergenceJob`, `Divergence`.
 */
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
/* Of 64-bit products, which AVX-512 has only with its DQ part: twice as quick as by 32-bit ones. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(MSDUMP_ONE_TARGET) && !defined(__clang__) && __GNUC__ >= 12
#define CLONES_OF_WORDS __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define CLONES_OF_WORDS CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

/* The digest of this file, which setup.py passes: another state of it is not loaded. */
#ifndef MSDUMP_SOURCE
#define MSDUMP_SOURCE "unknown"
#endif
const char msdump_source[] = MSDUMP_SOURCE;

enum {
    LANES = 8,
    GROUP = 4 * LANES, /* four vectors at a time: they share one division */
    TILE = 1024,
    GROUPS = TILE / GROUP,
    MOST_WORST = 16,
};

#define EACH_LANE for (int j = 0; j < LANES; j++)

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

static const int64_t ITEMSIZE[KINDS] = {4, 8, 2, 1, 1, 2, 2, 4, 4, 1};

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

INLINE double lowest(const double *v)
{
    double least = v[0];
    for (int j = 1; j < LANES; j++)
        least = v[j] < least ? v[j] : least;
    return least;
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

/* The elements as doubles, exactly; float64 is taken where it is. Narrow types are widened to 32 bits first, then all in
 * vectors of one width. */
CLONES static const RawDouble *doubles_of(Kind kind, const void *restrict raw, int64_t count, double *restrict out)
{
    int32_t words[TILE];
    switch (kind) {
    case FLOAT64: return raw;
    case FLOAT32:
        for (int64_t i = 0; i < count; i++)
            out[i] = (double)((const RawFloat *)raw)[i];
        return out;
    case FLOAT16:
        for (int64_t i = 0; i < count; i++)
            words[i] = ((const RawU16 *)raw)[i];
        for (int64_t i = 0; i < count; i++)
            out[i] = (double)half_value((uint32_t)words[i]);
        return out;
    case INT32:
        for (int64_t i = 0; i < count; i++)
            out[i] = (double)((const RawI32 *)raw)[i];
        return out;
    case UINT32:
        /* 2**52 + x, less 2**52: few machines have an instruction for unsigned numbers. */
        for (int64_t i = 0; i < count; i++)
            out[i] = double_of(0x4330000000000000u | ((const RawU32 *)raw)[i]) - 0x1p52;
        return out;
    case INT8:
        for (int64_t i = 0; i < count; i++)
            words[i] = ((const RawI8 *)raw)[i];
        break;
    case UINT8:
        for (int64_t i = 0; i < count; i++)
            words[i] = ((const RawU8 *)raw)[i];
        break;
    case INT16:
        for (int64_t i = 0; i < count; i++)
            words[i] = ((const RawI16 *)raw)[i];
        break;
    case UINT16:
        for (int64_t i = 0; i < count; i++)
            words[i] = ((const RawU16 *)raw)[i];
        break;
    default: /* BOOL: any byte but 0 is true */
        for (int64_t i = 0; i < count; i++)
            words[i] = ((const RawU8 *)raw)[i] != 0;
        break;
    }
    for (int64_t i = 0; i < count; i++)
        out[i] = (double)words[i];
    return out;
}

CLONES static uint32_t differing_bits(int64_t itemsize, const void *left, const void *right, int64_t count)
{
    uint32_t differing = 0;
    switch (itemsize) {
    case 1:
        for (int64_t i = 0; i < count; i++)
            differing += ((const RawU8 *)left)[i] != ((const RawU8 *)right)[i];
        break;
    case 2:
        for (int64_t i = 0; i < count; i++)
            differing += ((const RawU16 *)left)[i] != ((const RawU16 *)right)[i];
        break;
    case 4:
        for (int64_t i = 0; i < count; i++)
            differing += ((const RawU32 *)left)[i] != ((const RawU32 *)right)[i];
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            differing += ((const RawU64 *)left)[i] != ((const RawU64 *)right)[i];
        break;
    }
    return differing;
}

/* -- a tile -------------------------------------------------------------------------------------------------------- */

/* A tile of both sides. `places` is where the elements are when some were left out, else NULL. */
typedef struct {
    const RawDouble *left, *right;
    int64_t count;
    const int32_t *places;
    int64_t start;
} Elements;

/* Buffers of one tile. */
typedef struct {
    double left[TILE] __attribute__((aligned(64)));
    double right[TILE] __attribute__((aligned(64)));
    int32_t places[TILE];
} Tile;

INLINE int64_t element_at(const Elements *x, int64_t i)
{
    return x->start + (x->places ? x->places[i] : (int64_t)i);
}

static Elements take(Kind left, Kind right, const char *a, const char *b, int64_t count, int64_t start, Tile *tile)
{
    return (Elements){doubles_of(left, a, count, tile->left), doubles_of(right, b, count, tile->right), count, NULL,
                      start};
}

/* Where the elements of the next tile are: what is fetched while this one is computed costs no waiting. */
typedef struct {
    const char *left, *right;
    int64_t left_step, right_step;
} Ahead;

INLINE Ahead ahead_of(const char *left, const char *right, int64_t left_size, int64_t right_size, int is_last)
{
    return (Ahead){left + (is_last ? 0 : TILE * left_size), right + (is_last ? 0 : TILE * right_size),
                   GROUP * left_size, GROUP * right_size};
}

INLINE void fetch(const Ahead *ahead, int64_t group)
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

/* What a tile holds; undefined where an element is NaN. */
typedef struct {
    Range left, right;
    double least; /* of the right side's magnitudes */
    int64_t differing;
} Look;

CLONES static Look look_at(const RawDouble *restrict l, const RawDouble *restrict r, int64_t count)
{
    Lanes low, high, right_low, right_high, least;
    uint64_t differing[LANES], all = 0;
    int64_t whole = count - count % LANES;
    EACH_LANE {
        low.v[j] = high.v[j] = l[0];
        right_low.v[j] = right_high.v[j] = r[0];
        least.v[j] = fabs(r[0]);
        differing[j] = 0;
    }
    for (int64_t i = 0; i < whole; i += LANES)
        EACH_LANE {
            double a = l[i + j], b = r[i + j], m = fabs(b);
            low.v[j] = LESS(a, low.v[j]);
            high.v[j] = MORE(a, high.v[j]);
            right_low.v[j] = LESS(b, right_low.v[j]);
            right_high.v[j] = MORE(b, right_high.v[j]);
            least.v[j] = LESS(m, least.v[j]);
            differing[j] += a != b;
        }
    for (int64_t i = whole; i < count; i++) {
        int j = (int)(i - whole);
        low.v[j] = LESS(l[i], low.v[j]);
        high.v[j] = MORE(l[i], high.v[j]);
        right_low.v[j] = LESS(r[i], right_low.v[j]);
        right_high.v[j] = MORE(r[i], right_high.v[j]);
        least.v[j] = LESS(fabs(r[i]), least.v[j]);
        differing[j] += l[i] != r[i];
    }
    EACH_LANE all += differing[j];
    return (Look){{lowest(low.v), greatest(high.v)}, {lowest(right_low.v), greatest(right_high.v)},
                  lowest(least.v), (int64_t)all};
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

/* As `sums.Moments`. */
typedef struct {
    int64_t elements;
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

CLONES static void add_shifted(Shifted *all, const RawDouble *x, int64_t count, double shift, const Ahead *ahead)
{
    int64_t groups = count - count % GROUP, whole = count - count % LANES;
    Shifted s = *all;
    for (int64_t i = 0, group = 0; i < groups; i += GROUP, group++) {
        fetch(ahead, group);
        /* One kind of sum after the other: compilers leave lanes that are of both in single numbers. */
        double a[GROUP];
        for (int j = 0; j < GROUP; j++)
            a[j] = x[i + j] - shift;
        EACH_LANE s.sum.v[j] += (a[j] + a[LANES + j]) + (a[2 * LANES + j] + a[3 * LANES + j]);
        for (int j = 0; j < GROUP; j++)
            a[j] *= a[j];
        EACH_LANE s.squares.v[j] += (a[j] + a[LANES + j]) + (a[2 * LANES + j] + a[3 * LANES + j]);
    }
    for (int64_t i = groups; i < whole; i += LANES)
        EACH_LANE {
            double a = x[i + j] - shift;
            s.sum.v[j] += a;
            s.squares.v[j] += a * a;
        }
    for (int64_t i = whole; i < count; i++) {
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

INLINE Added added_by(const Shifted *shifted, const Range *range, int64_t count)
{
    double number = (double)count, sum = across(shifted->sum.v);
    if (range->minimum == range->maximum)
        return (Added){range->minimum * number, 0.0};
    double deviations = across(shifted->squares.v) - sum * (sum / number);
    return (Added){middle_of(range) * number + sum, MORE(deviations, 0.0)};
}

/* Add one tile to a side's moments, after Chan, Golub and LeVeque. */
INLINE void add_moments(Moments *all, const Range *range, Added added, int64_t count)
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
    int64_t element;
} Peak;

/* As `rankings.Candidate`: `forbidden` where nothing is allowed, and then the score is |l-r|, else the ratio. */
typedef struct {
    double score, left, right;
    int64_t element, forbidden;
} Candidate;

typedef struct {
    double left, right;
    int64_t element;
} Mismatch;

/* As `pointwise.Classes`; places are -1 where there is none. */
typedef struct {
    int64_t nan_both, nan_left, nan_right, inf_both, inf_left, inf_right, mismatch, left_only;
    int64_t first_mismatch, first_nonfinite, first_left_only;
} Classes;

/* As `pointwise.Errors`. Of integers Σ|l-r| is exact_high·2**32 + exact_low. */
typedef struct {
    int64_t differing, right_zero, near_zero, outside, saturated, first_saturated, above_1, above_32, underflow;
    uint64_t exact_high, exact_low;
    Sum absolute, squares, relative, units;
    double right_peak;
    Peak largest, largest_relative;
} Errors;

/* As `slices.Grid`: of a row, `unit` elements are of each group of slices, and what is left of `row` of the `last`. For
 * each group Σ|l-r|² and Σ|r|² are added. No slices are wanted where `row` is 0. */
typedef struct {
    int64_t unit, row, last;
    double *apart, *right;
} Slices;

/* What is known of the blocks seen so far. As `numpy_kernel.Partial`. */
typedef struct {
    int64_t elements, bits;
    Classes classes;
    Moments left, right;
    Sum product;
    Errors errors;
    int64_t worst_count, mismatch_count;
    Candidate worst[MOST_WORST];
    Mismatch mismatches[MOST_WORST];
    Slices slices;
} Found;

/* What to measure by: `maximum` is the left type's largest number, `near_zero` how near to 0 is next to it, `worst` how
 * many worst elements to keep, at most MOST_WORST; bits are compared only of two equal kinds. A unit of the last place
 * of r is `epsilon` times the power of two below |r|, which is at least `normal`; it is infinite where nothing asks. */
typedef struct {
    int32_t left, right, worst, compare_bits;
    double rtol, atol, maximum, near_zero, normal, epsilon;
} Job;

INLINE void first_of(int64_t *first, int64_t element)
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

static void add_classes(double l, double r, int64_t element, const Job *job, Found *found)
{
    int a = class_of(l), b = class_of(r);
    first_of(&found->classes.first_nonfinite, element);
    found->classes.nan_both += a == 3 && b == 3;
    found->classes.nan_left += a == 3 && b != 3;
    found->classes.nan_right += a != 3 && b == 3;
    found->classes.inf_both += a == b && a != 3;
    found->classes.inf_left += (a == 1 || a == 2) && a != b;
    found->classes.inf_right += (b == 1 || b == 2) && a != b;
    if (!b) {
        found->classes.left_only++;
        first_of(&found->classes.first_left_only, element);
    }
    if (a != b) {
        found->classes.mismatch++;
        first_of(&found->classes.first_mismatch, element);
        if (found->mismatch_count < job->worst)
            found->mismatches[found->mismatch_count++] = (Mismatch){l, r, element};
    }
}

/* Count classes, and return what is finite on both sides, as doubles. */
static Elements split_classes(const Elements *x, Tile *tile, const Job *job, Found *found)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < x->count; i++) {
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
    return (Bounds){found->errors.largest.value, lowered(found->errors.largest_relative.value),
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
    const double largest = found->errors.largest.value, largest_relative = found->errors.largest_relative.value;
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

CLONES static int group_goes_beyond(const Elements *x, int64_t from, const Job *job, const Found *found)
{
    const RawDouble *left = x->left + from, *right = x->right + from;
    return scale_of(job).forbidden ? goes_beyond(left, right, job, found, 1) : goes_beyond(left, right, job, found, 0);
}

/* Look at each element of a group. */
static void search_group(const Elements *x, int64_t from, int64_t to, const Job *job, Found *found)
{
    const Scale scale = scale_of(job);
    Bounds bounds = bounds_of(found, job, &scale);
    for (int64_t i = from; i < to; i++) {
        double l = x->left[i], r = x->right[i];
        double a = fabs(l - r), m = fabs(r), allowed = m * scale.rtol + scale.atol, lifted = a * LIFTING;
        /* In the first tile all groups are marked, and most of their elements are passed over without a division. */
        if (!(a > bounds.largest || lifted > bounds.largest_relative * (m * LIFTING) ||
              lifted > bounds.worst * (allowed * LIFTING)))
            continue;
        if (a > found->errors.largest.value)
            found->errors.largest = (Peak){a, element_at(x, i)};
        double relative = relative_of(l, a, m, job);
        if (relative > found->errors.largest_relative.value)
            found->errors.largest_relative = (Peak){relative, element_at(x, i)};
        int forbidden = scale.forbidden || allowed == 0.0;
        double score = allowed == 0.0 ? a : a / allowed;
        if (score > floor_of(found, job, forbidden))
            insert(found, job, (Candidate){score, l, r, element_at(x, i), forbidden});
        bounds = bounds_of(found, job, &scale);
    }
}

static void search(const Elements *x, const Marks *marks, const Job *job, Found *found)
{
    for (int64_t from = 0, group = 0; from < x->count; from += GROUP, group++)
        if (is_marked(&marks->groups[group]) &&
            (from + GROUP > x->count || group_goes_beyond(x, from, job, found)))
            search_group(x, from, LESS(from + GROUP, x->count), job, found);
}

/* -- errors -------------------------------------------------------------------------------------------------------- */

typedef struct {
    Lanes product, absolute, squares, relative, outside, right_zero, near_zero, peak;
    Lanes units, above_1, above_32, left_zero;
    Shifted left, right;
} ErrorLanes;

/* 2 divided by the power of two below m, exactly: the exponent's sign is turned. */
INLINE double inverse_power(double m, double normal)
{
    const uint64_t exponent = 0x7ff0000000000000u;
    return double_of(exponent - (bits_of(MORE(m, normal)) & exponent));
}

/* What stays the same for all elements of a tile. */
typedef struct {
    Scale scale;
    Bounds bounds;
    double left_middle, right_middle, near_zero, normal, epsilon;
    Ahead ahead;
} Sweeping;

/* Sum up whole groups, and mark those that may hold something beyond the bounds. Return whether any does.
 *
 * `shared`: products of four right sides neither overflow nor underflow, so four elements share one division.
 * `zeros`: a right side may be 0 or next to it; relative errors leave these out.
 * `units`: distances in units of the last place are wanted.
 */
INLINE int add_errors_of(const RawDouble *restrict left, const RawDouble *restrict right, int64_t count,
                      const Sweeping *sweeping, ErrorLanes *errors, Marks *marks, const int shared, const int zeros,
                         const int units)
{
    const double rtol = sweeping->scale.rtol, atol = sweeping->scale.atol;
    const double largest = sweeping->bounds.largest, relative = sweeping->bounds.largest_relative;
    const double worst = sweeping->bounds.worst;
    const double left_middle = sweeping->left_middle, right_middle = sweeping->right_middle;
    const double near = sweeping->near_zero, normal = sweeping->normal;
    const double one = 2.0 * sweeping->epsilon, many = 32.0 * one;
    /* Where nothing can be subnormal (`shared`), nothing is lifted. */
    const double lift = shared ? 1.0 : LIFTING;
    /* So that a product is 0 only where a factor is. */
    const double far = shared ? 1.0 : 0x1p600;
    Lanes any;
    ErrorLanes e = *errors;
    EACH_LANE any.v[j] = 0.0;

    for (int64_t i = 0, group = 0; i < count; i += GROUP, group++) {
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

            if (units) {
                double u0 = a0 * inverse_power(m0, normal), u1 = a1 * inverse_power(m1, normal);
                double u2 = a2 * inverse_power(m2, normal), u3 = a3 * inverse_power(m3, normal);
                e.units.v[j] += (u0 + u1) + (u2 + u3);
                double b0 = u0 > one ? 1.0 : 0.0, b1 = u1 > one ? 1.0 : 0.0;
                double b2 = u2 > one ? 1.0 : 0.0, b3 = u3 > one ? 1.0 : 0.0;
                e.above_1.v[j] += (b0 + b1) + (b2 + b3);
                double c0 = u0 > many ? 1.0 : 0.0, c1 = u1 > many ? 1.0 : 0.0;
                double c2 = u2 > many ? 1.0 : 0.0, c3 = u3 > many ? 1.0 : 0.0;
                e.above_32.v[j] += (c0 + c1) + (c2 + c3);
            }
            /* Or tiny. */
            e.left_zero.v[j] = (l0 * l1) * (l2 * l3) == 0.0 ? 1.0 : e.left_zero.v[j];

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

CLONES static int add_errors(const RawDouble *left, const RawDouble *right, int64_t count, const Sweeping *sweeping,
                             ErrorLanes *errors, Marks *marks, int shared, int zeros)
{
#define SUMS(shared, zeros, units) add_errors_of(left, right, count, sweeping, errors, marks, shared, zeros, units)
    if (isinf(sweeping->epsilon)) {
        if (shared)
            return zeros ? SUMS(1, 1, 0) : SUMS(1, 0, 0);
        return zeros ? SUMS(0, 1, 0) : SUMS(0, 0, 0);
    }
    if (shared)
        return zeros ? SUMS(1, 1, 1) : SUMS(1, 0, 1);
    return zeros ? SUMS(0, 1, 1) : SUMS(0, 0, 1);
#undef SUMS
}

/* What is left of a tile behind its whole groups, filled up to a group. */
typedef struct {
    double left[GROUP], right[GROUP];
} Rest;

/* Sum up all elements of a tile, and return whether some group is marked. */
static int sum_up(const Elements *x, const Look *look, const Sweeping *sweeping, const Job *job, ErrorLanes *errors,
                  Marks *marks)
{
    int64_t count = x->count % GROUP, whole = x->count - count;
    int marked = 0, shared = job->left != FLOAT64 && job->right != FLOAT64;
    if (whole)
        marked = add_errors(x->left, x->right, whole, sweeping, errors, marks, shared, look->least <= job->near_zero);
    if (!count)
        return marked;
    Rest rest;
    memset(&rest, 0, sizeof rest);
    memcpy(rest.left, x->left + whole, (size_t)count * sizeof(double));
    memcpy(rest.right, x->right + whole, (size_t)count * sizeof(double));
    Shifted left = errors->left, right = errors->right;
    Marks mark;
    /* Two zeros differ by nothing, so they add nothing, but to what each side adds up by itself. */
    int more = add_errors(rest.left, rest.right, GROUP, sweeping, errors, &mark, shared, 1);
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
    for (int64_t i = 0; i < x->count; i++) {
        double l = x->left[i];
        if (fabs(l) == job->maximum && l != x->right[i]) {
            found->errors.saturated++;
            first_of(&found->errors.first_saturated, element_at(x, i));
        }
    }
}

/* Add the sums of a tile's differences. */
static void add_differences(const ErrorLanes *errors, int64_t differing, const Job *job, Found *found)
{
    double absolute = across(errors->absolute.v);
    add_to(&found->product, across(errors->product.v));
    add_to(&found->errors.absolute, absolute);
    add_to(&found->errors.squares, across(errors->squares.v));
    add_to(&found->errors.relative, across(errors->relative.v));
    found->errors.differing += differing;
    found->errors.right_zero += (int64_t)across(errors->right_zero.v);
    found->errors.near_zero += (int64_t)across(errors->near_zero.v);
    add_to(&found->errors.units, across(errors->units.v) / (2.0 * job->epsilon));
    found->errors.above_1 += (int64_t)across(errors->above_1.v);
    found->errors.above_32 += (int64_t)across(errors->above_32.v);
    found->errors.outside += scale_of(job).forbidden ? differing : (int64_t)across(errors->outside.v);
    if (is_integer(job->left) && is_integer(job->right)) {
        uint64_t exact = (uint64_t)absolute;
        found->errors.exact_high += exact >> 32;
        found->errors.exact_low += exact & 0xffffffffu;
    }
}

/* Count what is 0 on the left alone. */
CLONES static void count_underflow(const Elements *x, const Job *job, Found *found)
{
    const RawDouble *left = x->left, *right = x->right;
    const double near = job->near_zero;
    int64_t count = 0;
    for (int64_t i = 0; i < x->count; i++)
        count += (left[i] == 0.0) & (fabs(right[i]) > near);
    found->errors.underflow += count;
}

/* Add Σ|l-r|² and Σ|r|² of neighbours to one slice. */
INLINE void add_run(const RawDouble *restrict l, const RawDouble *restrict r, int64_t count, double *apart,
                    double *squares)
{
    int64_t groups = count - count % GROUP;
    double a = 0.0, b = 0.0;
    if (groups) {
        Lanes x, y;
        EACH_LANE x.v[j] = y.v[j] = 0.0;
        for (int64_t i = 0; i < groups; i += GROUP)
            EACH_LANE {
                double r0 = r[i + j], r1 = r[i + LANES + j], r2 = r[i + 2 * LANES + j], r3 = r[i + 3 * LANES + j];
                double a0 = l[i + j] - r0, a1 = l[i + LANES + j] - r1;
                double a2 = l[i + 2 * LANES + j] - r2, a3 = l[i + 3 * LANES + j] - r3;
                x.v[j] += (a0 * a0 + a1 * a1) + (a2 * a2 + a3 * a3);
                y.v[j] += (r0 * r0 + r1 * r1) + (r2 * r2 + r3 * r3);
            }
        a = across(x.v);
        b = across(y.v);
    }
    for (int64_t i = groups; i < count; i++) {
        a += (l[i] - r[i]) * (l[i] - r[i]);
        b += r[i] * r[i];
    }
    *apart += a;
    *squares += b;
}

/* Add elements of which each is of another slice. */
INLINE void add_columns(const RawDouble *restrict l, const RawDouble *restrict r, int64_t count,
                        double *restrict apart, double *restrict squares)
{
    for (int64_t i = 0; i < count; i++) {
        double a = l[i] - r[i];
        apart[i] += a * a;
        squares[i] += r[i] * r[i];
    }
}

/* Add squares of finite elements to the slices that they are of. */
CLONES static void add_slices(const Elements *x, const Slices *s)
{
    const RawDouble *left = x->left, *right = x->right;
    const int64_t columns = s->unit == 1;
    if (!s->row)
        return;
    if (x->places) {
        for (int64_t i = 0; i < x->count; i++) {
            int64_t group = LESS(element_at(x, i) % s->row / s->unit, s->last);
            add_columns(left + i, right + i, 1, s->apart + group, s->right + group);
        }
        return;
    }
    int64_t place = x->start % s->row, group = LESS(place / s->unit, s->last);
    for (int64_t i = 0, n; i < x->count; i += n) {
        int64_t end = columns || group == s->last ? s->row : (group + 1) * s->unit;
        n = LESS(x->count - i, end - place);
        if (columns)
            add_columns(left + i, right + i, n, s->apart + group, s->right + group);
        else
            add_run(left + i, right + i, n, s->apart + group, s->right + group);
        place += n;
        group++;
        if (place == s->row)
            place = group = 0;
    }
}

typedef enum { MEASURED, NOT_FINITE, FAR_AWAY } Outcome;

/* Measure a tile. Nothing was added unless it is MEASURED. */
static Outcome add_tile(const Elements *x, const Look *look, const Ahead *ahead, const Job *job, Found *found)
{
    const Scale scale = scale_of(job);
    const Sweeping sweeping = {scale, bounds_of(found, job, &scale), middle_of(&look->left), middle_of(&look->right),
                               job->near_zero, job->normal, job->epsilon, *ahead};
    ErrorLanes errors;
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
    if (!(found->errors.largest_relative.value < SAFE_HIGH))
        return FAR_AWAY;
    add_moments(&found->left, &look->left, added_by(&errors.left, &look->left, x->count), x->count);
    add_moments(&found->right, &look->right, added_by(&errors.right, &look->right, x->count), x->count);
    found->errors.right_peak = MORE(right_peak, found->errors.right_peak);
    if (left_peak >= job->maximum)
        count_saturated(x, job, found);
    add_differences(&errors, look->differing, job, found);
    if (greatest(errors.left_zero.v) != 0.0)
        count_underflow(x, job, found);
    add_slices(x, &found->slices);
    return MEASURED;
}

/* Measure what is finite of a tile that is not. */
static Outcome add_finite(const Elements *x, Tile *tile, const Ahead *ahead, const Job *job, Found *found)
{
    const Elements finite = split_classes(x, tile, job, found);
    if (!finite.count)
        return MEASURED;
    const Look look = look_at(finite.left, finite.right, finite.count);
    Outcome outcome = add_tile(&finite, &look, ahead, job, found);
    return outcome == NOT_FINITE ? FAR_AWAY : outcome;
}

/* Measure a tile whose sides are equal bit by bit, of which the left one is enough. Nothing was added unless it is
 * MEASURED. */
static Outcome add_identical(const char *raw, int64_t count, int64_t start, const Ahead *ahead, Tile *tile,
                             const Job *job, Found *found)
{
    const RawDouble *x = doubles_of(job->left, raw, count, tile->left);
    const Look look = look_at(x, x, count);
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
    found->errors.right_peak = MORE(peak, found->errors.right_peak);
    add_slices(&(Elements){x, x, count, NULL, start}, &found->slices);
    return MEASURED;
}

/* Measure a tile of which nothing is known but how many elements differ in their bits. */
static Outcome add_differing(const char *left, const char *right, int64_t count, int64_t start,
                             const Ahead *ahead, Tile *tile, const Job *job, Found *found)
{
    const Elements x = take(job->left, job->right, left, right, count, start, tile);
    const Look look = look_at(x.left, x.right, count);
    Outcome outcome = add_tile(&x, &look, ahead, job, found);
    return outcome == NOT_FINITE ? add_finite(&x, tile, ahead, job, found) : outcome;
}

static int add_tiles(const Job *job, const char *left, const char *right, int64_t count, int64_t start, Found *found)
{
    Tile tile;
    const int64_t left_size = ITEMSIZE[job->left], right_size = ITEMSIZE[job->right];
    for (int64_t done = 0; done < count; done += TILE) {
        int64_t n = LESS(count - done, (int64_t)TILE);
        const char *a = left + done * left_size, *b = right + done * right_size;
        const Ahead ahead = ahead_of(a, b, left_size, right_size, count - done <= TILE);
        uint32_t bits = job->compare_bits ? differing_bits(left_size, a, b, n) : 0;
        Outcome outcome = NOT_FINITE;
        found->bits += bits;
        found->elements += n;
        if (job->compare_bits && bits == 0)
            outcome = add_identical(a, n, start + done, &ahead, &tile, job, found);
        if (outcome == NOT_FINITE)
            outcome = add_differing(a, b, n, start + done, &ahead, &tile, job, found);
        if (outcome != MEASURED)
            return 0;
    }
    /* Infinite ratios are left to the caller, who ranks them by more than the ratio. */
    for (int i = 0; i < found->worst_count; i++)
        if (isinf(found->worst[i].score))
            return 0;
    return 1;
}

/* Nothing is found yet. */
void msdump_begin(Found *found)
{
    memset(found, 0, sizeof *found);
    found->classes.first_mismatch = found->classes.first_nonfinite = found->classes.first_left_only = -1;
    found->errors.first_saturated = found->errors.largest.element = found->errors.largest_relative.element = -1;
    found->left.minimum = found->right.minimum = INFINITY;
    found->left.maximum = found->right.maximum = -INFINITY;
}

/* Add a block of `count` elements on both sides, the first of them element `start`; blocks come in ascending order.
 * Return whether that was done: where magnitudes ask for scaled sums, nothing is added. */
int32_t msdump_add(const Job *job, const char *left, const char *right, int64_t count, int64_t start, Found *found)
{
    Found all = *found;
    if (!add_tiles(job, left, right, count, start, &all))
        return 0;
    *found = all;
    return 1;
}

/* -- KL divergence ------------------------------------------------------------------------------------------------- */

/* As `numpy_kernel.Divergence`. */
typedef struct {
    Sum left, right, weighted;
} Divergence;

typedef struct {
    double minimum, width;
} Span;

typedef struct {
    int32_t left, right;
    Span left_span, right_span;
    int64_t all_finite;
} DivergenceJob;

/* The machine epsilon of float32: nothing counts as less probable. */
static const double LEAST = 0x1p-23;

/* Places in the range of a side, which are everywhere the same where it is constant. `raw` holds floats or doubles, and
 * `out` may be `raw` itself. */
CLONES static void normalise(const void *raw, int floats, int64_t count, Span span, double *out)
{
    const double minimum = span.minimum, factor = span.width == 0.0 ? 0.0 : 1.0 / span.width;
    const double least = span.width == 0.0 ? 1.0 : LEAST;
    if (floats) {
        for (int64_t i = 0; i < count; i++) {
            double place = ((double)((const RawFloat *)raw)[i] - minimum) * factor;
            out[i] = MORE(place, least);
        }
        return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < count; i++) {
        double place = (((const RawDouble *)raw)[i] - minimum) * factor;
        out[i] = MORE(place, least);
    }
}

/* The places of one side of a tile; float32, the most frequent type, is read once. */
static void take_places(Kind kind, const void *raw, int64_t count, Span span, double *out)
{
    if (kind == FLOAT32)
        normalise(raw, 1, count, span, out);
    else
        normalise(doubles_of(kind, raw, count, out), 0, count, span, out);
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

/* Add up the places, and note how far apart they are. */
CLONES static void take_fractions(const double *restrict left, const double *restrict right, int64_t count,
                                  const Ahead *ahead, Fractions *restrict fractions, Divergence *all)
{
    double *restrict f = fractions->values;
    Lanes p_total, q_total;
    EACH_LANE p_total.v[j] = q_total.v[j] = 0.0;
    for (int64_t i = 0, group = 0; i < count; i += GROUP, group++) {
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

/* Add Σ p·ln(p/q) of a group, lane by lane, out of its fractions, which are all within NEAR or all within MIDDLE. */
INLINE void add_close(const double *restrict p, const double *restrict f, Lanes *weighted, const int near)
{
    EACH_LANE {
        double f0 = f[j], f1 = f[LANES + j], f2 = f[2 * LANES + j], f3 = f[3 * LANES + j];
        double r0 = near ? near_ratio(f0) : log_ratio(0.0, f0), r1 = near ? near_ratio(f1) : log_ratio(0.0, f1);
        double r2 = near ? near_ratio(f2) : log_ratio(0.0, f2), r3 = near ? near_ratio(f3) : log_ratio(0.0, f3);
        weighted->v[j] += (p[j] * r0 + p[LANES + j] * r1) + (p[2 * LANES + j] * r2 + p[3 * LANES + j] * r3);
    }
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
CLONES static void add_logarithms(const double *restrict left, const double *restrict right, int64_t count,
                                  const Fractions *restrict fractions, Divergence *all)
{
    Lanes weighted;
    EACH_LANE weighted.v[j] = 0.0;
    for (int64_t i = 0, group = 0; i < count; i += GROUP, group++) {
        const double *p = left + i, *f = fractions->values + i, *g = fractions->greatest[group].v;
        double most = MORE(MORE(MORE(g[0], g[4]), MORE(g[2], g[6])), MORE(MORE(g[1], g[5]), MORE(g[3], g[7])));
        if (most <= NEAR)
            add_close(p, f, &weighted, 1);
        else if (most <= MIDDLE)
            add_close(p, f, &weighted, 0);
        else
            add_far(p, right + i, &weighted);
    }
    add_to(&all->weighted, across(weighted.v));
}

static void add_divergences(const double *left, const double *right, int64_t count, const Ahead *ahead,
                            Divergence *all)
{
    Fractions fractions;
    take_fractions(left, right, count, ahead, &fractions, all);
    add_logarithms(left, right, count, &fractions, all);
}

/* Keep what is finite on both sides, and return how many elements that are. */
static int64_t keep_finite(const Elements *x, Tile *tile)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < x->count; i++) {
        double l = x->left[i], r = x->right[i];
        if (isfinite(l) && isfinite(r)) {
            tile->left[kept] = l;
            tile->right[kept++] = r;
        }
    }
    return kept;
}

static void add_divergence_of_tile(Tile *tile, int64_t count, const Ahead *ahead, Divergence *all)
{
    int64_t whole = count - count % GROUP;
    if (whole)
        add_divergences(tile->left, tile->right, whole, ahead, all);
    if (count == whole)
        return;
    /* Ones on both sides are equal and add nothing but to the two totals, out of which they are taken exactly. */
    for (int64_t i = count; i < whole + GROUP; i++)
        tile->left[i] = tile->right[i] = 1.0;
    add_divergences(tile->left + whole, tile->right + whole, GROUP, ahead, all);
    add_to(&all->left, -(double)(whole + GROUP - count));
    add_to(&all->right, -(double)(whole + GROUP - count));
}

/* Add a block of `count` elements on both sides. */
void msdump_add_divergence(const DivergenceJob *job, const char *left, const char *right, int64_t count,
                           Divergence *all)
{
    Tile tile;
    const int64_t left_size = ITEMSIZE[job->left], right_size = ITEMSIZE[job->right];
    for (int64_t done = 0; done < count; done += TILE) {
        int64_t n = LESS(count - done, (int64_t)TILE);
        const char *a = left + done * left_size, *b = right + done * right_size;
        const Ahead ahead = ahead_of(a, b, left_size, right_size, count - done <= TILE);
        if (job->all_finite) {
            take_places(job->left, a, n, job->left_span, tile.left);
            take_places(job->right, b, n, job->right_span, tile.right);
        } else {
            const Elements x = take(job->left, job->right, a, b, n, 0, &tile);
            n = keep_finite(&x, &tile);
            normalise(tile.left, 0, n, job->left_span, tile.left);
            normalise(tile.right, 0, n, job->right_span, tile.right);
        }
        add_divergence_of_tile(&tile, n, &ahead, all);
    }
}

/* -- one tensor: statistics and a count sketch --------------------------------------------------------------------- */

/* A slice of LONG elements or more in a row is described by itself. */
enum { ROWS = 16, TURNS = 64, LONG = 256 };

/* The tables and sums of `count_sketch.py`; `chunk` has room for twice as many numbers as there are buckets. Of
 * `slices` squares are wanted alone; they say nothing where some element is not finite. */
typedef struct {
    int64_t kind, buckets;
    uint64_t chunks;
    const double *signs;
    const int64_t *turns, *places;
    double *sums, *chunk;
    Slices slices;
} SketchJob;

/* `classes` counts finite elements, Inf, -Inf and NaN, by `class_of`. */
typedef struct {
    int64_t classes[4], zero;
    double minimum, maximum;
    Sum total, squares;
} Described;

/* Add finite elements to the statistics, and return the sum of their squares. Return NaN, and add nothing, where NaN or
 * Inf shows in the sum. */
static double describe(const RawDouble *x, int64_t count, const Ahead *ahead, Described *found)
{
    static const double zeros[TILE];
    Shifted sums;
    memset(&sums, 0, sizeof sums);
    add_shifted(&sums, x, count, 0.0, ahead);
    const double squares = across(sums.squares.v);
    if (!isfinite(across(sums.sum.v)))
        return NAN;
    const Look look = look_at(x, zeros, count);
    add_to(&found->total, across(sums.sum.v));
    add_to(&found->squares, squares);
    found->minimum = LESS(look.left.minimum, found->minimum);
    found->maximum = MORE(look.left.maximum, found->maximum);
    found->zero += count - look.differing;
    found->classes[0] += count;
    return squares;
}

/* Add squares to the slices that they are of, which are short. */
CLONES static void add_squares(const RawDouble *restrict x, int64_t count, int64_t start, const Slices *s)
{
    double *restrict squares = s->right;
    int64_t place = start % s->row, group = LESS(place / s->unit, s->last);
    for (int64_t i = 0, n; i < count; i += n, group++) {
        const int64_t columns = s->unit == 1, end = columns || group == s->last ? s->row : (group + 1) * s->unit;
        n = LESS(count - i, end - place);
        if (columns)
            for (int64_t j = 0; j < n; j++)
                squares[group + j] += x[i + j] * x[i + j];
        else {
            const int64_t whole = n - n % LANES;
            Lanes sums;
            EACH_LANE sums.v[j] = 0.0;
            for (int64_t k = i; k < i + whole; k += LANES)
                EACH_LANE sums.v[j] += x[k + j] * x[k + j];
            double sum = across(sums.v);
            for (int64_t k = i + whole; k < i + n; k++)
                sum += x[k] * x[k];
            squares[group] += sum;
        }
        place += n;
        if (place == s->row)
            place = 0, group = -1;
    }
}

CLONES static void add_signed(const RawDouble *restrict x, const double *restrict signs, int64_t count,
                              double *restrict row)
{
    for (int64_t i = 0; i < count; i++)
        row[i] += signs[i] * x[i];
}

/* Add one chunk to the sums, turned and signed by a number that splitmix64 draws, and empty it. */
static void fold(const SketchJob *job, uint64_t number)
{
    const int64_t m = job->buckets;
    uint64_t z = job->chunks + (number + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    for (int64_t p = 0; p < m; p++)
        job->chunk[p] = job->chunk[m + p] = job->chunk[p] + job->chunk[m + p];
    const double *from = job->chunk + m - (int64_t)(((z >> 32) * (uint64_t)m) >> 32);
    for (int64_t p = 0; p < m; p++)
        job->sums[p] += (z & 1 ? -1.0 : 1.0) * from[p];
    memset(job->chunk, 0, 2 * (size_t)m * sizeof *job->chunk);
}

/* Add the `count` elements of a tensor from element `start` on. What is not finite is counted, and a zero in the sketch. */
void msdump_sketch(const SketchJob *job, const char *raw, int64_t count, int64_t start, Described *found)
{
    Tile tile;
    const Slices *slices = &job->slices;
    const int64_t m = job->buckets, size = ITEMSIZE[job->kind], are_long = slices->unit >= LONG;
    for (int64_t done = 0, n; done < count; done += n) {
        const int64_t row = (start + done) / m, place = (start + done) % m;
        int64_t slice = are_long ? (start + done) % slices->row : 0, group = 0;
        n = LESS(LESS(count - done, m - place), (int64_t)TILE);
        if (are_long) {
            group = LESS(slice / slices->unit, slices->last);
            n = LESS(n, (group == slices->last ? slices->row : (group + 1) * slices->unit) - slice);
        }
        const Ahead ahead = ahead_of(raw + done * size, raw, size, 0, count - done <= TILE);
        const RawDouble *x = doubles_of((Kind)job->kind, raw + done * size, n, tile.left);
        const double squares = describe(x, n, &ahead, found);
        if (are_long && !isnan(squares))
            slices->right[group] += squares;
        else if (slices->row)
            add_squares(x, n, start + done, slices);
        if (isnan(squares)) {
            int64_t kept = 0;
            for (int64_t i = 0; i < n; i++) {
                const int class = class_of(x[i]);
                if (class)
                    found->classes[class]++;
                else
                    tile.right[kept++] = x[i];
                tile.left[i] = class ? 0.0 : x[i];
            }
            x = tile.left;
            if (kept)
                describe(tile.right, kept, &ahead, found);
        }
        add_signed(x, job->signs + row / ROWS % TURNS * m + job->places[row % ROWS] + place, n,
                   job->chunk + job->turns[row % ROWS] + place);
        if ((start + done + n) % (ROWS * m) == 0)
            fold(job, (uint64_t)(row / ROWS));
    }
}

/* -- digests of bytes, and noise ---------------------------------------------------------------------------------------------- */

#define ROTATED(x, n) ((x) << (n) | (x) >> (64 - (n)))

/* Add whole stripes of 32 bytes to the four lanes of XXH64 (xxHash's specification, version 0.1.1). */
void msdump_xxh64(uint64_t *lanes, const char *raw, int64_t stripes)
{
    const RawU64 *word = (const RawU64 *)raw;
    uint64_t own[4];
    memcpy(own, lanes, sizeof own);
    for (int64_t i = 0; i < stripes; i++)
        for (int j = 0; j < 4; j++) {
            own[j] += word[4 * i + j] * 0xC2B2AE3D27D4EB4Fu;
            own[j] = ROTATED(own[j], 31) * 0x9E3779B185EBCA87u;
        }
    memcpy(lanes, own, sizeof own);
}

INLINE uint64_t mixed(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return bits ^ (bits >> 31);
}

static const uint64_t ORDER_FREE_SEEDS[2] = {0x9E3779B97F4A7C15u, 0xC2B2AE3D27D4EB4Fu};

#define ADD_ORDER_FREE(Raw)                                                                                            \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        const uint64_t bits = ((const Raw *)raw)[i];                                                                   \
        a += mixed(bits ^ ORDER_FREE_SEEDS[0]);                                                                        \
        b += mixed(bits ^ ORDER_FREE_SEEDS[1]);                                                                        \
    }

/* Add `hashing.order_free_sums` of elements of 1, 2, 4 or 8 bytes. */
CLONES_OF_WORDS void msdump_order_free(const char *raw, int64_t count, int64_t size, uint64_t *sums)
{
    uint64_t a = 0, b = 0;
    switch (size) {
    case 1:
        ADD_ORDER_FREE(RawU8)
        break;
    case 2:
        ADD_ORDER_FREE(RawU16)
        break;
    case 4:
        ADD_ORDER_FREE(RawU32)
        break;
    default:
        ADD_ORDER_FREE(RawU64)
    }
    sums[0] += a;
    sums[1] += b;
}

#define ADD_NOISE(Real, Raw)                                                                                           \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        const Real kept = ((const Raw *)raw)[i];                                                                       \
        const double x = kept;                                                                                         \
        const double drawn = (double)(int64_t)(mixed(key + (uint64_t)(start + i + 1) * 0x9E3779B97F4A7C15u) >> 11);    \
        const double noisy = (drawn * 0x1p-53 - 0.5) * scale * x + x;                                                  \
        const Real rounded = (Real)noisy;                                                                              \
        ((Real *)out)[i] = x != 0.0 && rounded - rounded == 0 ? rounded : kept;                                        \
    }

/* What `hashing.noisy_copy` says, of float32 or float64. */
CLONES_OF_WORDS void msdump_noise(const char *raw, int64_t size, int64_t count, int64_t start, uint64_t key,
                                  double scale, char *restrict out)
{
    if (size == 4) {
        ADD_NOISE(float, RawFloat)
    } else {
        ADD_NOISE(double, RawDouble)
    }
}

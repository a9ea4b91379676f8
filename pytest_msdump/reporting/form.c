/* The optional compiled form of `values.py`: puts numbers into the text of a record.
 *
 * Floats are written as `repr` writes them, the shortest digits that mean the same number, in a tenth of its time: by
 * Schubfach, which needs three products of 64 by 128 bits where `repr` divides long integers.
 *
 * References: Raffaello Giulietti, "The Schubfach way to render doubles", 2020, sections 8 and 9 and figure 4; the form
 * with 128 bits of each power of ten is Alexander Bolz's.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* Of which state of this file it was built; setup.py knows. */
#ifndef MSDUMP_SOURCE
#define MSDUMP_SOURCE unknown
#endif
#define QUOTED(NAME) #NAME
#define IN_QUOTES(NAME) QUOTED(NAME)

#if !defined(__SIZEOF_INT128__)
#error "this needs a compiler that multiplies 64 by 64 bits; without it Python does the work"
#endif

enum {
    SMALLEST_POWER = -292,
    LARGEST_POWER = 324,
    /* -2.2250738585072014e-308 and the longest integer of 64 bits fit, and the quotes of -Infinity. */
    LONGEST_NUMBER = 32,
    /* What compiled.py and this file agree on: a change of it changes the number, there and here. */
    FORM = 1,
};

typedef unsigned __int128 Wide;

/* 10**k as 128 bits, the first of them set, rounded up: high and low half; zeros where nobody has asked yet. */
static uint64_t powers[LARGEST_POWER - SMALLEST_POWER + 1][2];

/* What is written so far, and what else is needed to write. */
typedef struct {
    char *start, *next, *stop;
    PyObject *power, *otherwise;
} Text;

static int reserve(Text *text, Py_ssize_t bytes)
{
    if (text->stop - text->next >= bytes)
        return 0;
    Py_ssize_t used = text->next - text->start, size = 2 * (used + bytes);
    char *start = PyMem_Realloc(text->start, (size_t)size);
    if (!start) {
        PyErr_NoMemory();
        return -1;
    }
    text->start = start, text->next = start + used, text->stop = start + size;
    return 0;
}

static int put(Text *text, const char *from, Py_ssize_t bytes)
{
    if (reserve(text, bytes) < 0)
        return -1;
    memcpy(text->next, from, (size_t)bytes);
    text->next += bytes;
    return 0;
}

/* Write digits, and return their number. */
static int put_digits(char *to, uint64_t number)
{
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    for (int place = 0; place < count; place++)
        to[place] = digits[count - 1 - place];
    return count;
}

/* -- floats -------------------------------------------------------------------------------------------------------- */

static int floor_log2_of_power_of_10(int k) { return (k * 1741647) >> 19; }

static int floor_log10_of_power_of_2(int k) { return (k * 1262611) >> 22; }

static int floor_log10_of_three_quarters_of_power_of_2(int k) { return (k * 1262611 - 524031) >> 22; }

/* Find 10**k, which Python's integers work out the first time. */
static const uint64_t *power_of_10(PyObject *power, int k)
{
    uint64_t *found = powers[k - SMALLEST_POWER];
    if (!found[0]) {
        unsigned long long high, low;
        PyObject *halves = PyObject_CallFunction(power, "i", k);
        if (!halves || !PyArg_ParseTuple(halves, "KK", &high, &low)) {
            Py_XDECREF(halves);
            return NULL;
        }
        Py_DECREF(halves);
        found[1] = low, found[0] = high;
    }
    return found;
}

/* The product's upper bits, the last of them set where anything was cut off. */
static uint64_t rounded_to_odd(const uint64_t *power, uint64_t factor)
{
    Wide low = (Wide)power[1] * factor, product = (Wide)power[0] * factor + (uint64_t)(low >> 64);
    return (uint64_t)(product >> 64) | ((uint64_t)product > 1);
}

typedef struct {
    uint64_t digits;
    int exponent;
} Decimal;

/* Find the shortest decimal that is read as this number; of several the nearest. */
static int shortest(PyObject *power, uint64_t fraction, int exponent, Decimal *found)
{
    uint64_t c = exponent ? fraction | (uint64_t)1 << 52 : fraction;
    int q = (exponent ? exponent : 1) - 1075;
    if (-53 < q && q <= 0 && !(c & (((uint64_t)1 << -q) - 1))) {
        *found = (Decimal){c >> -q, 0};
        return 0;
    }
    /* Reading rounds to even, so what lies halfway is read as this number if it is even. */
    int is_odd = c & 1, is_lower_closer = !fraction && exponent > 1;
    int k = is_lower_closer ? floor_log10_of_three_quarters_of_power_of_2(q) : floor_log10_of_power_of_2(q);
    int shift = q + floor_log2_of_power_of_10(-k) + 1;
    const uint64_t *scale = power_of_10(power, -k);
    if (!scale)
        return -1;
    uint64_t lower = rounded_to_odd(scale, (4 * c - 2 + is_lower_closer) << shift) + is_odd;
    uint64_t middle = rounded_to_odd(scale, 4 * c << shift);
    uint64_t upper = rounded_to_odd(scale, (4 * c + 2) << shift) - is_odd;

    uint64_t below = middle / 4, shorter = below / 10;
    if (below >= 10) {
        int is_inside = lower <= 40 * shorter, next_is_inside = 40 * shorter + 40 <= upper;
        if (is_inside != next_is_inside) {
            *found = (Decimal){shorter + next_is_inside, k + 1};
            return 0;
        }
    }
    int is_inside = lower <= 4 * below, next_is_inside = 4 * below + 4 <= upper;
    uint64_t half = 4 * below + 2;
    int rounds_up = is_inside != next_is_inside ? next_is_inside : middle > half || (middle == half && (below & 1));
    *found = (Decimal){below + rounds_up, k};
    return 0;
}

/* Write a decimal as `repr` does: with an exponent where there would be many zeros. */
static char *put_decimal(char *to, Decimal decimal)
{
    char digits[20];
    int count = put_digits(digits, decimal.digits), point = count + decimal.exponent;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    if (-4 < point && point <= 0) {
        *to++ = '0', *to++ = '.';
        memset(to, '0', (size_t)-point);
        memcpy(to - point, digits, (size_t)count);
        return to - point + count;
    }
    int whole = 0 < point && point <= 16 ? point : 1, known = whole < count ? whole : count;
    memcpy(to, digits, (size_t)known);
    memset(to + known, '0', (size_t)(whole - known));
    to += whole;
    if (known < count) {
        *to++ = '.';
        memcpy(to, digits + known, (size_t)(count - known));
        to += count - known;
    }
    if (whole == point) {
        if (known == count)
            *to++ = '.', *to++ = '0';
        return to;
    }
    int exponent = point - 1;
    *to++ = 'e', *to++ = exponent < 0 ? '-' : '+';
    exponent = exponent < 0 ? -exponent : exponent;
    if (exponent < 10)
        *to++ = '0';
    return to + put_digits(to, (uint64_t)exponent);
}

static int put_float(Text *text, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    int exponent = (int)(bits >> 52 & 2047), is_negative = (int)(bits >> 63);
    if (exponent == 2047) {
        const char *name = fraction ? "\"NaN\"" : is_negative ? "\"-Infinity\"" : "\"Infinity\"";
        return put(text, name, (Py_ssize_t)strlen(name));
    }
    Decimal decimal = {0, 0};
    if (reserve(text, LONGEST_NUMBER) < 0 || ((fraction || exponent) && shortest(text->power, fraction, exponent, &decimal) < 0))
        return -1;
    if (is_negative)
        *text->next++ = '-';
    text->next = put_decimal(text->next, decimal);
    return 0;
}

/* -- everything else ----------------------------------------------------------------------------------------------- */

static int put_text(Text *text, PyObject *given)
{
    if (!PyUnicode_Check(given) || !PyUnicode_IS_ASCII(given)) {
        PyErr_SetString(PyExc_TypeError, "expected a text in ASCII");
        return -1;
    }
    return put(text, PyUnicode_DATA(given), PyUnicode_GET_LENGTH(given));
}

static int put_otherwise(Text *text, PyObject *value)
{
    PyObject *found = PyObject_CallOneArg(text->otherwise, value);
    int done = found ? put_text(text, found) : -1;
    Py_XDECREF(found);
    return done;
}

static int put_value(Text *text, PyObject *value)
{
    if (PyFloat_CheckExact(value))
        return put_float(text, PyFloat_AS_DOUBLE(value));
    if (PyLong_CheckExact(value)) {
        int is_long;
        long long number = PyLong_AsLongLongAndOverflow(value, &is_long);
        if (is_long)
            return put_otherwise(text, value);
        if (reserve(text, LONGEST_NUMBER) < 0)
            return -1;
        if (number < 0)
            *text->next++ = '-';
        text->next += put_digits(text->next, number < 0 ? -(uint64_t)number : (uint64_t)number);
        return 0;
    }
    if (value == Py_None)
        return put(text, "null", 4);
    if (PyBool_Check(value))
        return value == Py_True ? put(text, "true", 4) : put(text, "false", 5);
    if (!PyTuple_CheckExact(value))
        return put_otherwise(text, value);
    if (put(text, "[", 1) < 0)
        return -1;
    for (Py_ssize_t place = 0; place < PyTuple_GET_SIZE(value); place++) {
        if (place && put(text, ", ", 2) < 0)
            return -1;
        if (put_value(text, PyTuple_GET_ITEM(value, place)) < 0)
            return -1;
    }
    return put(text, "]", 1);
}

static int fill(Text *text, const char *form, Py_ssize_t length, PyObject *values)
{
    const char *stop = form + length, *mark;
    Py_ssize_t used = 0;
    for (; (mark = memchr(form, '%', (size_t)(stop - form))); form = mark + 2) {
        if (put(text, form, mark - form) < 0)
            return -1;
        if (mark + 1 < stop && mark[1] == '%') {
            if (put(text, "%", 1) < 0)
                return -1;
            continue;
        }
        if (mark + 1 == stop || mark[1] != 's' || used == PyTuple_GET_SIZE(values)) {
            PyErr_SetString(PyExc_TypeError, "more places than values, or other places than %s");
            return -1;
        }
        if (put_value(text, PyTuple_GET_ITEM(values, used++)) < 0)
            return -1;
    }
    if (used < PyTuple_GET_SIZE(values)) {
        PyErr_SetString(PyExc_TypeError, "more values than places");
        return -1;
    }
    return put(text, form, stop - form);
}

static PyObject *filled(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *form, *values, *result = NULL;
    Text text = {NULL};
    if (!PyArg_ParseTuple(args, "UO!OO", &form, &PyTuple_Type, &values, &text.otherwise, &text.power))
        return NULL;
    if (!PyUnicode_IS_ASCII(form)) {
        PyErr_SetString(PyExc_TypeError, "expected a form in ASCII");
        return NULL;
    }
    Py_ssize_t length = PyUnicode_GET_LENGTH(form);
    if (reserve(&text, length / 2 + 1) == 0 && fill(&text, PyUnicode_DATA(form), length, values) == 0) {
        result = PyUnicode_New(text.next - text.start, 127);
        if (result)
            memcpy(PyUnicode_DATA(result), text.start, (size_t)(text.next - text.start));
    }
    PyMem_Free(text.start);
    return result;
}

static PyMethodDef functions[] = {
    {"filled", filled, METH_VARARGS, "Return a form with values in its places."},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "FORM", FORM) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "SOURCE", IN_QUOTES(MSDUMP_SOURCE));
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "pytest_msdump.reporting._form",
    .m_doc = "The compiled form of `values.py`.",
    .m_size = 0,
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__form(void)
{
    return PyModuleDef_Init(&module);
}

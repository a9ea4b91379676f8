/* The optional compiled form of what `stored_file.py` does with very many small files: open, look at, read, close.
 *
 * What is out of the ordinary in a file is left to Python, which opens it once more and says what it is.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(_WIN32)
#error "this needs files as POSIX has them; without it Python does the work"
#endif

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of which state of this file it was built; setup.py knows. */
#ifndef MSDUMP_SOURCE
#define MSDUMP_SOURCE unknown
#endif
#define QUOTED(NAME) #NAME
#define IN_QUOTES(NAME) QUOTED(NAME)

#if defined(__APPLE__)
#define MODIFIED st_mtimespec
#define CHANGED st_ctimespec
#else
#define MODIFIED st_mtim
#define CHANGED st_ctim
#endif

enum {
    /* Not blocking, so that a named pipe cannot hang the run. */
    FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
    /* size, device, number, modified_ns, changed_ns */
    FIELDS = 5,
    ARGUMENTS = 4,
    /* What compiled.py and this file agree on: a change of it changes the number, there and here. */
    FORM = 1,
};

static PyObject *nanoseconds(struct timespec time)
{
    return PyLong_FromLongLong((long long)time.tv_sec * 1000000000 + time.tv_nsec);
}

/* Make a tuple of this kind that tells the state of a file. */
static PyObject *state_of(PyTypeObject *kind, const struct stat *status)
{
    PyObject *state = kind->tp_alloc(kind, FIELDS);
    if (!state)
        return NULL;
    PyObject *fields[FIELDS] = {
        PyLong_FromLongLong(status->st_size),
        PyLong_FromLongLong((long long)status->st_dev),
        PyLong_FromUnsignedLongLong(status->st_ino),
        nanoseconds(status->MODIFIED),
        nanoseconds(status->CHANGED),
    };
    int are_made = 1;
    for (Py_ssize_t place = 0; place < FIELDS; place++) {
        are_made = are_made && fields[place];
        PyTuple_SET_ITEM(state, place, fields[place]);
    }
    if (!are_made)
        Py_CLEAR(state);
    return state;
}

/* Open a regular file; -1 of anything else, which is closed again. */
static int open_regular(const char *path, struct stat *status)
{
    int descriptor = open(path, FLAGS);
    if (descriptor < 0 || (!fstat(descriptor, status) && S_ISREG(status->st_mode)))
        return descriptor;
    close(descriptor);
    return -1;
}

/* Tell the state and first bytes of the file at `path`, which has no NUL; None where anything is out of the ordinary. */
static PyObject *started(const char *path, Py_ssize_t most, int whole, PyTypeObject *kind)
{
    PyObject *content, *state, *found = NULL;
    Py_ssize_t count, done = -1;
    int descriptor;
    struct stat status;
    Py_BEGIN_ALLOW_THREADS
    descriptor = open_regular(path, &status);
    Py_END_ALLOW_THREADS
    if (descriptor < 0)
        Py_RETURN_NONE;
    count = status.st_size <= most ? (Py_ssize_t)status.st_size : whole ? 0 : most;
    content = PyBytes_FromStringAndSize(NULL, count);
    Py_BEGIN_ALLOW_THREADS
    if (content)
        done = count ? pread(descriptor, PyBytes_AS_STRING(content), (size_t)count, 0) : 0;
    close(descriptor);
    Py_END_ALLOW_THREADS
    if (content && done == count && (state = state_of(kind, &status))) {
        found = PyTuple_Pack(2, state, content);
        Py_DECREF(state);
    } else if (content && done != count)
        found = Py_NewRef(Py_None);
    Py_XDECREF(content);
    return found;
}

static PyObject *start(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t count)
{
    if (count != ARGUMENTS || !PyType_Check(given[3]) || !PyType_IsSubtype((PyTypeObject *)given[3], &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "expected a path, a number of bytes, whether it is all, and a kind of tuple");
        return NULL;
    }
    Py_ssize_t most = PyLong_AsSsize_t(given[1]);
    int whole = PyObject_IsTrue(given[2]);
    PyObject *path, *found;
    if ((most < 0 && PyErr_Occurred()) || whole < 0)
        return NULL;
    if (!PyUnicode_FSConverter(given[0], &path)) {
        /* A path that no file can have. */
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    /* As `os.open` tells who listens. */
    found = PySys_Audit("open", "OOi", given[0], Py_None, FLAGS) < 0 ? NULL
            : started(PyBytes_AS_STRING(path), most < 0 ? 0 : most, whole, (PyTypeObject *)given[3]);
    Py_DECREF(path);
    return found;
}

static PyMethodDef functions[] = {
    {"start", (PyCFunction)(void (*)(void))start, METH_FASTCALL, "Return the state of a regular file and its first bytes."},
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
    .m_name = "pytest_msdump.readers._start",
    .m_doc = "The compiled form of `stored_file.py`.",
    .m_size = 0,
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__start(void)
{
    return PyModuleDef_Init(&module);
}

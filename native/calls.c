/* Calls compiled kernels from Python: takes arguments apart, finds the overload that
 * has their types, runs it without the GIL, and returns its result. */

#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <Python.h>
#include <math.h>
#include <numpy/arrayobject.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "threads.h"

#define MOST_CODES 256
#define MOST_RECORDS 32

static PyArray_Descr *record_types[MOST_RECORDS];
/* For each the last equivalent type that an array had, which is likely to come again. */
static PyArray_Descr *recent_types[MOST_RECORDS];
/* The level that is used; -1 where the processor has none. */
static int level = -1;

/* The address at this distance from a table. */
static void *at(const void *table, Distance distance)
{
    return (char *)table + distance;
}

/* The functions of Numba's that machine code may call. */

double numba_frexp(double x, int *exponent) { return frexp(x, exponent); }
double numba_ldexp(double x, int exponent) { return ldexp(x, exponent); }

/* Write the strides of a reshaped array; return 0 where its items would have to move.
 * Kernels reshape arrays in C order only. */
int numba_attempt_nocopy_reshape(npy_intp n, const npy_intp *shape,
                                 const npy_intp *strides, npy_intp new_n,
                                 const npy_intp *new_shape, npy_intp *new_strides,
                                 npy_intp item_size, int is_fortran)
{
    npy_intp step = item_size;
    for (npy_intp i = n; i-- > 0; step *= shape[i])
        if (shape[i] != 1 && strides[i] != step)
            return 0;
    step = item_size;
    for (npy_intp i = new_n; i-- > 0; step *= new_shape[i])
        new_strides[i] = step;
    return !is_fortran;
}

/* Arguments */

typedef struct {
    Code codes[MOST_CODES];
    int64_t words[MOST_WORDS];
    int n_codes, n_words;
} Arguments;

static Code number_code(int type)
{
    /* Types of the same width are one. */
    switch (type) {
    case NPY_LONGLONG:
        return NUMBER | NPY_INT64;
    case NPY_ULONGLONG:
        return NUMBER | NPY_UINT64;
    default:
        return NUMBER | (type < (int)FIRST_RECORD ? (Code)type : NO_TYPE);
    }
}

static Code element_code(PyArray_Descr *type)
{
    int number = type->type_num;
    if (number != NPY_VOID)
        return number_code(number) & NO_TYPE;
    for (int i = 0; i < n_records; i++)
        if (type == record_types[i] || type == recent_types[i])
            return (Code)(FIRST_RECORD + (unsigned)i);
    for (int i = 0; i < n_records; i++)
        if (PyArray_EquivTypes(type, record_types[i])) {
            PyArray_Descr *before = recent_types[i];
            Py_INCREF((PyObject *)type);
            recent_types[i] = type;
            Py_XDECREF((PyObject *)before);
            return (Code)(FIRST_RECORD + (unsigned)i);
        }
    return NO_TYPE;
}

static int take_array(Arguments *to, PyArrayObject *array)
{
    int dimensions = PyArray_NDIM(array);
    int flags = PyArray_FLAGS(array);
    if (dimensions > MOST_DIMENSIONS || to->n_words + 2 * dimensions + 1 > MOST_WORDS ||
        !(flags & NPY_ARRAY_ALIGNED) || !PyArray_ISNOTSWAPPED(array))
        return 0;
    uint32_t layout = flags & NPY_ARRAY_C_CONTIGUOUS   ? 0
                      : flags & NPY_ARRAY_F_CONTIGUOUS ? 1
                                                       : 2;
    to->codes[to->n_codes++] =
        (Code)(ARRAY | (flags & NPY_ARRAY_WRITEABLE ? 0 : READ_ONLY) |
               layout << LAYOUT_SHIFT | (uint32_t)dimensions << DIMENSIONS_SHIFT |
               element_code(PyArray_DESCR(array)));
    int64_t *words = to->words + to->n_words;
    *words++ = (int64_t)(intptr_t)PyArray_DATA(array);
    for (int i = 0; i < dimensions; i++)
        *words++ = PyArray_DIM(array, i);
    for (int i = 0; i < dimensions; i++)
        *words++ = PyArray_STRIDE(array, i);
    to->n_words += 2 * dimensions + 1;
    return 1;
}

static int take_scalar(Arguments *to, PyObject *scalar)
{
    PyArray_Descr *type = PyArray_DescrFromScalar(scalar);
    if (type == NULL)
        return 0;
    int number = type->type_num;
    Py_DECREF(type);
    to->codes[to->n_codes++] = number_code(number);
    union {
        npy_bool truth;
        int8_t i1;
        int16_t i2;
        int32_t i4;
        int64_t i8;
        uint8_t u1;
        uint16_t u2;
        uint32_t u4;
        float f4;
        char space[64];
    } value;
    int64_t *word = &to->words[to->n_words++];
    if (PyArray_IsScalar(scalar, Flexible) || PyArray_IsScalar(scalar, Object))
        return 0;
    PyArray_ScalarAsCtype(scalar, &value);
    switch (number_code(number) & NO_TYPE) {
    case NPY_BOOL:
        *word = value.truth;
        return 1;
    case NPY_INT8:
        *word = value.i1;
        return 1;
    case NPY_INT16:
        *word = value.i2;
        return 1;
    case NPY_INT32:
        *word = value.i4;
        return 1;
    case NPY_UINT8:
        *word = value.u1;
        return 1;
    case NPY_UINT16:
        *word = value.u2;
        return 1;
    case NPY_UINT32:
    case NPY_FLOAT32:
        *word = value.u4;
        return 1;
    case NPY_INT64:
    case NPY_UINT64:
    case NPY_FLOAT64:
        *word = value.i8;
        return 1;
    default:
        return 0;
    }
}

static int take_float(Arguments *to, double value)
{
    to->codes[to->n_codes++] = NUMBER | NPY_FLOAT64;
    memcpy(&to->words[to->n_words++], &value, sizeof value);
    return 1;
}

static int take_int(Arguments *to, PyObject *value)
{
    int overflow = 0;
    to->words[to->n_words++] = PyLong_AsLongLongAndOverflow(value, &overflow);
    to->codes[to->n_codes++] = NUMBER | NPY_INT64;
    return !overflow && !PyErr_Occurred();
}

/* Return 1, or 0 for an argument that no compiled kernel takes. */
static int take(Arguments *to, PyObject *argument)
{
    if (to->n_codes == MOST_CODES || to->n_words == MOST_WORDS)
        return 0;
    PyTypeObject *type = Py_TYPE(argument);
    if (type == &PyArray_Type)
        return take_array(to, (PyArrayObject *)argument);
    if (type == &PyLong_Type)
        return take_int(to, argument);
    if (type == &PyFloat_Type)
        return take_float(to, PyFloat_AsDouble(argument));
    if (argument == Py_None) {
        to->codes[to->n_codes++] = NONE;
        return 1;
    }
    if (type == &PyBool_Type) {
        to->codes[to->n_codes++] = NUMBER | NPY_BOOL;
        to->words[to->n_words++] = argument == Py_True;
        return 1;
    }
    if (PyTuple_Check(argument)) {
        Py_ssize_t size = PyTuple_Size(argument);
        if (size > MOST_CODES)
            return 0;
        to->codes[to->n_codes++] = (Code)(TUPLE | size);
        for (Py_ssize_t i = 0; i < size; i++)
            if (!take(to, PyTuple_GetItem(argument, i)))
                return 0;
        return 1;
    }
    /* float64 of NumPy is one, too. */
    if (PyFloat_Check(argument))
        return take_float(to, PyFloat_AsDouble(argument));
    if (PyArray_CheckScalar(argument) && !PyArray_Check(argument))
        return take_scalar(to, argument);
    if (PyLong_Check(argument))
        return take_int(to, argument);
    if (PyArray_Check(argument))
        return take_array(to, (PyArrayObject *)argument);
    return 0;
}

/* Kernels */

/* The name of a capsule of threads. */
#define THREADS "hornbeam.kernels._native.threads"

typedef struct {
    PyObject_HEAD
    PyObject *fallback;
    const Overload *first;
    int count, last;
} Kernel;

static PyObject *item_of(char kind, int64_t word)
{
    double value;
    switch (kind) {
    case 'd':
        memcpy(&value, &word, sizeof value);
        return PyFloat_FromDouble(value);
    case '?':
        return PyBool_FromLong(word != 0);
    case 'Q':
        return PyLong_FromUnsignedLongLong((uint64_t)word);
    default:
        return PyLong_FromLongLong(word);
    }
}

static PyObject *result_of(const char *kinds, const int64_t *words)
{
    if (*kinds == '\0')
        Py_RETURN_NONE;
    if (*kinds != '(')
        return item_of(*kinds, *words);
    Py_ssize_t size = (Py_ssize_t)strlen(kinds) - 2;
    PyObject *tuple = PyTuple_New(size);
    for (Py_ssize_t i = 0; tuple != NULL && i < size; i++) {
        PyObject *item = item_of(kinds[1 + i], words[i]);
        if (item == NULL || PyTuple_SetItem(tuple, i, item) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* Raise the exception that Numba has pickled: its class, arguments and place. */
static PyObject *raise_error(const char *name, int32_t status, void *error)
{
    struct {
        const char *data;
        int32_t size;
    } pickled;
    PyObject *cause = NULL;
    if (error != NULL) {
        memcpy(&pickled, error, sizeof pickled);
        PyObject *pickle = PyImport_ImportModule("pickle");
        if (pickle != NULL)
            cause = PyObject_CallMethod(pickle, "loads", "y#", pickled.data,
                                        (Py_ssize_t)pickled.size);
        Py_XDECREF(pickle);
        PyErr_Clear();
    }
    PyErr_Format(PyExc_RuntimeError, "the kernel %s failed with status %d: %R",
                 name, (int)status, cause == NULL ? Py_None : cause);
    Py_XDECREF(cause);
    return NULL;
}

static PyObject *call_fallback(Kernel *kernel, PyObject *const *arguments,
                               Py_ssize_t count)
{
    PyObject *all = PyTuple_New(count);
    if (all == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_INCREF(arguments[i]);
        PyTuple_SetItem(all, i, arguments[i]);
    }
    PyObject *result = PyObject_Call(kernel->fallback, all, NULL);
    Py_DECREF(all);
    return result;
}

/* Take arguments apart, and return the overload for their types, or NULL. */
static const Overload *find_overload(Kernel *kernel, Arguments *taken,
                                     PyObject *const *arguments, Py_ssize_t count)
{
    taken->n_codes = taken->n_words = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!take(taken, arguments[i])) {
            PyErr_Clear();
            return NULL;
        }
    /* The overload of the last call is the most likely one. */
    for (int i = 0; i < kernel->count; i++) {
        int place = (kernel->last + i) % kernel->count;
        const Overload *overload = kernel->first + place;
        if (overload->n_codes == taken->n_codes &&
            memcmp(codes + overload->codes, taken->codes,
                   sizeof(Code) * taken->n_codes) == 0) {
            kernel->last = place;
            return overload;
        }
    }
    return NULL;
}

static Entry entry_of(const Overload *overload)
{
    return (Entry)at(entries, entries[overload->entries[level]]);
}

static PyObject *kernel_call(PyObject *self, PyObject *const *arguments,
                             Py_ssize_t count)
{
    Arguments taken;
    const Overload *overload = find_overload((Kernel *)self, &taken, arguments, count);
    if (overload == NULL)
        return call_fallback((Kernel *)self, arguments, count);
    Entry entry = entry_of(overload);
    int64_t result[MOST_RESULTS];
    void *error = NULL;
    int32_t status;
    Py_BEGIN_ALLOW_THREADS
    status = entry(taken.words, result, &error);
    Py_END_ALLOW_THREADS
    if (status != 0)
        return raise_error(texts + overload->name, status, error);
    return result_of(texts + overload->result, result);
}

/* The first two words are the number of the thread and the number of threads, the third
 * one is the address of the words that threads share. */
static Call call_of(const Overload *overload, const Arguments *taken)
{
    return (Call){entry_of(overload), taken->words, taken->n_words,
                  (int)taken->words[1], texts + overload->name};
}

static int64_t *shared_words(const Arguments *taken)
{
    return (int64_t *)(intptr_t)taken->words[2];
}

/* Return how often all calls have been made, or -1 with an exception set. */
static int64_t run_job(Threads *threads, const Job *job)
{
    Outcome outcome;
    Py_BEGIN_ALLOW_THREADS
    outcome = run_threads(threads, job);
    Py_END_ALLOW_THREADS
    if (outcome.status == 0)
        return outcome.done;
    if (outcome.status == NO_THREAD)
        PyErr_SetString(PyExc_RuntimeError, "can't start new thread");
    else
        raise_error(outcome.failed->name, outcome.status, outcome.error);
    return -1;
}

static PyObject *kernel_share(PyObject *self, PyObject *const *arguments,
                              Py_ssize_t count)
{
    Arguments taken;
    Threads *threads = count < 4 ? NULL : PyCapsule_GetPointer(arguments[0], THREADS);
    if (threads == NULL) {
        PyErr_SetString(PyExc_TypeError, "share needs threads, and three arguments");
        return NULL;
    }
    const Overload *overload =
        find_overload((Kernel *)self, &taken, arguments + 1, count - 1);
    if (overload == NULL)
        Py_RETURN_FALSE;
    const Call call = call_of(overload, &taken);
    const Job job = {&call, 1, 1, shared_words(&taken), NULL};
    if (run_job(threads, &job) < 0)
        return NULL;
    Py_RETURN_TRUE;
}

static PyObject *kernel_reduce(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return PyObject_CallMethod(((Kernel *)self)->fallback, "reduce_native", NULL);
}

static PyObject *kernel_fallback(PyObject *self, void *ignored)
{
    (void)ignored;
    PyObject *fallback = ((Kernel *)self)->fallback;
    Py_INCREF(fallback);
    return fallback;
}

static int kernel_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Kernel *)self)->fallback);
    return 0;
}

static int kernel_clear(PyObject *self)
{
    Py_CLEAR(((Kernel *)self)->fallback);
    return 0;
}

static void kernel_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    kernel_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef kernel_methods[] = {
    {"call", (PyCFunction)(void (*)(void))kernel_call, METH_FASTCALL,
     "Run the kernel with these arguments."},
    {"share", (PyCFunction)(void (*)(void))kernel_share, METH_FASTCALL,
     "share(threads, *arguments): run the kernel in several threads.\n\n"
     "The arguments are those of thread 0. Return False, and run nothing, if there is "
     "no machine code for their types."},
    {"__reduce__", kernel_reduce, METH_NOARGS, "Return what finds the kernel again."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef kernel_attributes[] = {
    {"fallback", kernel_fallback, NULL, "What is called for other types.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot kernel_slots[] = {
    {Py_tp_doc, "A kernel with machine code for some types of arguments."},
    {Py_tp_methods, kernel_methods},
    {Py_tp_getset, kernel_attributes},
    {Py_tp_traverse, kernel_traverse},
    {Py_tp_clear, kernel_clear},
    {Py_tp_dealloc, kernel_dealloc},
    {0, NULL},
};

static PyType_Spec kernel_spec = {
    "hornbeam.kernels._native.Kernel",
    sizeof(Kernel),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    kernel_slots,
};

/* Threads */

static void free_threads(PyObject *capsule)
{
    end_threads(PyCapsule_GetPointer(capsule, THREADS));
}

static PyObject *threads(PyObject *module, PyObject *nanoseconds)
{
    (void)module;
    int64_t spin = PyLong_AsLongLong(nanoseconds);
    if (spin == -1 && PyErr_Occurred())
        return NULL;
    Threads *made = make_threads(spin);
    if (made == NULL)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(made, THREADS, free_threads);
    if (capsule == NULL)
        end_threads(made);
    return capsule;
}

/* The module */

static PyTypeObject *kernel_type;

/* Take the arguments of the calls apart; return whether there is machine code for the
 * types of all of them. */
static int take_calls(PyObject *list, Call *calls, Arguments *taken)
{
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        PyObject *kernel, *arguments;
        if (!PyArg_ParseTuple(PyList_GetItem(list, i), "O!O!:repeat", kernel_type,
                              &kernel, &PyTuple_Type, &arguments))
            return 0;
        PyObject *items[MOST_CODES];
        Py_ssize_t count = PyTuple_Size(arguments);
        const Overload *overload = NULL;
        if (count > 2 && count <= MOST_CODES) {
            for (Py_ssize_t k = 0; k < count; k++)
                items[k] = PyTuple_GetItem(arguments, k);
            overload = find_overload((Kernel *)kernel, taken + i, items, count);
        }
        if (overload == NULL)
            return 0;
        calls[i] = call_of(overload, taken + i);
    }
    return 1;
}

static PyObject *repeat(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *capsule, *list, *ended;
    long long times;
    if (!PyArg_ParseTuple(arguments, "OLO!O!:repeat", &capsule, &times, &PyArray_Type,
                          &ended, &PyList_Type, &list))
        return NULL;
    Threads *threads = PyCapsule_GetPointer(capsule, THREADS);
    Py_ssize_t count = PyList_Size(list);
    if (threads == NULL)
        return NULL;
    if (times < 1 || count < 1) {
        PyErr_SetString(PyExc_ValueError, "repeat needs a call, and to make it once");
        return NULL;
    }
    Call *calls = PyMem_Calloc((size_t)count + 1, sizeof *calls);
    Arguments *taken = PyMem_Calloc((size_t)count + 1, sizeof *taken);
    PyObject *result = NULL;
    if (calls == NULL || taken == NULL)
        PyErr_NoMemory();
    else if (take_calls(list, calls, taken)) {
        const Job job = {calls, (int)count, times, shared_words(taken),
                         PyArray_DATA((PyArrayObject *)ended)};
        int64_t done = run_job(threads, &job);
        if (done >= 0)
            result = PyLong_FromLongLong(done);
    } else if (!PyErr_Occurred()) {
        Py_INCREF(Py_None);
        result = Py_None;
    }
    PyMem_Free(calls);
    PyMem_Free(taken);
    return result;
}

static int compare_name(const void *name, const void *overload)
{
    return strcmp(name, texts + ((const Overload *)overload)->name);
}

static PyObject *kernel(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *name;
    PyObject *fallback;
    if (!PyArg_ParseTuple(arguments, "sO:kernel", &name, &fallback))
        return NULL;
    const Overload *found =
        bsearch(name, overloads, (size_t)n_overloads, sizeof(Overload), compare_name);
    if (found == NULL)
        Py_RETURN_NONE;
    while (found > overloads && strcmp(texts + found[-1].name, name) == 0)
        found--;
    Kernel *made = PyObject_GC_New(Kernel, kernel_type);
    if (made == NULL)
        return NULL;
    Py_INCREF(fallback);
    made->fallback = fallback;
    made->first = found;
    made->last = made->count = 0;
    const Overload *end = overloads + n_overloads;
    while (found + made->count < end &&
           strcmp(texts + found[made->count].name, name) == 0)
        made->count++;
    PyObject_GC_Track((PyObject *)made);
    PyObject *call = PyObject_GetAttrString((PyObject *)made, "call");
    Py_DECREF(made);
    return call;
}

static int highest_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4"))
        return 2;
    if (__builtin_cpu_supports("x86-64-v3"))
        return 1;
    return __builtin_cpu_supports("x86-64-v2") ? 0 : -1;
#else
    return 0;
#endif
}

static PyObject *choose_level(PyObject *module, PyObject *wanted)
{
    (void)module;
    static const char *const names[] = LEVEL_NAMES;
    level = highest_level();
    for (int i = 0; i < level; i++)
        if (PyUnicode_CompareWithASCIIString(wanted, names[i]) == 0)
            level = i;
    for (const Part *part = parts; level >= 0 && part->address != 0; part++)
        *(PartCode **)at(parts, part->address) = (PartCode *)at(parts, part->codes[level]);
    return PyUnicode_FromString(level < 0 ? "" : names[level]);
}

static PyObject *list_overloads(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < n_overloads; i++) {
        PyObject *name = PyUnicode_FromString(texts + overloads[i].name);
        if (name == NULL || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyMethodDef module_methods[] = {
    {"kernel", kernel, METH_VARARGS,
     "kernel(name, fallback): return the function that runs a kernel, or None.\n\n"
     "`fallback` is called with arguments of other types."},
    {"choose_level", choose_level, METH_O,
     "choose_level(name): use this level of the processor, or its highest one.\n\n"
     "Return its name; it is empty where the processor has none."},
    {"repeat", repeat, METH_VARARGS,
     "repeat(threads, times, ended, calls): make these calls again and again.\n\n"
     "Each is a kernel and its arguments, as for `share`. They end when one of them has "
     "set `ended[0]`, an int64. Return how often all have been made; None, and make "
     "none, if there is no machine code for the types of one of them."},
    {"threads", threads, METH_O,
     "threads(spin): return threads for `share`, none of which has started.\n\n"
     "For so many nanoseconds after a job they look for the next one."},
    {"overloads", list_overloads, METH_NOARGS,
     "overloads(): return the name of the kernel of each signature."},
    {NULL, NULL, 0, NULL},
};

static int read_records(void)
{
    PyObject *ast = PyImport_ImportModule("ast");
    int done = ast != NULL && n_records <= MOST_RECORDS;
    for (int i = 0; done && i < n_records; i++) {
        PyObject *fields = PyObject_CallMethod(ast, "literal_eval", "s", records[i]);
        done = fields != NULL &&
               PyArray_DescrConverter(fields, &record_types[i]) == NPY_SUCCEED;
        Py_XDECREF(fields);
    }
    Py_XDECREF(ast);
    return done;
}

static int execute(PyObject *module)
{
    if (PyArray_ImportNumPyAPI() < 0 || !read_records())
        return -1;
    kernel_type = (PyTypeObject *)PyType_FromSpec(&kernel_spec);
    if (kernel_type == NULL)
        return -1;
    PyObject *digest = PyUnicode_FromString(sources);
    int failed =
        digest == NULL || PyObject_SetAttrString(module, "sources", digest) < 0;
    Py_XDECREF(digest);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "The machine code of the kernels.",
    .m_methods = module_methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }

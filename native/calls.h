/* The table of compiled kernels, which the build writes, and the codes of types. */
#ifndef HORNBEAM_CALLS_H
#define HORNBEAM_CALLS_H

#include <stdint.h>

/* A code describes the type of an argument. That of a number is its NumPy type. A tuple
 * is followed by the codes of its items, whatever its class. An array's has the layout
 * (0 C, 1 Fortran, 2 other), the dimensions and the element type: a NumPy type, or
 * FIRST_RECORD plus the place in the table of records. */
typedef uint16_t Code;
#define NUMBER 0x2000u
#define NONE 0x4000u
#define TUPLE 0x6000u
#define ARRAY 0x8000u
#define READ_ONLY 0x1000u
#define LAYOUT_SHIFT 10
#define DIMENSIONS_SHIFT 7
#define MOST_DIMENSIONS 7
#define FIRST_RECORD 64u
#define NO_TYPE 0x7fu

/* Words are the arguments, flattened; the result has a word for each item. */
typedef int32_t (*Entry)(const int64_t *words, int64_t *result, void **error);

#define MOST_WORDS 1024
#define MOST_RESULTS 8

/* The dynamic linker writes each address when it loads the binary, and needs 24 bytes
 * more for it. So tables have the distance of code from their beginning, or places in
 * other tables. */
typedef int32_t Distance;

typedef struct {
    uint32_t name;   /* the text of the module and qualified name */
    uint32_t result; /* a letter for each item, in parentheses if it is a tuple */
    uint32_t codes;  /* the first one of the arguments */
    int32_t n_codes;
    uint32_t entries[N_LEVELS];
} Overload;

/* A part of several kernels, which they call by its address. */
typedef void PartCode(void);
typedef struct {
    Distance address; /* of a PartCode *; 0 after the last one */
    Distance codes[N_LEVELS];
} Part;

extern const Part parts[];
/* Sorted by name. */
extern const Overload overloads[];
extern const int32_t n_overloads;
extern const char texts[];
extern const Code codes[];
extern const Distance entries[];
/* Each a Python literal that numpy.dtype takes. */
extern const char *const records[];
extern const int32_t n_records;
extern const char sources[];

#endif

// Types, sums over a work-group, and additions of 64 bits.
//
// Names set by the host: GROUP_SIZE (work-items of a group, a power of two), TILE_ROWS,
// BIN (the type of bins), BINS_PER_WORD, REAL (the type of gradients), REAL_IS_DOUBLE,
// ONE_CATEGORY and CATEGORY_SETS (kinds of splits), and LONG_ATOMICS where there are
// atomic additions of 64 bits.

#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#ifdef LONG_ATOMICS
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#endif
// A product and a sum are rounded one after the other, as they are on the CPU.
#pragma OPENCL FP_CONTRACT OFF

#define KERNEL __kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))

// Rounds half to even, as rint does, a number below 2**51: adding 1.5 * 2**52 leaves
// the integer in the lowest bits. No conversion is needed, so compilers vectorise it.
#define ROUND 6755399441055744.0

static inline long round_long(double value)
{
    return as_long(value + ROUND) - as_long(ROUND);
}

// A group of one work-item needs no barrier: PoCL would split its loops there.
#if GROUP_SIZE > 1
#define SYNC() barrier(CLK_LOCAL_MEM_FENCE)
#define SYNC_GLOBAL() barrier(CLK_GLOBAL_MEM_FENCE)
#else
#define SYNC()
#define SYNC_GLOBAL()
#endif

// A node whose rows are moved or marked. The tasks of a list of nodes, tiles of their
// rows, follow each other; the first task after them is that of one node more.
typedef struct {
    int first_task;
    int place;           // of its extent
    int side;            // of the two lists of rows, the one that its rows are on
    int left;            // the left child's place, the right one's follows; -1: none
    int column;          // the column of bins of its split
    int low;             // bins in low to low + count go right if inside_right, others
    int count;           // left; or the reverse
    int inside_right;
    int is_categorical;  // a bit set of bins goes left instead
    int left_leaf;       // the leaf of its rows, or of those that go left
    int right_leaf;
} Node;

// Adds to a number in global or local memory that others add to as well. The sums of
// two halves are right in the end, since the carry of the lower one is added to the
// upper one.
#ifdef LONG_ATOMICS
#define ADD_LONG(space, sum, value) atom_add(sum, value)
#else
#define ADD_LONG(space, sum, value) \
    do { \
        space uint* halves = (space uint*)(sum); \
        uint low = (uint)(value); \
        uint high = (uint)((ulong)(value) >> 32); \
        uint before = atomic_add(halves, low); \
        high += before + low < before ? 1u : 0u; \
        if (high != 0) \
            atomic_add(halves + 1, high); \
    } while (0)
#endif

static inline void add_long(__global long* sum, long value)
{
    ADD_LONG(__global, sum, value);
}

static inline void add_local_long(__local long* sum, long value)
{
#if GROUP_SIZE == 1
    *sum += value;
#else
    ADD_LONG(__local, sum, value);
#endif
}

// Adds the values of all work-items of the group to *sum.
static inline void add_of_group(__global long* sum, long value, __local long* scratch)
{
    int item = get_local_id(0);
    scratch[item] = value;
    for (int step = GROUP_SIZE / 2; step > 0; step /= 2) {
        SYNC();
        if (item < step)
            scratch[item] += scratch[item + step];
    }
    if (item == 0 && scratch[0] != 0)
        add_long(sum, scratch[0]);
    SYNC();
}

// Defines a function that returns the sum of the values of the work-items before this
// one, and that of all in *total (Hillis and Steele 1986).
#if GROUP_SIZE == 1
#define DEFINE_SCAN(NAME, TYPE)                                               \
    static inline TYPE NAME(TYPE value, __local TYPE* scratch, TYPE* total)   \
    {                                                                         \
        *total = value;                                                       \
        return (TYPE)(0);                                                     \
    }
#else
#define DEFINE_SCAN(NAME, TYPE)                                               \
    static inline TYPE NAME(TYPE value, __local TYPE* scratch, TYPE* total)   \
    {                                                                         \
        int item = get_local_id(0);                                           \
        scratch[item] = value;                                                \
        barrier(CLK_LOCAL_MEM_FENCE);                                         \
        for (int distance = 1; distance < GROUP_SIZE; distance *= 2) {        \
            TYPE other =                                                      \
                item >= distance ? scratch[item - distance] : (TYPE)(0);      \
            barrier(CLK_LOCAL_MEM_FENCE);                                     \
            scratch[item] += other;                                           \
            barrier(CLK_LOCAL_MEM_FENCE);                                     \
        }                                                                     \
        TYPE before = scratch[item] - value;                                  \
        *total = scratch[GROUP_SIZE - 1];                                     \
        barrier(CLK_LOCAL_MEM_FENCE);                                         \
        return before;                                                        \
    }
#endif

DEFINE_SCAN(scan_group, uint)

// Defines a function that returns the one of `count` nodes that a task is of.
#if GROUP_SIZE == 1
#define DEFINE_OWNER(NAME, TYPE, FIRST)                                       \
    static inline uint NAME(                                                  \
        __global const TYPE* nodes, uint count, int task, __local uint* found) \
    {                                                                         \
        uint own = 0;                                                         \
        while (count - own > 1) {                                             \
            uint middle = (own + count) / 2;                                  \
            if (nodes[middle].FIRST <= task)                                  \
                own = middle;                                                 \
            else                                                              \
                count = middle;                                               \
        }                                                                     \
        return own;                                                           \
    }
#else
#define DEFINE_OWNER(NAME, TYPE, FIRST)                                       \
    static inline uint NAME(                                                  \
        __global const TYPE* nodes, uint count, int task, __local uint* found) \
    {                                                                         \
        for (uint i = get_local_id(0); i < count; i += GROUP_SIZE)            \
            if (nodes[i].FIRST <= task && task < nodes[i + 1].FIRST)          \
                *found = i;                                                   \
        barrier(CLK_LOCAL_MEM_FENCE);                                         \
        return *found;                                                        \
    }
#endif

DEFINE_OWNER(node_of_task, Node, first_task)

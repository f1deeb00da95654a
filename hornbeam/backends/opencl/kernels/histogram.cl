// Gradient histograms of nodes.
//
// A work-group sums at most 2**14 rows of one node in local memory, for one group of
// columns, and adds the sums to the node's histogram. Rows have their bins side by
// side, in words of 32 bits. Neighbouring work-items begin with different words, so
// that they seldom add to the same bin of a feature that has few.

// Four columns, or two of 16 bits, whose bins are in one word of a row.
typedef struct {
    int word;      // of the row
    int cells[4];  // the first local bin of each column; -1: the tree does not use it
} Word;

// A node whose histogram is built; its tasks are parts of its rows.
typedef struct {
    int first_task;
    int place;  // of its extent
    int side;   // of the two lists of rows
    int sums;   // of its gradients, among those of all histograms; hessians follow
} Built;

DEFINE_OWNER(builder_of_task, Built, first_task)

// The words of a group of columns, and its bins.
typedef struct {
    int first_word, last_word;
    int first_cell, n_cells;
} ColumnGroup;

// Copies the bins of some columns to the order of rows, in whole words. What is beyond
// the last column of a row is 0.
KERNEL void pack_rows(
    __global const BIN* bins,
    ulong column_step,  // from a bin to that of the next column
    ulong row_step,     // and to that of the next row
    uint rows,
    uint columns,
    uint first_word,
    uint last_word,
    uint words,         // of a row
    __global BIN* by_row)
{
    uint begin = get_group_id(0) * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, rows);
    uint last_column = last_word * BINS_PER_WORD;
    for (uint column = first_word * BINS_PER_WORD; column < last_column; column++)
        for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE)
            by_row[(ulong)i * words * BINS_PER_WORD + column] =
                column < columns ? bins[column * column_step + i * row_step] : 0;
}

// Clears the histograms in these slots, of `size` numbers each. There are `tiles`
// work-groups for each.
KERNEL void clear_histograms(
    __global const uint* slots, uint tiles, uint size, __global long* histograms)
{
    __global long* own = histograms + (ulong)slots[get_group_id(0) / tiles] * size;
    uint begin = get_group_id(0) % tiles * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, size);
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE)
        own[i] = 0;
}

// Adds histograms of other devices to those in these slots, in the same order.
KERNEL void add_histograms(
    __global const long* others, __global const uint* slots, uint tiles, uint size,
    __global long* histograms)
{
    uint number = get_group_id(0) / tiles;
    __global long* own = histograms + (ulong)slots[number] * size;
    __global const long* other = others + (ulong)number * size;
    uint begin = get_group_id(0) % tiles * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, size);
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE)
        own[i] += other[i];
}

#if BINS_PER_WORD == 4
#define BIN_IN(word, k) (((word) >> (8 * (k))) & 255u)
#else
#define BIN_IN(word, k) (((word) >> (16 * (k))) & 65535u)
#endif

// What is the same in the histograms of packed and of wide sums.
#define HISTOGRAM_ARGUMENTS                                                     \
    __global const uint* by_row, uint words, uint n_rows,                       \
    __global const uint* rows,      /* (2, n_rows) */                           \
    __global const uint2* extents,  /* begin and end of the rows of each node */\
    __global const Built* nodes, uint n_nodes,                                  \
    uint task_rows,                 /* rows of a part, at most 2**14 */         \
    __global const ColumnGroup* groups, __global const Word* group_words,       \
    uint first_group,               /* of those that are built */               \
    __global const uint* bin_of_cell,                                           \
    __global long* histograms,      /* (sums, bins): gradients, then hessians */\
    uint bins

#define BEGIN_TASK()                                                            \
    __local uint found;                                                         \
    int task = get_group_id(0);                                                 \
    if (task >= nodes[n_nodes].first_task)                                      \
        return;                                                                 \
    Built node = nodes[builder_of_task(nodes, n_nodes, task, &found)];          \
    uint2 extent = extents[node.place];                                         \
    uint begin = extent.x + (uint)(task - node.first_task) * task_rows;         \
    uint end = min(begin + task_rows, extent.y);                                \
    if (begin >= end)                                                           \
        return;                                                                 \
    ColumnGroup group = groups[first_group + get_group_id(1)];                  \
    __global const uint* own_rows = rows + (ulong)node.side * n_rows;              \
    __global long* sums = histograms + (ulong)node.sums * bins;                    \
    int item = get_local_id(0);                                                 \
    int n_words = group.last_word - group.first_word;                           \
    __global const Word* own_words = group_words + group.first_word

#if GROUP_SIZE == 1
// A processor core takes a chunk of rows, and in it word by word, so that the places of
// a word's columns stay in registers.
#define CHUNK_ROWS 512

static inline void add_chunk(
    __global const uint* own, const ulong* starts, const long* pairs, uint count,
    Word place, __local long* restrict cells)
{
    own += place.word;
#if BINS_PER_WORD == 4
    __local long* first = cells + place.cells[0];
    __local long* second = cells + place.cells[1];
    __local long* third = cells + place.cells[2];
    __local long* fourth = cells + place.cells[3];
    int least = min(place.cells[0], place.cells[1]);
    if (min(least, min(place.cells[2], place.cells[3])) >= 0) {
        for (uint i = 0; i < count; i++) {
            uint word = own[starts[i]];
            first[BIN_IN(word, 0)] += pairs[i];
            second[BIN_IN(word, 1)] += pairs[i];
            third[BIN_IN(word, 2)] += pairs[i];
            fourth[BIN_IN(word, 3)] += pairs[i];
        }
        return;
    }
#endif
    for (int c = 0; c < BINS_PER_WORD; c++)
        if (place.cells[c] >= 0)
            for (uint i = 0; i < count; i++)
                cells[place.cells[c] + BIN_IN(own[starts[i]], c)] += pairs[i];
}
#else
// Packed sums: g in the high 32 bits of a bin and h in the low ones, where neither can
// overflow. Two atomic additions of 32 bits may take the place of one, as the sum of h
// has no carry.
static inline void add_packed(__local long* cell, long pair)
{
#ifdef LONG_ATOMICS
    atom_add(cell, pair);
#else
    __local uint* halves = (__local uint*)cell;
    atomic_add(halves, (uint)pair);
    atomic_add(halves + 1, (uint)((ulong)pair >> 32));
#endif
}
#endif

KERNEL void build_packed(
    HISTOGRAM_ARGUMENTS,
    __global const long* packed,
    __local long* cells)
{
    BEGIN_TASK();
    for (int i = item; i < group.n_cells; i += GROUP_SIZE)
        cells[i] = 0;
    SYNC();
#if GROUP_SIZE == 1
    ulong starts[CHUNK_ROWS];
    long pairs[CHUNK_ROWS];
    for (uint chunk = begin; chunk < end; chunk += CHUNK_ROWS) {
        uint count = min((uint)CHUNK_ROWS, end - chunk);
        for (uint i = 0; i < count; i++) {
            uint row = own_rows[chunk + i];
            starts[i] = (ulong)row * words;
            pairs[i] = packed[row];
        }
        for (int w = 0; w < n_words; w++)
            add_chunk(by_row, starts, pairs, count, own_words[w], cells);
    }
#else
    for (uint i = begin + item; i < end; i += GROUP_SIZE) {
        uint row = own_rows[i];
        long pair = packed[row];
        __global const uint* own = by_row + (ulong)row * words;
        int w = item % n_words;
        for (int k = 0; k < n_words; k++) {
            __global const Word* place = own_words + w;
            uint word = own[place->word];
            for (int c = 0; c < BINS_PER_WORD; c++)
                if (place->cells[c] >= 0)
                    add_packed(cells + place->cells[c] + BIN_IN(word, c), pair);
            w = w + 1 < n_words ? w + 1 : 0;
        }
    }
#endif
    SYNC();
    for (int i = item; i < group.n_cells; i += GROUP_SIZE) {
        long pair = cells[i];
        if (pair != 0) {
            uint bin = bin_of_cell[group.first_cell + i];
            add_long(sums + bin, pair >> 32);
            add_long(sums + bins + bin, pair & 0xffffffffL);
        }
    }
}

KERNEL void build_wide(
    HISTOGRAM_ARGUMENTS,
    __global const long2* wide,
    __local long2* cells)
{
    BEGIN_TASK();
    for (int i = item; i < group.n_cells; i += GROUP_SIZE)
        cells[i] = (long2)(0, 0);
    SYNC();
    for (uint i = begin + item; i < end; i += GROUP_SIZE) {
        uint row = own_rows[i];
        long2 pair = wide[row];
        __global const uint* own = by_row + (ulong)row * words;
        int w = item % n_words;
        for (int k = 0; k < n_words; k++) {
            __global const Word* place = own_words + w;
            uint word = own[place->word];
            for (int c = 0; c < BINS_PER_WORD; c++)
                if (place->cells[c] >= 0) {
                    __local long* cell =
                        (__local long*)(cells + place->cells[c] + BIN_IN(word, c));
                    add_local_long(cell, pair.x);
                    add_local_long(cell + 1, pair.y);
                }
            w = w + 1 < n_words ? w + 1 : 0;
        }
    }
    SYNC();
    for (int i = item; i < group.n_cells; i += GROUP_SIZE) {
        uint bin = bin_of_cell[group.first_cell + i];
        if (cells[i].x != 0)
            add_long(sums + bin, cells[i].x);
        if (cells[i].y != 0)
            add_long(sums + bins + bin, cells[i].y);
    }
}

// Counts rows in the last part of histograms: packed pairs of (0, 1), whose zeros are
// added to the part before.
KERNEL void fill_ones(uint rows, __global long* packed)
{
    uint begin = get_group_id(0) * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, rows);
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE)
        packed[i] = 1;
}

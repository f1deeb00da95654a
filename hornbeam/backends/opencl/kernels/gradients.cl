// Gradients of the objectives that the device computes: see hornbeam/kernels/maths.py,
// whose formulas and bits these have.

// e**x from additions, multiplications and a shift, in the order of `maths.exp`.
static inline double exp_of(double x)
{
    x = min(max(x, -708.0), 709.0);
    double shifted = x * 1.4426950408889634 + ROUND;
    double k = shifted - ROUND;
    double r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    return p * as_double((as_long(shifted) - as_long(ROUND) + 1023) << 52);
}

// The bits of a magnitude: as integers they are ordered as the floats are, and infinity
// and NaN are the largest.
#if REAL_IS_DOUBLE
#define MAGNITUDE(x) (as_long(x) & 0x7fffffffffffffffL)
#else
#define MAGNITUDE(x) ((long)(as_int(x) & 0x7fffffff))
#endif

// The float32 g and h of a row, times its weight, and the largest of them.
static inline void finish_row(
    uint i, float g, float h, double target, double positive_weight,
    __global const double* weights, uint is_weighted,
    __global REAL* gradients, __global REAL* hessians, long* most_g, long* most_h)
{
    double factor = target == 1.0 ? positive_weight : 1.0;
    double weight = is_weighted ? weights[i] : 1.0;
    REAL gradient = (REAL)(g * factor * weight);
    REAL hessian = (REAL)(h * factor * weight);
    gradients[i] = gradient;
    hessians[i] = hessian;
    *most_g = max(*most_g, (long)MAGNITUDE(gradient));
    *most_h = max(*most_h, (long)MAGNITUDE(hessian));
}

// Writes the largest of the values of a group.
static inline void write_largest(__global long* largest, long value, __local long* scratch)
{
    int item = get_local_id(0);
    scratch[item] = value;
    for (int step = GROUP_SIZE / 2; step > 0; step /= 2) {
        SYNC();
        if (item < step)
            scratch[item] = max(scratch[item], scratch[item + step]);
    }
    if (item == 0)
        *largest = scratch[0];
    SYNC();
}

#define LOSS(name, STATEMENTS)                                                  \
    KERNEL void name(                                                           \
        __global const double* restrict margins,                                         \
        __global const double* restrict targets,                                         \
        __global const double* restrict weights,                                \
        uint is_weighted,                                                       \
        double positive_weight, /* of rows whose target is 1 */                 \
        uint rows,                                                              \
        __global REAL* restrict gradients,                                      \
        __global REAL* restrict hessians,                                       \
        __global long* largest) /* (groups, 2): bits of |g| and |h| */          \
    {                                                                           \
        __local long scratch[GROUP_SIZE];                                       \
        uint begin = get_group_id(0) * TILE_ROWS;                               \
        uint end = min(begin + TILE_ROWS, rows);                                \
        long most_g = 0, most_h = 0;                                            \
        for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE) {      \
            double margin = margins[i];                                         \
            double target = targets[i];                                         \
            float g, h;                                                         \
            STATEMENTS                                                          \
            finish_row(                                                         \
                i, g, h, target, positive_weight, weights, is_weighted,         \
                gradients, hessians, &most_g, &most_h);                         \
        }                                                                       \
        __global long* own = largest + 2 * get_group_id(0);                     \
        write_largest(own, most_g, scratch);                                    \
        write_largest(own + 1, most_h, scratch);                                \
    }

LOSS(squared_error,
     g = (float)(margin - target);
     h = 1.0f;)

LOSS(logistic,
     double p = 1.0 / (1.0 + exp_of(-margin));
     g = (float)(p - target);
     h = (float)max(p * (1.0 - p), 1e-16);)

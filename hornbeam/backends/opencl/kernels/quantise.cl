// Fixed-point gradients: see hornbeam/kernels/gradients.py, whose bits these have.

#define HIGHEST_GRADIENT ((1L << 17) - 1)
#define HIGHEST_HESSIAN ((1L << 18) - 1)

// Writes each row's coarse gradient and hessian as one number: g in the high half, h in
// the low half. Adds the sums of |g| and h to magnitudes[0] and magnitudes[1].
KERNEL void quantise(
    __global const REAL* restrict gradients,
    __global const REAL* restrict hessians,
    double gradient_scale,  // 1 / unit, a power of two
    double hessian_scale,
    uint rows,
    __global long* restrict packed,
    __global long* restrict magnitudes)
{
    __local long scratch[GROUP_SIZE];
    uint begin = get_group_id(0) * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, rows);
    long gradient_sum = 0;
    long hessian_sum = 0;
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE) {
        long g = round_long(gradients[i] * gradient_scale);
        long h = round_long(hessians[i] * hessian_scale);
        g = min(max(g, -HIGHEST_GRADIENT), HIGHEST_GRADIENT);
        h = min(h, HIGHEST_HESSIAN);
        packed[i] = (long)((ulong)g << 32) + h;
        gradient_sum += g < 0 ? -g : g;
        hessian_sum += h;
    }
    add_of_group(magnitudes, gradient_sum, scratch);
    add_of_group(magnitudes + 1, hessian_sum, scratch);
}

// Writes each row's fine gradient and hessian, as two numbers.
KERNEL void widen(
    __global const REAL* restrict gradients,
    __global const REAL* restrict hessians,
    double gradient_scale,
    double hessian_scale,
    uint rows,
    __global long2* restrict wide)
{
    uint begin = get_group_id(0) * TILE_ROWS;
    uint end = min(begin + TILE_ROWS, rows);
    for (uint i = begin + get_local_id(0); i < end; i += GROUP_SIZE)
        wide[i] = (long2)(
            round_long(gradients[i] * gradient_scale),
            round_long(hessians[i] * hessian_scale));
}

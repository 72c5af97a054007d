/* Products of matrices: out = a b, or added to what out holds.

   b comes packed, in panels of columns; a is packed here, in tiles of rows. A tile of the result is
   added up in the registers of the processor, which read both once for each of its rows and columns.
   Every number of the result is added up in the same order, whatever rows stand beside it. Threads,
   as many as torch has, share the panels. */

#include "loops.h"

#include <stdlib.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#define TILE 12
#else
#define LANES 8
#define TILE 6
#endif
#define PANEL (2 * LANES) /* columns */
#define DEPTH 512         /* rows of b that are packed together: a panel of them stays in a cache */
#define BLOCK (20 * TILE) /* rows of a, likewise */
#define AHEAD (16 * PANEL)

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline long smaller(long a, long b)
{
    return a < b ? a : b;
}

static inline long parts(long whole, long part)
{
    return (whole + part - 1) / part;
}

/* The first of the rows of a tile; rows are divided evenly. */
static inline long tile_start(long tile, long tiles, long rows)
{
    return tile * rows / tiles;
}

long packed_size(long inner, long columns)
{
    return inner * parts(columns, PANEL) * PANEL;
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int places __attribute__((vector_size(16)));

#if defined(__clang__) || __GNUC__ >= 12
#define CHOOSE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
#define CHOOSE(x, y, ...) __builtin_shuffle(x, y, (places){__VA_ARGS__})
#endif

/* Four numbers of each of four rows, which become the columns. */
static inline void transpose_four(const float *from, long from_row, float *to, long to_row)
{
    four a = *(const four *)from, b = *(const four *)(from + from_row);
    four c = *(const four *)(from + 2 * from_row), d = *(const four *)(from + 3 * from_row);
    four ab = CHOOSE(a, b, 0, 4, 1, 5), cd = CHOOSE(c, d, 0, 4, 1, 5);
    four more_ab = CHOOSE(a, b, 2, 6, 3, 7), more_cd = CHOOSE(c, d, 2, 6, 3, 7);
    *(four *)to = CHOOSE(ab, cd, 0, 1, 4, 5);
    *(four *)(to + to_row) = CHOOSE(ab, cd, 2, 3, 6, 7);
    *(four *)(to + 2 * to_row) = CHOOSE(more_ab, more_cd, 0, 1, 4, 5);
    *(four *)(to + 3 * to_row) = CHOOSE(more_ab, more_cd, 2, 3, 6, 7);
}

/* to[x][r] = from[r][x]. The last four rows or columns may overlap those before them; what comes
   soon is asked for early, as rows may be far apart. */
static void transpose(long rows, long columns, const float *restrict from, long from_row,
                      float *restrict to, long to_row)
{
    if (rows < 4 || columns < 4) {
        for (long x = 0; x < columns; x++)
            for (long r = 0; r < rows; r++)
                to[x * to_row + r] = from[r * from_row + x];
        return;
    }
    for (long first = 0; first < columns; first += LANES) /* what a line of the cache holds */
        for (long r = 0; r < rows; r += 4)
            for (long x = first; x < smaller(first + LANES, columns); x += 4) {
                long row = smaller(r, rows - 4), column = smaller(x, columns - 4);
                __builtin_prefetch(from + (row + (x - first) / 4) * from_row + first + 4 * LANES);
                transpose_four(from + row * from_row + column, from_row,
                               to + column * to_row + row, to_row);
            }
}

/* Rows of b with columns in a row, as [panel][row][column]: a few rows at a time, as they come. */
static void pack_rows(long rows, long columns, const float *restrict from, long from_row, long depth,
                      float *restrict to)
{
    for (long p = 0; p < columns / PANEL; p++)
        for (long k = 0; k < rows; k++)
            memcpy(to + (p * depth + k) * PANEL, from + k * from_row + p * PANEL,
                   PANEL * sizeof *to);
}

/* Some rows of b, as [block of rows][panel][row][column], zero after the last column. */
void pack(long inner, long columns, const float *restrict b, long b_row, long b_column,
          float *restrict packed)
{
    long panels = parts(columns, PANEL), whole = b_column == 1 ? columns / PANEL : 0;
    for (long top = 0; top < inner; top += DEPTH) {
        long depth = smaller(DEPTH, inner - top);
        const float *block = b + top * b_row;
        float *room = packed + top * panels * PANEL;
#pragma omp parallel if (depth * columns > FEW)
        {
#pragma omp for nowait
            for (long k = 0; k < depth; k += LANES)
                pack_rows(smaller(LANES, depth - k), whole * PANEL, block + k * b_row, b_row, depth,
                          room + k * PANEL);
#pragma omp for
            for (long p = whole; p < panels; p++) {
                const float *from = block + p * PANEL * b_column;
                float *to = room + p * depth * PANEL;
                long width = smaller(PANEL, columns - p * PANEL);
                if (width < PANEL)
                    memset(to, 0, depth * PANEL * sizeof *to);
                if (b_row == 1)
                    transpose(width, depth, from, b_column, to, PANEL);
                else
                    for (long k = 0; k < depth; k++)
                        for (long x = 0; x < width; x++)
                            to[k * PANEL + x] = from[k * b_row + x * b_column];
            }
        }
    }
}

/* Some columns of a tile of rows of a, as [column][row]. */
static void pack_tile(long rows, long columns, const float *restrict a, long a_row, long a_column,
                      float *restrict packed)
{
    if (a_column == 1)
        transpose(rows, columns, a, a_row, packed, rows);
    else if (a_row == 1 && rows == TILE)
        for (long k = 0; k < columns; k++) {
            __builtin_prefetch(a + k * a_column + 8 * TILE);
            memcpy(packed + k * TILE, a + k * a_column, TILE * sizeof *a);
        }
    else
        for (long k = 0; k < columns; k++)
            for (long r = 0; r < rows; r++)
                packed[k * rows + r] = a[r * a_row + k * a_column];
}

/* A tile of a panel; rows has to be known when this is compiled. */
static inline __attribute__((always_inline)) void
multiply_rows(const int rows, long depth, const float *restrict a, long a_row, long a_column,
              const float *restrict b, float *restrict out, long out_row, int add)
{
    lanes sums[TILE][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++) {
            sums[r][half] = (lanes){0};
            __builtin_prefetch(out + r * out_row + half * LANES, 1);
        }
    for (long k = 0; k < depth; k++, a += a_column, b += PANEL) {
        lanes left = *(const lanes *)b, right = *(const lanes *)(b + LANES);
        __builtin_prefetch(b + AHEAD);
        __builtin_prefetch(b + AHEAD + LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            sums[r][0] += a[r * a_row] * left;
            sums[r][1] += a[r * a_row] * right;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++) {
            lanes *to = (lanes *)(out + r * out_row + half * LANES);
            if (add)
                sums[r][half] += *to;
            *to = sums[r][half];
        }
}

static void multiply_tile(long rows, long depth, const float *a, const float *b, float *out,
                          long out_row, int add)
{
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        multiply_rows(n, depth, a, 1, n, b, out, out_row, add);                                    \
        break;
    switch (rows) {
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#if TILE > 6
        ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
#endif
    }
}

/* The same where the panel has fewer columns than others. */
static void multiply_narrow_tile(long rows, long width, long depth, const float *a, const float *b,
                                 float *out, long out_row, int add)
{
    float whole[TILE * PANEL] = {0};
    for (long r = 0; add && r < rows; r++)
        memcpy(whole + r * PANEL, out + r * out_row, width * sizeof *out);
    multiply_tile(rows, depth, a, b, whole, PANEL, add);
    for (long r = 0; r < rows; r++)
        memcpy(out + r * out_row, whole + r * PANEL, width * sizeof *out);
}

void multiply(long rows, long inner, long columns, const float *restrict a, long a_row,
              long a_column, const float *restrict b, float *restrict out, long out_row, long add)
{
    long panels = parts(columns, PANEL);
    for (long r = 0; !inner && !add && r < rows; r++)
        memset(out + r * out_row, 0, columns * sizeof *out);
    float *left = malloc(smaller(rows, BLOCK) * smaller(inner, DEPTH) * sizeof *left);
    for (long top = 0; top < inner; top += DEPTH, add = 1) {
        long depth = smaller(DEPTH, inner - top);
        for (long first = 0; first < rows; first += BLOCK) {
            long height = smaller(BLOCK, rows - first), tiles = parts(height, TILE);
            long strip = a_row == 1 ? LANES : depth; /* of a, to be read as it lies in memory */
#pragma omp parallel if (height * depth * columns > FEW)
            {
#pragma omp for collapse(2)
                for (long k = 0; k < depth; k += strip)
                    for (long t = 0; t < tiles; t++) {
                        long r = tile_start(t, tiles, height), n = tile_start(t + 1, tiles, height) - r;
                        pack_tile(n, smaller(strip, depth - k),
                                  a + (first + r) * a_row + (top + k) * a_column, a_row, a_column,
                                  left + r * depth + k * n);
                    }
#pragma omp for
                for (long p = 0; p < panels; p++) {
                    const float *panel = b + (top * panels + p * depth) * PANEL;
                    long width = smaller(PANEL, columns - p * PANEL);
                    for (long t = 0; t < tiles; t++) {
                        long r = tile_start(t, tiles, height), n = tile_start(t + 1, tiles, height) - r;
                        float *to = out + (first + r) * out_row + p * PANEL;
                        if (width == PANEL)
                            multiply_tile(n, depth, left + r * depth, panel, to, out_row, add);
                        else
                            multiply_narrow_tile(n, width, depth, left + r * depth, panel, to,
                                                 out_row, add);
                    }
                }
            }
        }
    }
    free(left);
}

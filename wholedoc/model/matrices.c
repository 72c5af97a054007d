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

/* A few rows of a panel, four columns at a time: so compilers find instructions for it. */
static void transpose(long rows, long width, const float *restrict from, long from_row,
                      long from_column, float *restrict to)
{
    long x = 0;
    for (; x + 4 <= width; x += 4) {
        const float *a = from + x * from_column, *b = a + from_column, *c = b + from_column;
        const float *d = c + from_column;
        for (long k = 0; k < rows; k++) {
            float four[4] = {a[k * from_row], b[k * from_row], c[k * from_row], d[k * from_row]};
            memcpy(to + k * PANEL + x, four, sizeof four);
        }
    }
    for (; x < width; x++)
        for (long k = 0; k < rows; k++)
            to[k * PANEL + x] = from[x * from_column + k * from_row];
}

/* Some rows of b, as [block of rows][panel][row][column], zero after the last column. */
void pack(long inner, long columns, const float *restrict b, long b_row, long b_column,
          float *restrict packed)
{
    long panels = parts(columns, PANEL);
    for (long top = 0; top < inner; top += DEPTH) {
        long depth = smaller(DEPTH, inner - top);
#pragma omp parallel for if (depth * columns > FEW)
        for (long p = 0; p < panels; p++) {
            const float *from = b + top * b_row + p * PANEL * b_column;
            float *to = packed + (top * panels + p * depth) * PANEL;
            long width = smaller(PANEL, columns - p * PANEL);
            if (width < PANEL)
                memset(to, 0, depth * PANEL * sizeof *to);
            if (b_column == 1)
                for (long k = 0; k < depth; k++)
                    memcpy(to + k * PANEL, from + k * b_row, width * sizeof *to);
            else
                for (long first = 0; first < depth; first += LANES)
                    transpose(smaller(LANES, depth - first), width, from + first * b_row,
                              b_row, b_column, to + first * PANEL);
        }
    }
}

/* Rows of a, as [column][row]. */
static void pack_tile(long rows, long depth, const float *restrict a, long a_row, long a_column,
                      float *restrict packed)
{
    for (long k = 0; k < depth; k++, a += a_column, packed += rows)
        for (long r = 0; r < rows; r++)
            packed[r] = a[r * a_row];
}

/* A tile of a panel; rows has to be known when this is compiled. */
static inline __attribute__((always_inline)) void
multiply_rows(const int rows, long depth, const float *restrict a, const float *restrict b,
              float *restrict out, long out_row, int add)
{
    lanes sums[TILE][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++)
            sums[r][half] =
                add ? *(const lanes *)(out + r * out_row + half * LANES) : (lanes){0};
    for (long k = 0; k < depth; k++, a += rows, b += PANEL) {
        lanes left = *(const lanes *)b, right = *(const lanes *)(b + LANES);
        __builtin_prefetch(b + AHEAD);
        __builtin_prefetch(b + AHEAD + LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            sums[r][0] += a[r] * left;
            sums[r][1] += a[r] * right;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int half = 0; half < 2; half++)
            *(lanes *)(out + r * out_row + half * LANES) = sums[r][half];
}

static void multiply_tile(long rows, long depth, const float *a, const float *b, float *out,
                          long out_row, int add)
{
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        multiply_rows(n, depth, a, b, out, out_row, add);                                          \
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
#pragma omp parallel if (height * depth * columns > FEW)
            {
#pragma omp for
                for (long t = 0; t < tiles; t++) {
                    long r = tile_start(t, tiles, height), n = tile_start(t + 1, tiles, height) - r;
                    pack_tile(n, depth, a + (first + r) * a_row + top * a_column, a_row, a_column,
                              left + r * depth);
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

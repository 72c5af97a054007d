/* Matrix products: out = a b, or start + a b; start may be out, or one row for all if its rows are
   0 apart. The rows or the columns of a and of b follow each other in memory without gaps.

   b comes packed, in panels of columns; a is packed here, in tiles of rows. A tile of the result is
   summed in registers, so that b is read once for all rows of a tile. Every number of the result is
   summed in the same order, whatever rows stand beside it. Threads, as many as torch has, share the
   panels.

   If b is packed as bfloat16, a is too: two neighbours along the inner dimension are rounded to the
   upper 16 bits of their 32 and share a word. Where a processor multiplies such pairs at once, that
   is twice as fast, and several times as fast where it has tiles for them (amx.h); sums have 32 bits
   all the same. */

/* Whether this library multiplies bfloat16 by instructions of its own. */
#ifdef __AVX512BF16__
#include <immintrin.h>
const long has_bf16 = 1;
#else
const long has_bf16 = 0;
#endif

#ifdef __AVX512F__
#define LANES 16
#define TILE 12
#else
#define LANES 8
#define TILE 6
#endif
#define PANEL (2 * LANES) /* columns */
#define DEPTH 512         /* words of a column of b that are packed together: they stay in a cache */
#define BLOCK (20 * TILE) /* rows of a, likewise */
#define AHEAD (16 * PANEL)
#define HEADER LANES /* words before a packed matrix; the first is 1 if it is bfloat16, else 0 */
#define LINE 16      /* words of a cache line */
#ifdef __AMX_BF16__
#define WHOLE 16 /* packed columns of bfloat16 have so many words or a multiple, zero at the end */
#else
#define WHOLE 1
#endif

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

const long workspace_size = BLOCK * DEPTH; /* words that a product needs beside its matrices */

/* Words of a packed column. */
static inline long words_of(long inner, long bf16)
{
    return bf16 ? parts(inner, 2 * WHOLE) * WHOLE : inner;
}

long packed_size(long inner, long columns, long bf16)
{
    return HEADER + words_of(inner, bf16) * parts(columns, PANEL) * PANEL;
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
    for (long first = 0; first < columns; first += LINE)
        for (long r = 0; r < rows; r += 4)
            for (long x = first; x < smaller(first + LINE, columns); x += 4) {
                long row = smaller(r, rows - 4), column = smaller(x, columns - 4);
                __builtin_prefetch(from + (row + (x - first) / 4) * from_row + first + 4 * LINE);
                transpose_four(from + row * from_row + column, from_row,
                               to + column * to_row + row, to_row);
            }
}

/* The upper half of a number, to the nearest. */
static inline uint32_t rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? 0x7fc0u : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

static inline float pair(float first, float second)
{
    uint32_t bits = rounded(first) | rounded(second) << 16;
    float word;
    memcpy(&word, &bits, sizeof word);
    return word;
}

/* words[k][x] = the pair of numbers[x][2k] and numbers[x][2k + 1]; x < width ≤ PANEL. */
static __attribute__((noinline)) void transpose_pairs(long depth, long width,
                                                      const float *restrict numbers, long row,
                                                      float *restrict words, long words_row)
{
    float room[PANEL * DEPTH];
    long pairs = depth / 2, all = parts(depth, 2);
    for (long x = 0; x < width; x++, numbers += row) {
        for (long k = 0; k < pairs; k++)
            room[x * all + k] = pair(numbers[2 * k], numbers[2 * k + 1]);
        if (pairs < all)
            room[x * all + pairs] = pair(numbers[depth - 1], 0.0f);
    }
    transpose(width, all, room, all, words, words_row);
}

/* words[k][x] = numbers[k][x], or the pair of numbers[2k][x] and numbers[2k + 1][x], zero after the
   last; x < width ≤ PANEL; k_step or x_step is 1. Faster if width is known when this is compiled. */
static inline __attribute__((always_inline)) void
take(long depth, long width, const float *restrict numbers, long k_step, long x_step, int bf16,
     float *restrict words, long words_row)
{
    static const float zeros[PANEL];
    if (k_step == 1 && !bf16) {
        transpose(width, depth, numbers, x_step, words, words_row);
    } else if (k_step == 1) {
        transpose_pairs(depth, width, numbers, x_step, words, words_row);
    } else {
        for (long k = 0; k < depth; k += 1 + bf16, words += words_row) {
            const float *from = numbers + k * k_step;
            const float *after = k + 1 < depth ? from + k_step : zeros;
            __builtin_prefetch(from + 6 * LINE); /* wanted soon */
            for (long x = 0; x < width; x++)
                words[x] = bf16 ? pair(from[x], after[x]) : from[x];
        }
    }
}

/* b as [block of rows][panel][row][column], zero after the last column. */
void pack(long inner, long columns, const float *restrict b, long b_row, long b_column, long bf16,
          float *restrict packed)
{
    long panels = parts(columns, PANEL), whole = b_column == 1 ? columns / PANEL : 0;
    long each = 1 + bf16;
    memcpy(packed, &bf16, sizeof bf16);
    packed += HEADER;
    for (long top = 0; top < inner; top += DEPTH * each) {
        long depth = smaller(DEPTH * each, inner - top), words = words_of(depth, bf16);
        long full = parts(depth, each);
        const float *block = b + top * b_row;
        float *room = packed + top / each * panels * PANEL;
        for (long p = 0; full < words && p < panels; p++)
            memset(room + (p * words + full) * PANEL, 0, (words - full) * PANEL * sizeof *room);
#pragma omp parallel if (depth * columns > FEW)
        {
#pragma omp for nowait /* rows that follow each other, a few at a time, as they lie in memory */
            for (long k = 0; k < depth; k += LINE)
                for (long p = 0; p < whole; p++)
                    take(smaller(LINE, depth - k), PANEL, block + k * b_row + p * PANEL, b_row, 1,
                         bf16, room + (p * words + k / each) * PANEL, PANEL);
#pragma omp for
            for (long p = whole; p < panels; p++) {
                float *to = room + p * words * PANEL;
                long width = smaller(PANEL, columns - p * PANEL);
                if (width < PANEL)
                    memset(to, 0, words * PANEL * sizeof *to);
                take(depth, width, block + p * PANEL * b_column, b_row, b_column, bf16, to, PANEL);
            }
        }
    }
}

/* sum + a b, for numbers or pairs of bf16. */
static inline __attribute__((always_inline)) lanes add_product(lanes sum, float a, lanes b,
                                                               int bf16)
{
#ifdef __AVX512BF16__
    if (bf16)
        return (lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_ps(a), (__m512bh)b);
#endif
    (void)bf16; /* other libraries pack none */
    return sum + a * b;
}

/* A tile of a panel; rows and bf16 have to be known when this is compiled. */
static inline __attribute__((always_inline)) void
multiply_rows(const int rows, long depth, const float *restrict a, const float *restrict b,
              const int bf16, const float *start, long start_row, float *out, long out_row)
{
    lanes sums[TILE][2];
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int side = 0; side < 2; side++) {
            sums[r][side] = (lanes){0};
            __builtin_prefetch(out + r * out_row + side * LANES, 1);
        }
    for (long k = 0; k < depth; k++, a += rows, b += PANEL) {
        lanes left = *(const lanes *)b, right = *(const lanes *)(b + LANES);
        __builtin_prefetch(b + AHEAD);
        __builtin_prefetch(b + AHEAD + LANES);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            sums[r][0] = add_product(sums[r][0], a[r], left, bf16);
            sums[r][1] = add_product(sums[r][1], a[r], right, bf16);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
        for (int side = 0; side < 2; side++) {
            if (start)
                sums[r][side] += *(const lanes *)(start + r * start_row + side * LANES);
            *(lanes *)(out + r * out_row + side * LANES) = sums[r][side];
        }
}

static void multiply_tile(long rows, long depth, const float *a, const float *b, int bf16,
                          const float *start, long start_row, float *out, long out_row)
{
#define ROWS(n)                                                                                    \
    case n:                                                                                        \
        multiply_rows(n, depth, a, b, 0, start, start_row, out, out_row);                          \
        break;                                                                                     \
    case -n:                                                                                       \
        multiply_rows(n, depth, a, b, 1, start, start_row, out, out_row);                          \
        break;
    switch (bf16 ? -rows : rows) {
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6)
#if TILE > 6
        ROWS(7) ROWS(8) ROWS(9) ROWS(10) ROWS(11) ROWS(12)
#endif
    }
}

/* The same where the panel has fewer columns than others. */
static void multiply_narrow_tile(long rows, long width, long depth, const float *a, const float *b,
                                 int bf16, const float *start, long start_row, float *out,
                                 long out_row)
{
    float whole[TILE * PANEL] = {0};
    for (long r = 0; start && r < rows; r++)
        memcpy(whole + r * PANEL, start + r * start_row, width * sizeof *out);
    multiply_tile(rows, depth, a, b, bf16, whole, PANEL, whole, PANEL);
    for (long r = 0; r < rows; r++)
        memcpy(out + r * out_row, whole + r * PANEL, width * sizeof *out);
}

#ifdef __AMX_BF16__
#include "amx.h"
#endif

/* left: at least workspace_size words. */
void multiply(long rows, long inner, long columns, const float *restrict a, long a_row,
              long a_column, const float *restrict b, const float *start, long start_row, float *out,
              long out_row, float *restrict left)
{
    long panels = parts(columns, PANEL), bf16;
    memcpy(&bf16, b, sizeof bf16);
    b += HEADER;
    for (long r = 0; !inner && r < rows; r++)
        for (long x = 0; x < columns; x++)
            out[r * out_row + x] = start ? start[r * start_row + x] : 0.0f;
#ifdef __AMX_BF16__
    if (bf16) {
        multiply_in_tiles(rows, inner, columns, a, a_row, a_column, b, start, start_row, out,
                          out_row, left);
        return;
    }
#endif
    long each = 1 + bf16, strip = a_row == 1 ? LINE : DEPTH * each; /* of a, as it lies in memory */
    for (long top = 0; top < inner; top += DEPTH * each, start = out, start_row = out_row) {
        long depth = smaller(DEPTH * each, inner - top), words = parts(depth, each);
        for (long first = 0; first < rows; first += BLOCK) {
            long height = smaller(BLOCK, rows - first), tiles = parts(height, TILE);
#pragma omp parallel if (height * depth * columns > FEW)
            {
#pragma omp for collapse(2)
                for (long k = 0; k < depth; k += strip)
                    for (long t = 0; t < tiles; t++) {
                        long r = tile_start(t, tiles, height), n = tile_start(t + 1, tiles, height) - r;
                        const float *from = a + (first + r) * a_row + (top + k) * a_column;
                        float *to = left + r * words + k / each * n; /* as [column][row] */
                        if (n == TILE)
                            take(smaller(strip, depth - k), TILE, from, a_column, a_row, bf16, to, TILE);
                        else
                            take(smaller(strip, depth - k), n, from, a_column, a_row, bf16, to, n);
                    }
#pragma omp for
                for (long p = 0; p < panels; p++) {
                    const float *panel = b + (top / each * panels + p * words) * PANEL;
                    long width = smaller(PANEL, columns - p * PANEL);
                    for (long t = 0; t < tiles; t++) {
                        long r = tile_start(t, tiles, height), n = tile_start(t + 1, tiles, height) - r;
                        float *to = out + (first + r) * out_row + p * PANEL;
                        const float *from = start ? start + (first + r) * start_row + p * PANEL : 0;
                        if (width == PANEL)
                            multiply_tile(n, words, left + r * words, panel, bf16, from, start_row,
                                          to, out_row);
                        else
                            multiply_narrow_tile(n, width, words, left + r * words, panel, bf16,
                                                 from, start_row, to, out_row);
                    }
                }
            }
        }
    }
}

/* Matrix products of bfloat16 by the tiles of AMX: registers of 16 rows of 16 words, where one
   instruction multiplies a tile of pairs by another and adds the result to a tile of sums. a comes
   in the layout that multiply() gets, b as pack() leaves it. Four tiles hold 32 × 32 sums. */

#define SIDE 16                       /* rows of a tile, and words of a row */
#define HEIGHT (2 * SIDE)             /* rows of a product; its columns are those of a panel */
#define PIECE (DEPTH / 2)             /* words of a panel that stay in the first cache */
#define TOGETHER (2 * BLOCK / HEIGHT) /* products of 32 rows that share the workspace */

/* For this thread, until the tiles are released: all eight tiles are whole ones. */
static void begin_tiles(void)
{
    struct {
        uint8_t palette, start_row, zeros[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) {
        tiles.row_bytes[tile] = 4 * SIDE;
        tiles.rows[tile] = SIDE;
    }
    _tile_loadconfig(&tiles);
}

/* Up to 32 rows of a as [16 words][row][word]: zero after the last number of a row, and anything
   after the last row, whose sums nobody reads. k_step or row_step is 1. */
static void take_rows(long depth, long rows, const float *restrict a, long k_step, long row_step,
                      float *restrict to)
{
    for (long k = 0; k < depth; k += 2 * SIDE, a += 2 * SIDE * k_step, to += SIDE * HEIGHT) {
        long here = smaller(2 * SIDE, depth - k);
        if (k_step == 1) {
            uint32_t numbers = (uint32_t)((1ull << here) - 1);
            for (long r = 0; r < rows; r++) {
                const float *row = a + r * row_step;
                __m512 first = _mm512_maskz_loadu_ps((__mmask16)numbers, row);
                __m512 second = _mm512_maskz_loadu_ps((__mmask16)(numbers >> SIDE), row + SIDE);
                _mm512_storeu_ps(to + r * SIDE, (__m512)_mm512_cvtne2ps_pbh(second, first));
            }
        } else {
            float words[SIDE * HEIGHT]; /* [word][row] */
            if (here < 2 * SIDE)
                memset(words, 0, sizeof words);
            if (rows == HEIGHT)
                take(here, HEIGHT, a, k_step, 1, 1, words, HEIGHT);
            else
                take(here, rows, a, k_step, 1, 1, words, HEIGHT);
            transpose(SIDE, rows, words, HEIGHT, to, SIDE);
        }
    }
}

/* 32 rows of sums of a panel, or the upper 16 of them. */
static void multiply_tiles(int lower, long words, const float *restrict a, const float *restrict b,
                           const float *start, long start_row, float *out, long out_row)
{
    const long wide = 4 * PANEL, narrow = 4 * SIDE, from = 4 * start_row, to = 4 * out_row;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (start) {
        _tile_loadd(0, start, from);
        _tile_loadd(1, start + SIDE, from);
        if (lower) {
            _tile_loadd(2, start + SIDE * start_row, from);
            _tile_loadd(3, start + SIDE * start_row + SIDE, from);
        }
    }
    for (long k = 0; k < words; k += SIDE, a += SIDE * HEIGHT, b += SIDE * PANEL) {
        _tile_loadd(4, a, narrow);
        _tile_loadd(6, b, wide);
        _tile_loadd(7, b + SIDE, wide);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (lower) {
            _tile_loadd(5, a + SIDE * SIDE, narrow);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, out, to);
    _tile_stored(1, out + SIDE, to);
    if (lower) {
        _tile_stored(2, out + SIDE * out_row, to);
        _tile_stored(3, out + SIDE * out_row + SIDE, to);
    }
}

/* The same for any number of rows up to 32 and of columns up to those of a panel. */
static void multiply_part(long rows, long width, long words, const float *a, const float *b,
                          const float *start, long start_row, float *out, long out_row)
{
    int lower = rows > SIDE;
    if (width == PANEL && rows % SIDE == 0) {
        multiply_tiles(lower, words, a, b, start, start_row, out, out_row);
        return;
    }
    float whole[HEIGHT * PANEL];
    for (long r = 0; start && r < rows; r++)
        memcpy(whole + r * PANEL, start + r * start_row, width * sizeof *out);
    multiply_tiles(lower, words, a, b, start ? whole : 0, PANEL, whole, PANEL);
    for (long r = 0; r < rows; r++)
        memcpy(out + r * out_row, whole + r * PANEL, width * sizeof *out);
}

/* multiply() for pairs of bfloat16; inner is not 0. */
static void multiply_in_tiles(long rows, long inner, long columns, const float *restrict a,
                              long a_row, long a_column, const float *restrict b,
                              const float *start, long start_row, float *out, long out_row,
                              float *restrict left)
{
    long panels = parts(columns, PANEL);
    for (long top = 0; top < inner; top += 2 * PIECE, start = out, start_row = out_row) {
        long depth = smaller(2 * PIECE, inner - top), words = words_of(depth, 1);
        long block = top / (2 * DEPTH) * DEPTH, above = top / 2 - block;
        long packed = words_of(smaller(2 * DEPTH, inner - 2 * block), 1); /* words of its panels */
        for (long first = 0; first < rows; first += TOGETHER * HEIGHT) {
            long height = smaller(TOGETHER * HEIGHT, rows - first), tiles = parts(height, HEIGHT);
#pragma omp parallel if (height * depth * columns > FEW)
            {
                begin_tiles();
#pragma omp for
                for (long t = 0; t < tiles; t++)
                    take_rows(depth, smaller(HEIGHT, height - t * HEIGHT),
                              a + (first + t * HEIGHT) * a_row + top * a_column, a_column, a_row,
                              left + t * HEIGHT * words);
#pragma omp for
                for (long p = 0; p < panels; p++)
                    for (long t = 0; t < tiles; t++) {
                        long r = first + t * HEIGHT;
                        multiply_part(smaller(HEIGHT, rows - r), smaller(PANEL, columns - p * PANEL),
                                      words, left + t * HEIGHT * words,
                                      b + (block * panels + p * packed + above) * PANEL,
                                      start ? start + r * start_row + p * PANEL : 0, start_row,
                                      out + r * out_row + p * PANEL, out_row);
                    }
                _tile_release();
            }
        }
    }
}

#undef HEIGHT

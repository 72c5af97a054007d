/* What loops.c, matrices.c and steps.c have of each other. Matrices are given by the address of
   their first row and, where rows do not follow each other, by the distance between rows in
   numbers. */

#include <stdint.h>

#define FEW 500000 /* multiplications that are not worth the other threads */

void gru_forward(long rows, long hidden, const float *bias, const float *before, const float *given,
                 float *sums, long sums_row, float *new_states, float *after);
void gru_backward(long rows, long hidden, const float *grad, const float *before, const float *sums,
                  long sums_row, const float *new_states, float *kept, float *grads, long grads_row);

/* What a decoder looks at: sentences of as many cells, of which the first are words. */
typedef struct {
    long cells, align, width;
    const int64_t *lengths;
    const float *keys, *values, *score;
} Source;

void attention_forward(long rows, const Source *source, float *query, long query_row,
                       float *alpha, float *context);
void attention_backward(long rows, const Source *source, const float *query, long query_row,
                        const float *alpha, const float *d_context, float *d_keys, float *d_scores,
                        float *d_query, long d_query_row, float *d_alpha);

void multiply(long rows, long inner, long columns, const float *a, long a_row, long a_column,
              const float *b, const float *start, long start_row, float *out, long out_row);

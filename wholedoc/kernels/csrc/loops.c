/* What training computes beside products of matrices, in one walk each.

   Plain loops that a compiler turns into vector instructions: see loops.py, which builds them. The
   same formulas stand in recurrence.py, unroll.py and objective.py as calls of torch. */

#include "loops.h"

#include <math.h>
#include <string.h>

/* e^x = 2^n e^r with |r| ≤ ln 2 / 2, and a polynomial for e^r; never zero, never infinite. */
static inline float exponential(float x)
{
    x = x > 88.0f ? 88.0f : x;
    x = x < -87.0f ? -87.0f : x;
    float n = rintf(x * 1.44269504f);
    float r = fmaf(n, 2.12194440e-4f, fmaf(n, -0.693359375f, x)); /* ln 2 in two parts */
    float p = 1.3888889e-3f;
    p = p * r + 8.3333333e-3f;
    p = p * r + 4.1666667e-2f;
    p = p * r + 1.6666667e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    uint32_t bits = (uint32_t)((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

static inline float sigmoid(float x)
{
    return 1.0f / (1.0f + exponential(-x));
}

/* A step of GRUSteps of recurrence.py: sums holds [g_n g_r g_z], which give way to g_n + b_n, r
   and z. */
void gru_forward(long rows, long hidden, const float *restrict bias, const float *restrict before,
                 const float *restrict given, float *restrict sums, long sums_row,
                 float *restrict new_states, float *restrict after)
{
    for (long t = 0; t < rows; t++) {
        for (long i = 0; i < hidden; i++) {
            float memory = sums[i] + bias[i];
            float reset = sigmoid(given[i] + sums[hidden + i]);
            float update = sigmoid(given[hidden + i] + sums[2 * hidden + i]);
            float new_state = 2.0f * sigmoid(2.0f * (given[2 * hidden + i] + reset * memory)) - 1.0f;
            sums[i] = memory;
            sums[hidden + i] = reset;
            sums[2 * hidden + i] = update;
            new_states[i] = new_state;
            after[i] = new_state + update * (before[i] - new_state);
        }
        before += hidden;
        given += 3 * hidden;
        sums += sums_row;
        new_states += hidden;
        after += hidden;
    }
}

/* A step of GRUReturnSteps: kept gets the gradient of s but for the way through g, grads those of
   g_n, r, z and u_n. */
void gru_backward(long rows, long hidden, const float *restrict grad, const float *restrict before,
                  const float *restrict sums, long sums_row, const float *restrict new_states,
                  float *restrict kept, float *restrict grads, long grads_row)
{
    for (long t = 0; t < rows; t++) {
        for (long i = 0; i < hidden; i++) {
            float reset = sums[hidden + i], update = sums[2 * hidden + i];
            float through = grad[i] * update;
            float d_new = (grad[i] - through) * (1.0f - new_states[i] * new_states[i]);
            kept[i] = through;
            grads[i] = d_new * reset;
            grads[hidden + i] = d_new * sums[i] * reset * (1.0f - reset);
            grads[2 * hidden + i] =
                grad[i] * (before[i] - new_states[i]) * update * (1.0f - update);
            grads[3 * hidden + i] = d_new;
        }
        grad += hidden;
        before += hidden;
        sums += sums_row;
        new_states += hidden;
        kept += grads_row;
        grads += grads_row;
    }
}

/* A step of _Attention of unroll.py: score is -2v, keys hold e^2k, query holds 2q, which gives way
   to e^2q. Of the cells of a sentence, as many as it has words are read and written. */
void attention_forward(long rows, const Source *source, float *restrict queries, long query_row,
                       float *restrict alphas, float *restrict contexts)
{
    const long cells = source->cells, align = source->align, width = source->width;
    const float *restrict score = source->score;
#pragma omp parallel for if (rows * cells * (align + width) > FEW)
    for (long t = 0; t < rows; t++) {
        const float *restrict key = source->keys + t * cells * align;
        const float *restrict value = source->values + t * cells * width;
        const long length = source->lengths[t];
        float *restrict query = queries + t * query_row, *restrict alpha = alphas + t * cells;
        float *restrict context = contexts + t * width;
        float most = -INFINITY, total = 0.0f;
        for (long x = 0; x < align; x++)
            query[x] = exponential(query[x]);
        for (long i = 0; i < length; i++, key += align) {
            float sum = 0.0f;
            for (long x = 0; x < align; x++)
                sum += score[x] / (1.0f + key[x] * query[x]);
            alpha[i] = sum;
            most = sum > most ? sum : most;
        }
        for (long i = 0; i < length; i++) {
            alpha[i] = exponential(alpha[i] - most);
            total += alpha[i];
        }
        memset(context, 0, width * sizeof *context);
        for (long i = 0; i < length; i++, value += width) {
            alpha[i] /= total;
            for (long x = 0; x < width; x++)
                context[x] += alpha[i] * value[x];
        }
    }
}

/* A step of _AttentionReturn: score is 2v, query holds e^2q; d_keys and d_scores, a row for each
   sentence, are added to. */
void attention_backward(long rows, const Source *source, const float *restrict queries,
                        long query_row, const float *restrict alphas,
                        const float *restrict d_contexts, float *restrict d_keys,
                        float *restrict d_scores, float *restrict d_queries, long d_query_row,
                        float *restrict d_alphas)
{
    const long cells = source->cells, align = source->align, width = source->width;
    const float *restrict twice = source->score;
#pragma omp parallel for if (rows * cells * (align + width) > FEW)
    for (long t = 0; t < rows; t++) {
        const float *restrict key = source->keys + t * cells * align;
        const float *restrict value = source->values + t * cells * width;
        const float *restrict query = queries + t * query_row, *restrict alpha = alphas + t * cells;
        const float *restrict d_context = d_contexts + t * width;
        const long length = source->lengths[t];
        float *restrict d_key = d_keys + t * cells * align, *restrict d_score = d_scores + t * align;
        float *restrict d_query = d_queries + t * d_query_row;
        float *restrict d_alpha = d_alphas + t * cells;
        float mean = 0.0f;
        for (long i = 0; i < length; i++, value += width) {
            float sum = 0.0f;
            for (long x = 0; x < width; x++)
                sum += d_context[x] * value[x];
            d_alpha[i] = sum;
            mean += alpha[i] * sum;
        }
        memset(d_query, 0, align * sizeof *d_query);
        for (long i = 0; i < length; i++, key += align, d_key += align) {
            float d = alpha[i] * (d_alpha[i] - mean);
            for (long x = 0; x < align; x++) {
                float u = 1.0f / (1.0f + key[x] * query[x]);
                float slope = d * (u - u * u);
                d_score[x] -= 2.0f * d * u;
                d_key[x] += slope;
                d_query[x] += slope;
            }
        }
        for (long x = 0; x < align; x++)
            d_query[x] *= twice[x];
    }
}

/* x += y, and the largest x. Numbers are in order if those below zero have all other bits turned;
   unlike that of fractions, compilers find the largest of whole numbers in vectors. */
static inline float add_and_find_largest(long count, float *restrict x, const float *restrict y)
{
    int32_t most = INT32_MIN;
    float largest;
    for (long i = 0; i < count; i++) {
        int32_t bits;
        x[i] += y[i];
        memcpy(&bits, &x[i], sizeof bits);
        bits ^= (bits >> 31) & INT32_MAX;
        most = bits > most ? bits : most;
    }
    most ^= (most >> 31) & INT32_MAX;
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

/* _softmax of training/objective.py: shifts are added to the logits. Where d_shifts is not null,
   they give way to p with target_slope added at the target, and all that is added to d_shifts. */
void softmax(long rows, long words, float *restrict logits, const float *restrict shifts,
             const int64_t *restrict sentences, const int64_t *restrict targets,
             float target_slope, float *restrict d_shifts, float *restrict target_logits,
             float *restrict target_logs)
{
    for (long t = 0; t < rows; t++, logits += words) {
        const float *shift = shifts + sentences[t] * words;
        float most = add_and_find_largest(words, logits, shift), total = 0.0f;
        target_logits[t] = logits[targets[t]];
        for (long x = 0; x < words; x++) {
            logits[x] = exponential(logits[x] - most);
            total += logits[x];
        }
        target_logs[t] = target_logits[t] - most - logf(total);
        if (!d_shifts)
            continue;
        float *d_shift = d_shifts + sentences[t] * words;
        for (long x = 0; x < words; x++) {
            logits[x] /= total;
            d_shift[x] += logits[x];
        }
        logits[targets[t]] += target_slope;
        d_shift[targets[t]] += target_slope;
    }
}

/* A number that looks random, from any other: its bits multiplied and folded, as hashes do. */
static inline uint32_t scramble(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* The mask of dropout.py: zero where a draw from 0 to 2^32 - 1 is below threshold, else scale. */
void draw_mask(long size, long seed, long threshold, float scale, float *restrict mask)
{
    const uint32_t low = (uint32_t)seed, high = (uint32_t)((uint64_t)seed >> 32);
    for (long i = 0; i < size; i++) {
        uint32_t draw = scramble(scramble((uint32_t)i + low) ^ high);
        mask[i] = draw < (uint32_t)threshold ? 0.0f : scale;
    }
}

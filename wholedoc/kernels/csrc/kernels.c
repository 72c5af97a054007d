/* The CPU kernels of wholedoc: GRU recurrences, decoder steps, softmax loss, dropout masks.

   Plain loops that a compiler turns into vector instructions; build.py compiles them when the
   package is installed, native.py loads them. Everything is 32-bit floating point. Matrices are
   given by their first row and, where rows do not follow each other, by the distance between rows
   in numbers. Nothing is allocated here: callers pass all memory, a workspace for matrix products
   included. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#define FEW 500000 /* multiplications that are not worth a second thread */

#include "gemm.h"

/* e^x = 2^n e^r with |r| <= ln 2 / 2, and a polynomial for e^r; never zero, never infinite. */
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

/* The structures have the same fields in native.py. Pointers that only the backward pass needs are
   null in the forward pass; packed weights are those of the pass. */

/* A GRU over packed words: those of the first step, those of the second, ..., each step with as
   many as the step before or fewer. With u = W_x x + b_x and [e g] = W_s s, where e is anything
   else that is made from the state, `extra` numbers wide:
   r = sigmoid(u_r + g_r), z = sigmoid(u_z + g_z), n = tanh(u_n + r (g_n + b_n)),
   s' = (1 - z) n + z s. The biases b_r and b_z are part of u. */
typedef struct {
    long steps, words, hidden, extra;
    const int64_t *counts;             /* words of each step */
    const float *first, *bias, *state; /* s_0; b_n; W_s, packed */
    float *projected;                  /* u = [u_r u_z u_n] */
    float *both;                       /* [e g_n g_r g_z], replaced by [e g_n+b_n r z] */
    float *new_states, *states;        /* n; s' */
    float *grads;                      /* of [s e g_n r z u_n]: u and [e g] have no gaps */
} Recurrence;

/* Source sentences of a batch, padded to `cells` words. */
typedef struct {
    long cells, align, width;
    const int64_t *lengths;
    const float *keys, *values, *score; /* e^2k; h; -2v (forward) or 2v (backward) */
} AttendedCells;

/* All steps of the decoder. grad_states and d_contexts come with the gradients from outside, to
   which those of later steps are added. */
typedef struct {
    AttendedCells source;
    Recurrence lower, upper;
    const float *context, *between; /* packed */
    const float *between_bias;
    const float *context_mask, *lower_mask; /* dropout; may be null */
    float *alphas, *contexts, *dropped_contexts, *dropped_lower;
    float *workspace;
    float *grad_states, *d_contexts, *d_keys, *d_scores;
    float *step; /* room for a step's states, contexts and cells */
} DecoderSteps;

const long structure_sizes[] = {sizeof(Recurrence), sizeof(AttendedCells), sizeof(DecoderSteps)};

const char *source_hash(void)
{
    return SOURCE_HASH;
}

/* One step of a GRU for one word: from u and g to s'. Compilers vectorise these two only if pointers
   that do not overlap come as parameters. */
static __attribute__((noinline)) void
gates_forward(long hidden, const float *restrict bias, const float *restrict before,
              const float *restrict given, float *restrict sums, float *restrict new_states,
              float *restrict after)
{
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
}

/* d_un = ds' (1 - z)(1 - n^2), d_gn = d_un r, d_r = d_un (g_n + b_n) r (1 - r),
   d_z = ds' (s - n) z (1 - z), d_s = ds' z, to which the part through g is added later. */
static __attribute__((noinline)) void
gates_backward(long hidden, const float *restrict grad, const float *restrict before,
               const float *restrict sums, const float *restrict new_states, float *restrict kept,
               float *restrict grads)
{
    for (long i = 0; i < hidden; i++) {
        float reset = sums[hidden + i], update = sums[2 * hidden + i];
        float through = grad[i] * update;
        float d_new = (grad[i] - through) * (1.0f - new_states[i] * new_states[i]);
        kept[i] = through;
        grads[i] = d_new * reset;
        grads[hidden + i] = d_new * sums[i] * reset * (1.0f - reset);
        grads[2 * hidden + i] = grad[i] * (before[i] - new_states[i]) * update * (1.0f - update);
        grads[3 * hidden + i] = d_new;
    }
}

/* Additive attention. With u = 1 / (1 + e^2k e^2q), tanh(k + q) = 1 - 2u; as softmax does not see
   what is the same for all words, -2 v.u stands for v.tanh(k + q). The queries hold 2q, replaced by
   e^2q. Padding is neither read nor written. */
static void attention_forward(long rows, const AttendedCells *source, float *restrict queries,
                              long query_row, float *restrict alphas, float *restrict contexts)
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

/* d_score/d_k = d_score/d_q = v (1 - tanh^2) = 4v (u - u^2), half of that for 2q, and
   d_score/d_v = 1 - 2u, whose 1 is left out: gradients of scores sum to zero over the words.
   d_keys (without the factor 4v) and d_scores, a row for each sentence, are added to. */
static void attention_backward(long rows, const AttendedCells *source, const float *restrict queries,
                               long query_row, const float *restrict alphas,
                               const float *restrict d_contexts, float *restrict d_keys,
                               float *restrict d_scores, float *restrict d_queries,
                               long d_query_row, float *restrict d_alphas)
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

/* s_{j-1}; earlier is where the words of step j-1 begin. */
static inline const float *state_before(const Recurrence *gru, long j, long earlier)
{
    return j ? gru->states + earlier * gru->hidden : gru->first;
}

/* [e g] = W_s s for the words of a step. */
static void recur_forward(const Recurrence *gru, const float *state, long rows, long word,
                          float *workspace)
{
    long row = gru->extra + 3 * gru->hidden;
    multiply(rows, gru->hidden, row, state, gru->hidden, 1, gru->state, 0, 0,
             gru->both + word * row, row, workspace);
}

/* The gradient of s_{j-1} through e and g, added to the other part. */
static void recur_backward(const Recurrence *gru, long rows, long word, float *workspace)
{
    long row = gru->extra + 5 * gru->hidden;
    float *kept = gru->grads + word * row;
    multiply(rows, gru->extra + 3 * gru->hidden, gru->hidden, kept + gru->hidden, row, 1,
             gru->state, kept, row, kept, row, workspace);
}

static void cell_forward(const Recurrence *gru, const float *state, long rows, long word)
{
    const long hidden = gru->hidden, row = gru->extra + 3 * hidden;
    for (long w = word; w < word + rows; w++, state += hidden)
        gates_forward(hidden, gru->bias, state, gru->projected + w * 3 * hidden,
                      gru->both + w * row + gru->extra, gru->new_states + w * hidden,
                      gru->states + w * hidden);
}

static void cell_backward(const Recurrence *gru, const float *grad, const float *state, long rows,
                          long word)
{
    const long hidden = gru->hidden, extra = gru->extra;
    for (long w = word; w < word + rows; w++, state += hidden, grad += hidden) {
        float *kept = gru->grads + w * (extra + 5 * hidden);
        gates_backward(hidden, grad, state, gru->both + w * (extra + 3 * hidden) + extra,
                       gru->new_states + w * hidden, kept, kept + hidden + extra);
    }
}

static void add(long rows, long columns, float *restrict to, const float *restrict from,
                long from_row, long to_row)
{
    for (long t = 0; t < rows; t++)
        for (long x = 0; x < columns; x++)
            to[t * to_row + x] += from[t * from_row + x];
}

/* to = from * mask + more, where there are any. */
static void apply_mask(long size, float *to, const float *from, const float *mask, const float *more)
{
    for (long i = 0; i < size; i++)
        to[i] = from[i] * (mask ? mask[i] : 1.0f) + (more ? more[i] : 0.0f);
}

void gru_forward(const Recurrence *gru, float *workspace)
{
    const int64_t *counts = gru->counts;
    for (long j = 0, earlier = 0, word = 0; j < gru->steps; earlier = word, word += counts[j++]) {
        const float *state = state_before(gru, j, earlier);
        recur_forward(gru, state, counts[j], word, workspace);
        cell_forward(gru, state, counts[j], word);
    }
}

/* grad, the gradient of all states, is added to. */
void gru_backward(const Recurrence *gru, float *grad, float *workspace)
{
    const int64_t *counts = gru->counts;
    long hidden = gru->hidden, row = gru->extra + 5 * hidden, word = gru->words;
    for (long j = gru->steps - 1; j >= 0; j--) {
        long later = word;
        word -= counts[j];
        long earlier = j ? word - counts[j - 1] : 0;
        if (j + 1 < gru->steps)
            add(counts[j + 1], hidden, grad + word * hidden, gru->grads + later * row, row, hidden);
        cell_backward(gru, grad + word * hidden, state_before(gru, j, earlier), counts[j], word);
        recur_backward(gru, counts[j], word, workspace);
    }
}

void decoder_forward(const DecoderSteps *d)
{
    const Recurrence *lower = &d->lower, *upper = &d->upper;
    const long hidden = lower->hidden, gates = 3 * hidden, width = d->source.width;
    const long row = lower->extra + gates;
    const int64_t *counts = lower->counts;
    for (long j = 0, earlier = 0, word = 0; j < lower->steps; earlier = word, word += counts[j++]) {
        const long rows = counts[j];
        const float *lower_state = state_before(lower, j, earlier);
        const float *upper_state = state_before(upper, j, earlier);
        float *query = lower->both + word * row, *given = lower->projected + word * gates;
        float *context = d->contexts + word * width, *dropped = d->dropped_contexts + word * width;
        float *state = lower->states + word * hidden, *input = d->dropped_lower + word * hidden;
        recur_forward(lower, lower_state, rows, word, d->workspace);
        recur_forward(upper, upper_state, rows, word, d->workspace);
        add(rows, lower->extra, query, upper->both + word * row, row, row);
        attention_forward(rows, &d->source, query, row, d->alphas + word * d->source.cells, context);
        if (d->context_mask)
            apply_mask(rows * width, dropped, context, d->context_mask + word * width, 0);
        multiply(rows, width, gates, dropped, width, 1, d->context, given, gates, given, gates,
                 d->workspace);
        cell_forward(lower, lower_state, rows, word);
        if (d->lower_mask)
            apply_mask(rows * hidden, input, state, d->lower_mask + word * hidden, 0);
        multiply(rows, hidden, gates, input, hidden, 1, d->between, d->between_bias, 0,
                 upper->projected + word * gates, gates, d->workspace);
        cell_forward(upper, upper_state, rows, word);
    }
}

void decoder_backward(const DecoderSteps *d)
{
    const Recurrence *lower = &d->lower, *upper = &d->upper;
    const AttendedCells *source = &d->source;
    const int64_t *counts = lower->counts;
    const long hidden = lower->hidden, gates = 3 * hidden, width = source->width;
    const long row = lower->extra + 5 * hidden, both_row = lower->extra + gates;
    float *d_input = d->step, *d_context = d_input + counts[0] * hidden;
    float *d_alpha = d_context + counts[0] * width;
    long word = lower->words;
    for (long j = lower->steps - 1; j >= 0; j--) {
        long rows = counts[j], later = word, more = j + 1 < lower->steps ? counts[j + 1] : 0;
        word -= rows;
        long earlier = j ? word - counts[j - 1] : 0;
        float *lower_grads = lower->grads + word * row, *d_query = lower_grads + hidden;
        float *upper_grads = upper->grads + word * row;
        float *grad_state = d->grad_states + word * hidden;
        float *contexts = d->d_contexts + word * width;
        add(more, hidden, grad_state, upper->grads + later * row, row, hidden);
        cell_backward(upper, grad_state, state_before(upper, j, earlier), rows, word);
        multiply(rows, gates, hidden, upper_grads + row - gates, row, 1, d->between, 0, 0, d_input,
                 hidden, d->workspace);
        if (d->lower_mask)
            apply_mask(rows * hidden, d_input, d_input, d->lower_mask + word * hidden, 0);
        add(more, hidden, d_input, lower->grads + later * row, row, hidden);
        cell_backward(lower, d_input, state_before(lower, j, earlier), rows, word);
        multiply(rows, gates, width, lower_grads + row - gates, row, 1, d->context, 0, 0, d_context,
                 width, d->workspace);
        apply_mask(rows * width, contexts, d_context,
                   d->context_mask ? d->context_mask + word * width : 0, contexts);
        attention_backward(rows, source, lower->both + word * both_row, both_row,
                           d->alphas + word * source->cells, contexts, d->d_keys, d->d_scores,
                           d_query, row, d_alpha);
        for (long t = 0; t < rows; t++)
            memcpy(upper_grads + hidden + t * row, d_query + t * row, lower->extra * sizeof *d_query);
        recur_backward(lower, rows, word, d->workspace);
        recur_backward(upper, rows, word, d->workspace);
    }
}

/* x += y, and the largest x. Floats compare like integers once the other bits of those below zero
   are flipped; compilers vectorise the maximum of integers only. */
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

/* The softmax of logits + shifts, of which each row has that of its sentence: the logit and log p of
   the target. Where d_shifts is not null, logits are replaced by p with target_slope added at the
   target, and all that is added to d_shifts. */
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

/* A 32-bit integer hash. */
static inline uint32_t scramble(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* Zero where the hash of place and seed is below threshold, else scale. */
void dropout_mask(long size, long seed, long threshold, float scale, float *restrict mask)
{
    const uint32_t low = (uint32_t)seed, high = (uint32_t)((uint64_t)seed >> 32);
    for (long i = 0; i < size; i++) {
        uint32_t draw = scramble(scramble((uint32_t)i + low) ^ high);
        mask[i] = draw < (uint32_t)threshold ? 0.0f : scale;
    }
}

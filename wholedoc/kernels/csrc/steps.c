/* All steps of a recurrence, there and back: see recurrence.py and unroll.py, which hold the same
   loops as calls of torch. Words are packed: those of the first step, those of the second, …, each
   step with as many as counts has or fewer than the step before. */

#include "loops.h"

#include <string.h>
#include <time.h>

/* Where the seconds spent on products, gates, attention and everything else are added up, if anyone
   wants to know; for one thread. */
enum { PRODUCTS, GATES, ATTENTION, REST };
static double *seconds, now;

void time_steps(double *parts)
{
    seconds = parts;
}

static void count(int part)
{
    struct timespec clock;
    double before = now;
    if (!seconds)
        return;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &clock);
    now = clock.tv_sec + 1e-9 * clock.tv_nsec;
    if (part >= 0)
        seconds[part] += now - before;
}

/* GRUTape of recurrence.py: of all words, projected has u, both e and g, states s. */
typedef struct {
    long hidden, extra;
    const float *first, *bias, *state; /* state is packed */
    float *projected, *both, *new_states, *states;
} Tape;

/* GRUReturn: grads has the gradients of s, e, g_n, r, z and u_n of all words. */
typedef struct {
    const float *state; /* packed */
    float *grads;
} Return;

static inline long both_row(const Tape *tape)
{
    return tape->extra + 3 * tape->hidden;
}

static inline long grads_row(const Tape *tape)
{
    return tape->extra + 5 * tape->hidden;
}

/* s_{j-1}, given the words of all steps before the step before. */
static inline const float *before(const Tape *tape, long j, long words)
{
    return j ? tape->states + words * tape->hidden : tape->first;
}

/* e and g of a step that begins at word. */
static void look_back(const Tape *tape, const float *state, long rows, long word)
{
    long row = both_row(tape);
    multiply(rows, tape->hidden, row, state, tape->hidden, 1, tape->state, 0, 0,
             tape->both + word * row, row);
}

static void gates_forward(const Tape *tape, const float *state, long rows, long word)
{
    long hidden = tape->hidden, row = both_row(tape);
    gru_forward(rows, hidden, tape->bias, state, tape->projected + word * 3 * hidden,
                tape->both + word * row + tape->extra, row, tape->new_states + word * hidden,
                tape->states + word * hidden);
}

static void gates_backward(const Tape *tape, const Return *way, const float *grad,
                           const float *state, long rows, long word)
{
    long hidden = tape->hidden, row = both_row(tape);
    float *kept = way->grads + word * grads_row(tape);
    gru_backward(rows, hidden, grad, state, tape->both + word * row + tape->extra, row,
                 tape->new_states + word * hidden, kept, kept + hidden + tape->extra,
                 grads_row(tape));
}

/* The whole gradient of s_{j-1}, from those of e and g. */
static void look_ahead(const Tape *tape, const Return *way, long rows, long word)
{
    long row = grads_row(tape);
    float *kept = way->grads + word * row;
    multiply(rows, both_row(tape), tape->hidden, kept + tape->hidden, row, 1, way->state, kept, row,
             kept, row);
}

static void add(long rows, long columns, float *restrict to, long to_row, const float *restrict from,
                long from_row)
{
    for (long t = 0; t < rows; t++)
        for (long x = 0; x < columns; x++)
            to[t * to_row + x] += from[t * from_row + x];
}

/* to = from ⊙ mask + more, where there are any. */
static void mask(long size, float *to, const float *from, const float *mask, const float *more)
{
    for (long i = 0; i < size; i++)
        to[i] = from[i] * (mask ? mask[i] : 1.0f) + (more ? more[i] : 0.0f);
}

void gru_steps_forward(long steps, const int64_t *counts, const Tape *tape)
{
    long earlier = 0, word = 0;
    count(-1);
    for (long j = 0; j < steps; earlier = word, word += counts[j++]) {
        const float *state = before(tape, j, earlier);
        look_back(tape, state, counts[j], word);
        count(PRODUCTS);
        gates_forward(tape, state, counts[j], word);
        count(GATES);
    }
}

/* grad, the gradient of all states, is added to. */
void gru_steps_backward(long steps, const int64_t *counts, const Tape *tape, const Return *way,
                        float *grad)
{
    long hidden = tape->hidden, row = grads_row(tape), word = 0;
    for (long j = 0; j < steps; j++)
        word += counts[j];
    count(-1);
    for (long j = steps - 1; j >= 0; j--) {
        if (j + 1 < steps)
            add(counts[j + 1], hidden, grad + (word - counts[j]) * hidden, hidden,
                way->grads + word * row, row);
        word -= counts[j];
        count(REST);
        gates_backward(tape, way, grad + word * hidden,
                       before(tape, j, j ? word - counts[j - 1] : 0), counts[j], word);
        count(GATES);
        look_ahead(tape, way, counts[j], word);
        count(PRODUCTS);
    }
}

/* _Unroll of unroll.py. */
typedef struct {
    long steps;
    const int64_t *counts;
    Source source;
    Tape lower, upper;
    const float *context, *between; /* packed */
    const float *between_bias;      /* of the way there */
    const float *context_mask, *lower_mask;
    float *alphas, *contexts, *seen_contexts, *seen_lower;
} Unroll;

void unroll_forward(const Unroll *u)
{
    const Tape *lower = &u->lower, *upper = &u->upper;
    long hidden = lower->hidden, gates = 3 * hidden, width = u->source.width;
    long earlier = 0, word = 0, row = both_row(lower);
    count(-1);
    for (long j = 0; j < u->steps; earlier = word, word += u->counts[j++]) {
        long rows = u->counts[j];
        const float *lower_state = before(lower, j, earlier), *upper_state = before(upper, j, earlier);
        float *query = lower->both + word * row, *context = u->contexts + word * width;
        look_back(lower, lower_state, rows, word);
        look_back(upper, upper_state, rows, word);
        count(PRODUCTS);
        add(rows, lower->extra, query, row, upper->both + word * row, row);
        attention_forward(rows, &u->source, query, row, u->alphas + word * u->source.cells, context);
        count(ATTENTION);
        if (u->context_mask)
            mask(rows * width, u->seen_contexts + word * width, context,
                 u->context_mask + word * width, 0);
        count(REST);
        multiply(rows, width, gates, u->seen_contexts + word * width, width, 1, u->context,
                 lower->projected + word * gates, gates, lower->projected + word * gates, gates);
        count(PRODUCTS);
        gates_forward(lower, lower_state, rows, word);
        count(GATES);
        if (u->lower_mask)
            mask(rows * hidden, u->seen_lower + word * hidden, lower->states + word * hidden,
                 u->lower_mask + word * hidden, 0);
        count(REST);
        multiply(rows, hidden, gates, u->seen_lower + word * hidden, hidden, 1, u->between,
                 u->between_bias, 0, upper->projected + word * gates, gates);
        count(PRODUCTS);
        gates_forward(upper, upper_state, rows, word);
        count(GATES);
    }
}

/* Its way back. grad_states is added to; d_contexts has the gradients of the contexts that come from
   elsewhere, to which those through the lower layer are added. */
typedef struct {
    Return lower, upper;
    const float *context, *between; /* packed */
    float *grad_states, *d_contexts, *d_keys, *d_scores;
    float *room; /* for a step's states, contexts and cells */
} UnrollReturn;

void unroll_backward(const Unroll *u, const UnrollReturn *way)
{
    const Tape *lower = &u->lower, *upper = &u->upper;
    const Source *source = &u->source;
    long hidden = lower->hidden, gates = 3 * hidden, width = source->width, word = 0;
    long row = grads_row(lower);
    float *d_seen = way->room, *d_context = d_seen + u->counts[0] * hidden;
    float *d_alpha = d_context + u->counts[0] * width;
    for (long j = 0; j < u->steps; j++)
        word += u->counts[j];
    count(-1);
    for (long j = u->steps - 1; j >= 0; j--) {
        long rows = u->counts[j], later = word, more = j + 1 < u->steps ? u->counts[j + 1] : 0;
        word -= rows;
        long earlier = j ? word - u->counts[j - 1] : 0;
        float *lower_grads = way->lower.grads + word * row, *d_query = lower_grads + hidden;
        float *upper_grads = way->upper.grads + word * row;
        float *grad_state = way->grad_states + word * hidden;
        float *contexts = way->d_contexts + word * width;
        add(more, hidden, grad_state, hidden, way->upper.grads + later * row, row);
        count(REST);
        gates_backward(upper, &way->upper, grad_state, before(upper, j, earlier), rows, word);
        count(GATES);
        multiply(rows, gates, hidden, upper_grads + row - gates, row, 1, way->between, 0, 0, d_seen,
                 hidden);
        count(PRODUCTS);
        if (u->lower_mask)
            mask(rows * hidden, d_seen, d_seen, u->lower_mask + word * hidden, 0);
        add(more, hidden, d_seen, hidden, way->lower.grads + later * row, row);
        count(REST);
        gates_backward(lower, &way->lower, d_seen, before(lower, j, earlier), rows, word);
        count(GATES);
        multiply(rows, gates, width, lower_grads + row - gates, row, 1, way->context, 0, 0,
                 d_context, width);
        count(PRODUCTS);
        mask(rows * width, contexts, d_context,
             u->context_mask ? u->context_mask + word * width : 0, contexts);
        count(REST);
        attention_backward(rows, source, lower->both + word * both_row(lower), both_row(lower),
                           u->alphas + word * source->cells, contexts, way->d_keys, way->d_scores,
                           d_query, row, d_alpha);
        for (long t = 0; t < rows; t++)
            memcpy(upper_grads + hidden + t * row, d_query + t * row, lower->extra * sizeof *d_query);
        count(ATTENTION);
        look_ahead(lower, &way->lower, rows, word);
        look_ahead(upper, &way->upper, rows, word);
        count(PRODUCTS);
    }
}

/* rules.c -- see rules.h. */

#include "rules.h"

#include <assert.h>
#include <string.h>

#define NO_BUCKET UINT16_MAX
#define SLOT_MICROSECONDS INT64_C(10000000)
#define SECOND INT64_C(1000000)
#define FACTOR_ONE 1000u
#define QUANTILE_ONE 10000u
#define ROWS_AHEAD 8u

/* Of the usual gain, in 1/256 of a doubling. */
#define STEP_FIRST 128
#define STEP_STEADY 32
#define STEADY_AFTER 8u
#define LOG_MAX (62 * 256 + 255)

/* ---- Numbers ----------------------------------------------------------------------------- */

static int64_t clipped(uint64_t number)
{
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static int64_t clipped_wide(unsigned __int128 number)
{
    return number > INT64_MAX ? INT64_MAX : (int64_t)number;
}

static int64_t sum(int64_t a, int64_t b)
{
    int64_t result;
    if (__builtin_add_overflow(a, b, &result))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return result;
}

static int64_t product(int64_t a, int64_t b)
{
    int64_t result;
    if (__builtin_mul_overflow(a, b, &result))
        return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    return result;
}

/* a - b where that is above 0, else 0. */
static int64_t excess(int64_t a, int64_t b)
{
    return a > b ? clipped((uint64_t)a - (uint64_t)b) : 0;
}

/* 2^(1/2), 2^(1/4) ... 2^(1/256) as counts of 2^-63, rounded down. */
static const uint64_t ROOTS[8] = {
    UINT64_C(0xB504F333F9DE6484), UINT64_C(0x9837F0518DB8A96F), UINT64_C(0x8B95C1E3EA8BD6E6),
    UINT64_C(0x85AAC367CC487B14), UINT64_C(0x82CD8698AC2BA1D6), UINT64_C(0x8164D1F3BC030772),
    UINT64_C(0x80B1ED4FD999AB6B), UINT64_C(0x8058D7D2D5E5F6B0),
};

static uint64_t times_root(uint64_t number, unsigned root)
{
    return (uint64_t)(((unsigned __int128)number * ROOTS[root]) >> 63);
}

/* 2^(power/256), rounded down; INT64_MAX where it is more. */
static int64_t power_of_two(uint32_t power)
{
    uint64_t number = UINT64_C(1) << 63;
    for (unsigned root = 0; root < 8; root++)
        if (power & (128u >> root))
            number = times_root(number, root);
    return power >> 8 > 62 ? INT64_MAX : (int64_t)(number >> (63 - (power >> 8)));
}

/* The largest power/256 of two that is no more than a number above 0. */
static uint32_t logarithm(int64_t number)
{
    const unsigned zeros = (unsigned)__builtin_clzll((uint64_t)number);
    const uint64_t wanted = (uint64_t)number << zeros;
    uint64_t reached = UINT64_C(1) << 63;
    uint32_t power = (63 - zeros) << 8;
    for (unsigned root = 0; root < 8; root++) {
        const uint64_t next = times_root(reached, root);
        if (next <= wanted) {
            reached = next;
            power |= 128u >> root;
        }
    }
    return power;
}

/* ---- Rows as bytes ----------------------------------------------------------------------- */

typedef struct {
    uint32_t flags;
    int64_t time, value;
    uint64_t gains[RL_SLOTS], counts[RL_SLOTS];
    int32_t usual, step;
    uint32_t seen;
} row_fields;

static uint64_t in_order(uint64_t number)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(number);
#else
    return number;
#endif
}

static uint64_t read_number(const uint8_t **from, uint32_t bytes)
{
    uint64_t number = 0;
    switch (bytes) {
    case 2: memcpy(&number, *from, 2); break;
    case 4: memcpy(&number, *from, 4); break;
    default: memcpy(&number, *from, 8); break;
    }
    *from += bytes;
    return in_order(number);
}

static void write_number(uint8_t **to, uint32_t bytes, uint64_t number)
{
    number = in_order(number);
    switch (bytes) {
    case 2: memcpy(*to, &number, 2); break;
    case 4: memcpy(*to, &number, 4); break;
    default: memcpy(*to, &number, 8); break;
    }
    *to += bytes;
}

static void read_row(const rl_layout *layout, const uint8_t *from, row_fields *row)
{
    const uint32_t fields = layout->fields;
    *row = (row_fields){.flags = *from++};
    if (fields & RL_TIME)
        row->time = (int64_t)read_number(&from, 8);
    if (fields & RL_VALUE)
        row->value = (int64_t)read_number(&from, 8);
    if (fields & RL_GAINS)
        for (int slot = 0; slot < RL_SLOTS; slot++)
            row->gains[slot] = read_number(&from, layout->gain_bytes);
    if (fields & RL_COUNTS)
        for (int slot = 0; slot < RL_SLOTS; slot++)
            row->counts[slot] = read_number(&from, layout->count_bytes);
    if (fields & RL_USUAL) {
        row->usual = (int32_t)read_number(&from, 2);
        row->step = (int16_t)read_number(&from, 2);
        row->seen = (uint32_t)read_number(&from, 2);
    }
}

static void write_row(const rl_layout *layout, uint8_t *to, const row_fields *row)
{
    const uint32_t fields = layout->fields;
    *to++ = (uint8_t)row->flags;
    if (fields & RL_TIME)
        write_number(&to, 8, (uint64_t)row->time);
    if (fields & RL_VALUE)
        write_number(&to, 8, (uint64_t)row->value);
    if (fields & RL_GAINS)
        for (int slot = 0; slot < RL_SLOTS; slot++)
            write_number(&to, layout->gain_bytes, row->gains[slot]);
    if (fields & RL_COUNTS)
        for (int slot = 0; slot < RL_SLOTS; slot++)
            write_number(&to, layout->count_bytes, row->counts[slot]);
    if (fields & RL_USUAL) {
        write_number(&to, 2, (uint64_t)row->usual);
        write_number(&to, 2, (uint16_t)row->step);
        write_number(&to, 2, row->seen);
    }
}

static uint64_t slot_max(uint32_t bytes)
{
    return bytes == 8 ? INT64_MAX : (UINT64_C(1) << (8 * bytes)) - 1;
}

static bool within_bounds(const rl_layout *layout, const uint8_t *bytes)
{
    row_fields row;
    read_row(layout, bytes, &row);
    bool within = row.usual <= LOG_MAX && -LOG_MAX <= row.step && row.step <= LOG_MAX;
    within = within && row.flags < RL_FORGOTTEN && (row.flags & RL_SEEN);
    for (int slot = 0; slot < RL_SLOTS; slot++)
        within = within && row.gains[slot] <= INT64_MAX && row.counts[slot] <= INT64_MAX;
    return within;
}

/* ---- Rows by number ---------------------------------------------------------------------- */

/* Chunk 0 holds rows 0 to 15, chunk c the next 2^(c+3) up to row 65,536; then each holds 65,536.
 * So a row never moves, a small board takes little, and a large one has little to spare. */
#define FIRST_BITS 4u
#define LARGEST_BITS 16u
#define DOUBLING_CHUNKS (LARGEST_BITS - FIRST_BITS + 1)

static uint32_t chunk_of(uint32_t number)
{
    if (number >> LARGEST_BITS != 0)
        return DOUBLING_CHUNKS - 1 + (number >> LARGEST_BITS);
    return 31u - (uint32_t)__builtin_clz(((number >> FIRST_BITS) << 1) | 1);
}

static uint32_t chunk_start(uint32_t chunk)
{
    if (chunk >= DOUBLING_CHUNKS)
        return (chunk - DOUBLING_CHUNKS + 1) << LARGEST_BITS;
    return chunk == 0 ? 0 : UINT32_C(1) << (FIRST_BITS + chunk - 1);
}

static size_t chunk_bytes(const rl_state *state, uint32_t chunk)
{
    const uint32_t bits = chunk >= DOUBLING_CHUNKS ? LARGEST_BITS
                          : FIRST_BITS + (chunk == 0 ? 0 : chunk - 1);
    return (size_t)state->layout.row_bytes << bits;
}

static uint8_t *row_at(const rl_state *state, uint32_t number)
{
    const uint32_t chunk = chunk_of(number);
    return state->chunks[chunk]
           + (size_t)(number - chunk_start(chunk)) * state->layout.row_bytes;
}

static rk_status reserve_chunk_places(rl_state *state)
{
    if (state->chunk_count < state->chunk_room)
        return RK_OK;
    const uint32_t room = state->chunk_room == 0 ? DOUBLING_CHUNKS : 2 * state->chunk_room;
    uint8_t **wider = rk_allocate(room * sizeof *wider);
    if (wider == NULL)
        return RK_NO_MEMORY;
    if (state->chunk_count > 0)
        memcpy(wider, state->chunks, state->chunk_count * sizeof *wider);
    rk_release(state->chunks, state->chunk_room * sizeof *wider);
    state->chunks = wider;
    state->chunk_room = room;
    return RK_OK;
}

/* See to it that every number below `end` has a row; a new one is empty. */
static rk_status reserve_rows(rl_state *state, uint32_t end)
{
    while (end > 0 && chunk_of(end - 1) >= state->chunk_count) {
        const rk_status status = reserve_chunk_places(state);
        const size_t bytes = chunk_bytes(state, state->chunk_count);
        uint8_t *chunk = status == RK_OK ? rk_allocate(bytes) : NULL;
        if (chunk == NULL)
            return RK_NO_MEMORY;
        memset(chunk, 0, bytes);
        state->chunks[state->chunk_count++] = chunk;
    }
    return RK_OK;
}

/* A number that was given out and taken back for want of memory may lie beyond all chunks. */
static bool has_row(const rl_state *state, uint32_t number)
{
    return chunk_of(number) < state->chunk_count;
}

static bool has_rows(const rl_state *state)
{
    return (state->layout.fields & RL_FLAGS) != 0;
}

bool rl_knows(const rl_state *state, uint32_t number)
{
    return has_rows(state) && rk_players_has(&state->players, number)
           && (*row_at(state, number) & RL_SEEN) != 0;
}

const uint8_t *rl_row(const rl_state *state, uint32_t number)
{
    return row_at(state, number);
}

/* ---- Histogram --------------------------------------------------------------------------- */

static uint32_t bucket_of(int64_t score)
{
    return score <= 0 ? 0 : 1 + (logarithm(score) >> 4);
}

static void count_in_bucket(rl_state *state, uint32_t bucket, uint64_t count)
{
    for (uint32_t place = bucket + 1; place <= RL_BUCKET_PLACES; place += place & -place)
        state->histogram[place - 1] += count; /* one less is 2^64 - 1 more */
    state->scores += count;
}

void rl_add_to_bucket(rl_state *state, uint32_t bucket, uint64_t count)
{
    count_in_bucket(state, bucket, count);
}

static uint64_t scores_up_to(const rl_state *state, uint32_t bucket)
{
    uint64_t count = 0;
    for (uint32_t place = bucket + 1; place > 0; place &= place - 1)
        count += state->histogram[place - 1];
    return count;
}

uint64_t rl_bucket(const rl_state *state, uint32_t bucket)
{
    return scores_up_to(state, bucket) - (bucket == 0 ? 0 : scores_up_to(state, bucket - 1));
}

/* The bucket of the k-th score from below, which counts from 1. */
static uint32_t find_bucket(const rl_state *state, uint64_t k)
{
    uint32_t place = 0;
    for (uint32_t step = RL_BUCKET_PLACES / 2; step > 0; step /= 2)
        if (state->histogram[place + step - 1] < k) {
            place += step;
            k -= state->histogram[place - 1];
        }
    return place;
}

/* ---- Life -------------------------------------------------------------------------------- */

rk_status rl_init(rl_state *state, const rl_rule *rules, uint32_t count, rl_score_rule score_rule,
                  bool higher_wins, const rl_layout *layout, uint64_t seed)
{
    assert(count <= RL_RULES_MAX);
    *state = (rl_state){.rule_count = count,
                        .score_rule = score_rule,
                        .higher_wins = higher_wins,
                        .low = INT64_MIN,
                        .high = INT64_MAX,
                        .layout = *layout};
    if (count > 0)
        memcpy(state->rules, rules, count * sizeof *rules);
    rk_players_init(&state->players, seed);
    if (layout->fields & RL_HISTOGRAM) {
        state->histogram = rk_allocate(RL_BUCKET_PLACES * sizeof(uint64_t));
        if (state->histogram == NULL)
            return RK_NO_MEMORY;
        memset(state->histogram, 0, RL_BUCKET_PLACES * sizeof(uint64_t));
    }
    return RK_OK;
}

static size_t entry_bytes(const rl_state *state)
{
    return sizeof(uint32_t) + sizeof(uint16_t) + state->layout.row_bytes;
}

void rl_clear(rl_state *state)
{
    rk_players_clear(&state->players);
    for (uint32_t chunk = 0; chunk < state->chunk_count; chunk++)
        rk_release(state->chunks[chunk], chunk_bytes(state, chunk));
    rk_release(state->chunks, state->chunk_room * sizeof *state->chunks);
    if (state->histogram != NULL)
        rk_release(state->histogram, RL_BUCKET_PLACES * sizeof(uint64_t));
    rk_release(state->journal, state->journal_room * entry_bytes(state));
    rk_release(state->breaches, state->breach_room * sizeof *state->breaches);
    *state = (rl_state){0};
}

size_t rl_bytes(const rl_state *state)
{
    size_t bytes = rk_players_bytes(&state->players) + state->chunk_room * sizeof *state->chunks
                   + state->journal_room * entry_bytes(state)
                   + state->breach_room * sizeof *state->breaches;
    for (uint32_t chunk = 0; chunk < state->chunk_count; chunk++)
        bytes += chunk_bytes(state, chunk);
    return bytes + (state->histogram == NULL ? 0 : RL_BUCKET_PLACES * sizeof(uint64_t));
}

/* ---- Journal ----------------------------------------------------------------------------- */

/* An entry: the player's number, the bucket that its score was counted in, the row as it was. */
static uint8_t *entry_at(const rl_state *state, uint64_t place)
{
    return state->journal + place * entry_bytes(state);
}

static rk_status reserve_journal(rl_state *state, uint64_t more)
{
    const uint64_t needed = state->journal_count + more;
    if (needed <= state->journal_room)
        return RK_OK;
    const uint64_t doubled = 2 * state->journal_room;
    const uint64_t room = needed > doubled ? needed : doubled;
    uint8_t *wider = rk_allocate(room * entry_bytes(state));
    if (wider == NULL)
        return RK_NO_MEMORY;
    if (state->journal_count > 0)
        memcpy(wider, state->journal, state->journal_count * entry_bytes(state));
    rk_release(state->journal, state->journal_room * entry_bytes(state));
    state->journal = wider;
    state->journal_room = room;
    return RK_OK;
}

static void note(rl_state *state, uint32_t number, uint16_t bucket, const uint8_t *row)
{
    uint8_t *entry = entry_at(state, state->journal_count++);
    memcpy(entry, &number, sizeof number);
    memcpy(entry + sizeof number, &bucket, sizeof bucket);
    if (row != NULL)
        memcpy(entry + sizeof number + sizeof bucket, row, state->layout.row_bytes);
}

static void undo(rl_state *state, const uint8_t *entry)
{
    uint32_t number;
    uint16_t bucket;
    memcpy(&number, entry, sizeof number);
    memcpy(&bucket, entry + sizeof number, sizeof bucket);
    if (bucket != NO_BUCKET)
        count_in_bucket(state, bucket, UINT64_MAX);
    if (number == RK_NOBODY)
        return;
    uint8_t *row = row_at(state, number);
    state->known -= (*row & RL_SEEN) != 0;
    memcpy(row, entry + sizeof number + sizeof bucket, state->layout.row_bytes);
    state->known += (*row & RL_SEEN) != 0;
    if (*row == 0)
        (void)rk_players_remove(&state->players, number);
}

static void undo_to(rl_state *state, uint64_t mark)
{
    while (state->journal_count > mark)
        undo(state, entry_at(state, --state->journal_count));
}

#define JOURNAL_BYTES_KEPT ((size_t)1 << 20)

static void empty_journal(rl_state *state)
{
    state->journal_count = 0;
    if (state->journal_room * entry_bytes(state) > JOURNAL_BYTES_KEPT) {
        rk_release(state->journal, state->journal_room * entry_bytes(state));
        state->journal = NULL;
        state->journal_room = 0;
    }
}

static void remove_player(rl_state *state, uint32_t number)
{
    memset(row_at(state, number), 0, state->layout.row_bytes);
    (void)rk_players_remove(&state->players, number);
}

void rl_savepoint(rl_state *state)
{
    rl_release(state);
    state->saving = true;
}

void rl_rollback(rl_state *state)
{
    undo_to(state, 0);
    state->saving = false;
    empty_journal(state);
}

void rl_release(rl_state *state)
{
    for (uint64_t place = 0; place < state->journal_count; place++) {
        uint32_t number;
        memcpy(&number, entry_at(state, place), sizeof number);
        if (number != RK_NOBODY && *row_at(state, number) == RL_FORGOTTEN)
            remove_player(state, number);
    }
    state->saving = false;
    empty_journal(state);
}

rk_status rl_forget(rl_state *state, const char *id, size_t length)
{
    const uint32_t number = has_rows(state) ? rk_players_find(&state->players, id, length)
                                            : RK_NOBODY;
    if (number == RK_NOBODY || !rl_knows(state, number))
        return RK_ABSENT;
    if (!state->saving) {
        remove_player(state, number);
    } else {
        if (reserve_journal(state, 1) != RK_OK)
            return RK_NO_MEMORY;
        uint8_t *row = row_at(state, number);
        note(state, number, NO_BUCKET, row);
        memset(row, 0, state->layout.row_bytes);
        *row = RL_FORGOTTEN;
    }
    state->known--;
    return RK_OK;
}

/* ---- One submission ---------------------------------------------------------------------- */

typedef struct {
    int64_t number; /* the score or delta submitted */
    int64_t result; /* the score that it makes */
    int64_t gain;   /* at least 0 */
    int64_t waited; /* since the submission before; -1: unknown */
    int64_t elapsed;
} observed_fields;

static int64_t slot_of(int64_t time)
{
    return time / SLOT_MICROSECONDS - (time % SLOT_MICROSECONDS < 0);
}

static int ring_of(int64_t slot)
{
    const int place = (int)(slot % RL_SLOTS);
    return place < 0 ? place + RL_SLOTS : place;
}

static void clear_minute(row_fields *row)
{
    memset(row->gains, 0, sizeof row->gains);
    memset(row->counts, 0, sizeof row->counts);
}

static void clear_between(row_fields *row, int64_t from, int64_t to)
{
    if (to - from >= RL_SLOTS)
        clear_minute(row);
    else
        while (from < to) {
            const int place = ring_of(++from);
            row->gains[place] = row->counts[place] = 0;
        }
}

static void add_to_slot(uint64_t *slot, uint64_t amount, uint32_t bytes)
{
    const uint64_t top = slot_max(bytes);
    *slot = amount > top - *slot ? top : *slot + amount;
}

/* Bring the row to the time of a submission and count it; return the time it waited. */
static int64_t arrive(const rl_layout *layout, row_fields *row, int64_t now)
{
    int64_t waited = -1;
    if (layout->fields & RL_TIME) {
        if (!(row->flags & RL_SEEN) || now < row->time) {
            clear_minute(row); /* of a time that goes back no pause can be told */
        } else {
            waited = clipped((uint64_t)now - (uint64_t)row->time);
            clear_between(row, slot_of(row->time), slot_of(now));
        }
        row->time = now;
        if (layout->fields & RL_COUNTS)
            add_to_slot(&row->counts[ring_of(slot_of(now))], 1, layout->count_bytes);
    }
    row->flags = (row->flags & ~RL_FORGOTTEN) | RL_SEEN;
    return waited;
}

static int64_t winning(const rl_state *state, int64_t number)
{
    if (state->higher_wins)
        return number;
    return number == INT64_MIN ? INT64_MAX : -number;
}

static void observe_score(const rl_state *state, const row_fields *row, bool delta,
                          observed_fields *seen)
{
    const bool valued = (row->flags & RL_VALUED) != 0;
    const int64_t number = seen->number;
    seen->result = number;
    seen->gain = 0;
    if (state->score_rule == RL_FIRST)
        return;
    if (delta || state->score_rule == RL_SUM) {
        seen->gain = excess(winning(state, number), 0);
        if (state->score_rule != RL_SUM && valued)
            seen->result = sum(row->value, number);
    } else if (valued) {
        seen->gain = state->higher_wins ? excess(number, row->value) : excess(row->value, number);
    }
}

static bool is_beyond(const rl_state *state, int64_t number, int64_t limit)
{
    return state->higher_wins ? number > limit : number < limit;
}

static int64_t sum_of_minute(const uint64_t *slots)
{
    uint64_t total = 0;
    for (int slot = 0; slot < RL_SLOTS; slot++)
        total = (uint64_t)clipped(total + slots[slot]);
    return (int64_t)total;
}

static int64_t scaled(int64_t number, uint64_t by, uint64_t part)
{
    return clipped_wide((unsigned __int128)(uint64_t)number * by / part);
}

/* The limit of a score beside the field's; false: there is none to tell yet. */
static bool limit_of_field(const rl_state *state, const rl_rule *rule, int64_t *limit)
{
    if (state->scores == 0 || state->scores < rule->after)
        return false;
    const unsigned __int128 share = (unsigned __int128)state->scores * rule->quantile;
    const uint64_t below = (uint64_t)((share + QUANTILE_ONE - 1) / QUANTILE_ONE);
    const uint64_t k = state->higher_wins ? below : state->scores - below + 1;
    const uint32_t bucket = find_bucket(state, k);
    if (bucket == 0)
        return false;
    const uint64_t times = (uint64_t)rule->limit;
    *limit = state->higher_wins ? scaled(power_of_two(bucket << 4), times, FACTOR_ONE)
                                : scaled(power_of_two((bucket - 1) << 4), FACTOR_ONE, times);
    return true;
}

static bool breaks_rate_of_run(const rl_state *state, const observed_fields *seen,
                               rl_breach *breach)
{
    const int64_t score = winning(state, seen->number);
    if (seen->elapsed <= 0 || score <= 0)
        return false;
    const unsigned __int128 amount = (unsigned __int128)(uint64_t)score * SECOND;
    const uint64_t elapsed = (uint64_t)seen->elapsed;
    breach->observed = clipped_wide((amount + elapsed - 1) / elapsed);
    return amount > (unsigned __int128)(uint64_t)breach->limit * elapsed;
}

/* Does a submission break a rule? If so, `breach` tells the number observed and the limit. */
static bool breaks(const rl_state *state, const rl_rule *rule, const row_fields *row,
                   const observed_fields *seen, rl_breach *breach)
{
    breach->limit = rule->limit;
    switch (rule->name) {
    case RL_GAIN_PER_MINUTE:
        breach->observed = sum(sum_of_minute(row->gains), seen->gain);
        return seen->gain > 0 && breach->observed > rule->limit;
    case RL_SUBMISSIONS_PER_MINUTE:
        breach->observed = sum_of_minute(row->counts);
        return breach->observed > rule->limit;
    case RL_SECONDS_BETWEEN:
        breach->observed = seen->waited;
        return seen->waited >= 0 && seen->waited < rule->limit;
    case RL_FIRST_SCORE:
        breach->observed = seen->number;
        return !(row->flags & RL_COUNTED) && is_beyond(state, seen->number, rule->limit);
    case RL_OUTLIER_SELF:
        breach->observed = seen->gain;
        if (seen->gain == 0 || row->seen == 0 || row->seen < rule->after)
            return false;
        breach->limit =
            scaled(power_of_two((uint32_t)row->usual + 1), (uint64_t)rule->limit, FACTOR_ONE);
        return seen->gain > breach->limit;
    case RL_OUTLIER_FIELD:
        breach->observed = seen->result;
        return limit_of_field(state, rule, &breach->limit)
               && is_beyond(state, seen->result, breach->limit);
    case RL_PER_SECOND_OF_RUN:
        return breaks_rate_of_run(state, seen, breach);
    }
    return false;
}

static rk_status add_breach(rl_state *state, const rl_breach *breach)
{
    if (state->breach_count == state->breach_room) {
        const uint64_t room = state->breach_room == 0 ? 16 : 2 * state->breach_room;
        rl_breach *wider = rk_allocate(room * sizeof *wider);
        if (wider == NULL)
            return RK_NO_MEMORY;
        if (state->breach_count > 0)
            memcpy(wider, state->breaches, state->breach_count * sizeof *wider);
        rk_release(state->breaches, state->breach_room * sizeof *wider);
        state->breaches = wider;
        state->breach_room = room;
    }
    state->breaches[state->breach_count++] = *breach;
    return RK_OK;
}

static rk_status judge_by_rules(rl_state *state, const row_fields *row,
                                const observed_fields *seen, uint64_t place, uint8_t *verdict)
{
    rl_breach breach = {.place = place};
    *verdict = RL_FINE;
    for (uint32_t rule = 0; rule < state->rule_count; rule++) {
        if (!breaks(state, &state->rules[rule], row, seen, &breach))
            continue;
        breach.rule = rule;
        if (add_breach(state, &breach) != RK_OK)
            return RK_NO_MEMORY;
        if (state->rules[rule].then > *verdict)
            *verdict = (uint8_t)state->rules[rule].then;
    }
    return RK_OK;
}

/* ---- A submission that counts ------------------------------------------------------------ */

static void move_usual(row_fields *row, int32_t found)
{
    const int32_t least = row->seen < STEADY_AFTER ? STEP_FIRST : STEP_STEADY;
    const int32_t way = (found > row->usual) - (found < row->usual);
    const int32_t distance = way * (found - row->usual);
    if (row->seen == 0) {
        row->usual = found;
    } else {
        const int32_t far = way * row->step > 0 ? 2 * way * row->step : least;
        const int32_t moved = distance < far ? distance : far;
        row->usual += way * moved;
        row->step = way * (moved > least ? moved : least);
    }
    row->seen += row->seen < UINT16_MAX;
}

static void count_gain(const rl_state *state, row_fields *row, const observed_fields *seen)
{
    if (state->layout.fields & RL_GAINS)
        add_to_slot(&row->gains[ring_of(slot_of(row->time))], (uint64_t)seen->gain,
                    state->layout.gain_bytes);
}

/* Would the score that it makes lie outside the bounds? Of a total only the index knows. */
static bool is_outside(const rl_state *state, const observed_fields *seen)
{
    return (state->layout.fields & RL_VALUE)
           && (seen->result < state->low || seen->result > state->high);
}

static void count_score(const rl_state *state, row_fields *row, const observed_fields *seen,
                        bool delta)
{
    const uint32_t fields = state->layout.fields;
    if ((fields & RL_USUAL) && seen->gain > 0)
        move_usual(row, (int32_t)logarithm(seen->gain));
    if (fields & RL_VALUE) {
        const bool stays = state->score_rule == RL_BEST && !delta && (row->flags & RL_VALUED)
                           && seen->gain == 0;
        if (!stays)
            row->value = seen->result;
        row->flags |= RL_VALUED;
    }
    row->flags |= RL_COUNTED;
}

/* ---- A run ------------------------------------------------------------------------------- */

static rk_status judge_one(rl_state *state, const rl_run *run, uint64_t place, uint32_t number,
                           uint8_t *verdict)
{
    const bool delta = run->deltas != NULL && run->deltas[place] != 0;
    uint8_t *bytes = number == RK_NOBODY ? NULL : row_at(state, number);
    row_fields row = {0};
    if (bytes != NULL)
        read_row(&state->layout, bytes, &row);
    const bool was_known = (row.flags & RL_SEEN) != 0;
    observed_fields seen = {.number = run->scores[place],
                            .elapsed = run->elapsed == NULL ? 0 : run->elapsed[place]};
    seen.waited = arrive(&state->layout, &row, run->times[place]);
    observe_score(state, &row, delta, &seen);
    if (judge_by_rules(state, &row, &seen, place, verdict) != RK_OK)
        return RK_NO_MEMORY;
    uint16_t bucket = NO_BUCKET;
    if (*verdict < RL_HOLD && !is_outside(state, &seen)) {
        count_gain(state, &row, &seen);
        count_score(state, &row, &seen, delta);
        if (state->histogram != NULL) {
            bucket = (uint16_t)bucket_of(seen.result);
            count_in_bucket(state, bucket, 1);
        }
    }
    note(state, number, bucket, bytes);
    if (bytes != NULL) {
        write_row(&state->layout, bytes, &row);
        state->known += !was_known;
    }
    return RK_OK;
}

/* Numbers and rows for the players of a run. */
static rk_status prepare(rl_state *state, uint64_t count, const rl_run *run, uint32_t *numbers)
{
    for (uint64_t place = 0; place < count; place++)
        numbers[place] = RK_NOBODY;
    if (!has_rows(state))
        return RK_OK;
    const rk_status status = rk_players_intern_many(&state->players, count, run->ids,
                                                    run->lengths, numbers);
    return status == RK_OK ? reserve_rows(state, state->players.issued) : status;
}

/* After a failure: the players that were given a number and no row. */
static void remove_unseen(rl_state *state, uint64_t count, const uint32_t *numbers)
{
    for (uint64_t place = 0; place < count; place++) {
        const uint32_t number = numbers[place];
        if (number == RK_NOBODY || !rk_players_has(&state->players, number))
            continue;
        if (!has_row(state, number) || *row_at(state, number) == 0)
            (void)rk_players_remove(&state->players, number);
    }
}

static void warm(const rl_state *state, uint32_t number)
{
    if (number == RK_NOBODY)
        return;
    const uint8_t *row = row_at(state, number);
    __builtin_prefetch(row);
    __builtin_prefetch(row + state->layout.row_bytes - 1);
}

static rk_status judge_all(rl_state *state, uint64_t count, const rl_run *run,
                           const uint32_t *numbers, uint8_t *verdicts)
{
    for (uint64_t place = 0; place < count; place++) {
        if (place + ROWS_AHEAD < count)
            warm(state, numbers[place + ROWS_AHEAD]);
        if (judge_one(state, run, place, numbers[place], &verdicts[place]) != RK_OK)
            return RK_NO_MEMORY;
    }
    return RK_OK;
}

rk_status rl_judge(rl_state *state, uint64_t count, const rl_run *run, uint8_t *verdicts)
{
    const uint64_t mark = state->journal_count;
    state->breach_count = 0;
    if (count == 0)
        return RK_OK;
    uint32_t *numbers = rk_allocate(count * sizeof *numbers);
    if (numbers == NULL || reserve_journal(state, count) != RK_OK) {
        rk_release(numbers, count * sizeof *numbers);
        return RK_NO_MEMORY;
    }
    rk_status status = prepare(state, count, run, numbers);
    if (status == RK_OK)
        status = judge_all(state, count, run, numbers, verdicts);
    if (status != RK_OK) {
        undo_to(state, mark);
        remove_unseen(state, count, numbers);
        state->breach_count = 0;
    }
    rk_release(numbers, count * sizeof *numbers);
    if (!state->saving)
        empty_journal(state);
    return status;
}

/* ---- A submission that is not judged ------------------------------------------------------ */

/* Count it in the row; return the bucket of its score. */
static uint16_t count_unjudged(rl_state *state, row_fields *row, int64_t number, rl_kind kind)
{
    observed_fields seen = {.number = number};
    const bool valued = (row->flags & RL_VALUED) != 0;
    if (!(row->flags & RL_SEEN))
        row->time = INT64_MIN;
    row->flags = (row->flags & ~RL_FORGOTTEN) | RL_SEEN;
    observe_score(state, row, kind == RL_DELTA, &seen);
    if (kind == RL_REPLACES) {
        row->flags |= RL_COUNTED | (state->layout.fields & RL_VALUE ? RL_VALUED : 0);
        row->value = number;
        return NO_BUCKET;
    }
    const int64_t before = row->value;
    count_score(state, row, &seen, kind == RL_DELTA);
    if (state->score_rule == RL_LATEST && kind == RL_SCORE && valued)
        row->value = before; /* a later one is in its place */
    return state->histogram == NULL ? NO_BUCKET : (uint16_t)bucket_of(seen.result);
}

rk_status rl_count(rl_state *state, const char *id, size_t length, int64_t number, rl_kind kind)
{
    const uint32_t size = (uint32_t)length;
    const rl_run run = {.ids = &id, .lengths = &size};
    uint32_t player = RK_NOBODY;
    rk_status status = reserve_journal(state, 1);
    if (status == RK_OK) {
        status = prepare(state, 1, &run, &player);
        if (status != RK_OK)
            remove_unseen(state, 1, &player);
    }
    if (status != RK_OK)
        return status;
    uint8_t *bytes = player == RK_NOBODY ? NULL : row_at(state, player);
    row_fields row = {0};
    if (bytes != NULL)
        read_row(&state->layout, bytes, &row);
    const bool was_known = (row.flags & RL_SEEN) != 0;
    const uint16_t bucket = count_unjudged(state, &row, number, kind);
    note(state, player, bucket, bytes);
    if (bucket != NO_BUCKET)
        count_in_bucket(state, bucket, 1);
    if (bytes != NULL) {
        write_row(&state->layout, bytes, &row);
        state->known += !was_known;
    }
    if (!state->saving)
        empty_journal(state);
    return RK_OK;
}

/* ---- Copies ------------------------------------------------------------------------------ */

rk_status rl_put(rl_state *state, const char *id, size_t length, const uint8_t *row)
{
    if (!within_bounds(&state->layout, row))
        return RK_UNORDERED;
    if (rk_players_find(&state->players, id, length) != RK_NOBODY)
        return RK_PRESENT;
    uint32_t number;
    rk_status status = rk_players_intern(&state->players, id, length, &number);
    if (status == RK_OK) {
        status = reserve_rows(state, state->players.issued);
        if (status != RK_OK)
            (void)rk_players_remove(&state->players, number);
    }
    if (status == RK_OK) {
        memcpy(row_at(state, number), row, state->layout.row_bytes);
        state->known++;
    }
    return status;
}

static void copy_histogram(const rl_state *from, rl_state *to)
{
    if (from->histogram == NULL || to->histogram == NULL)
        return;
    memcpy(to->histogram, from->histogram, RL_BUCKET_PLACES * sizeof(uint64_t));
    to->scores = from->scores;
}

static rk_status put_from(const rl_state *from, uint32_t number, rl_state *to, const uint8_t *row)
{
    size_t length;
    const char *id = rk_players_id(&from->players, number, &length);
    return rl_put(to, id, length, row);
}

rk_status rl_copy(const rl_state *from, rl_state *to, uint64_t seed)
{
    rk_status status = rl_init(to, from->rules, from->rule_count, from->score_rule,
                               from->higher_wins, &from->layout, seed);
    if (status != RK_OK)
        return status;
    to->low = from->low;
    to->high = from->high;
    rk_players_expect(&to->players, from->known);
    for (uint32_t number = 0; number < from->players.issued && status == RK_OK; number++)
        if (rl_knows(from, number))
            status = put_from(from, number, to, row_at(from, number));
    copy_histogram(from, to);
    return status;
}

/* The largest row: flags, two numbers, twelve slots of eight bytes, and the usual gain. */
#define ROW_BYTES_MAX (1 + 8 + 8 + 12 * 8 + 6)

rk_status rl_redefine(const rl_state *from, rl_state *to, int64_t scale)
{
    rk_status status = RK_OK;
    uint8_t bytes[ROW_BYTES_MAX];
    if (scale == 1)
        copy_histogram(from, to);
    if (!has_rows(to))
        return status;
    for (uint32_t number = 0; number < from->players.issued && status == RK_OK; number++) {
        row_fields before, after = {.flags = RL_SEEN | RL_COUNTED};
        if (!rl_knows(from, number))
            continue;
        read_row(&from->layout, row_at(from, number), &before);
        if (!(before.flags & RL_COUNTED))
            continue;
        if ((before.flags & RL_VALUED) && (to->layout.fields & RL_VALUE)) {
            after.value = product(before.value, scale);
            after.flags |= RL_VALUED;
        }
        after.time = INT64_MIN;
        write_row(&to->layout, bytes, &after);
        status = put_from(from, number, to, bytes);
    }
    return status;
}

/* ---- Check ------------------------------------------------------------------------------- */

static int check_row(const rl_state *state, uint32_t number)
{
    const bool in_use = rk_players_has(&state->players, number);
    if (!has_row(state, number))
        return in_use ? 1 : 0;
    const uint8_t *row = row_at(state, number);
    if ((*row != 0) != in_use)
        return 1;
    if (*row == RL_FORGOTTEN)
        return state->saving ? 0 : 4;
    return *row == 0 || within_bounds(&state->layout, row) ? 0 : 3;
}

int rl_check(const rl_state *state)
{
    uint64_t known = 0, scores = 0;
    if (rk_players_check(&state->players) != 0)
        return 1;
    for (uint32_t number = 0; number < state->players.issued; number++) {
        const int broken = check_row(state, number);
        if (broken != 0)
            return broken;
        known += rl_knows(state, number);
    }
    if (known != state->known)
        return 2;
    for (uint32_t bucket = 0; state->histogram != NULL && bucket < RL_BUCKETS; bucket++)
        scores += rl_bucket(state, bucket);
    return scores == state->scores ? 0 : 5;
}

/* keys.c -- see keys.h. */

#include "keys.h"

#include <assert.h>
#include <string.h>

#define SPAN_BITS 8u
#define SPAN_PLAYERS (1u << SPAN_BITS)

/* Below this many players a hash is small whatever the numbers are. */
#define SPANS_FROM_COUNT 1024u

/* Spans are worth their 16 bytes once one number in 64 is a player: 4 bytes a player. */
#define NUMBERS_PER_PLAYER_MAX 64u

/* ---- Numbers and hashes ------------------------------------------------------------------ */

/* A bijection that leaves 0 alone: different players have different hashes, and none is 0. */
static uint32_t hash_player(uint32_t player)
{
    uint32_t x = player + 1;
    x = (x ^ (x >> 16)) * UINT32_C(0x7FEB352D);
    x = (x ^ (x >> 15)) * UINT32_C(0x846CA68B);
    return x ^ (x >> 16);
}

static uint32_t player_of_hash(uint32_t hash)
{
    uint32_t x = (hash ^ (hash >> 16)) * UINT32_C(0x43021123);
    x = (x ^ (x >> 15) ^ (x >> 30)) * UINT32_C(0x1D69E2A5);
    return (x ^ (x >> 16)) - 1;
}

static rk_span *span_of(const rk_keys *keys, uint32_t player)
{
    const uint32_t at = player >> SPAN_BITS;
    return at < keys->span_count ? &keys->spans[at] : NULL;
}

static uint64_t *slot_of(const rk_keys *keys, const rk_span *span, uint32_t player)
{
    return span->page + (size_t)(player % SPAN_PLAYERS) * keys->words;
}

static bool all_ones(const uint64_t *words, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (words[i] != UINT64_MAX)
            return false;
    return true;
}

/* ---- Life -------------------------------------------------------------------------------- */

void rk_keys_init(rk_keys *keys, uint32_t words)
{
    *keys = (rk_keys){.words = words};
    rk_hash_init(&keys->sparse, 8 * words);
    rk_pool_init(&keys->pages, (size_t)SPAN_PLAYERS * words * 8);
}

void rk_keys_clear(rk_keys *keys)
{
    rk_hash_clear(&keys->sparse);
    rk_pool_clear(&keys->pages);
    rk_release(keys->spans, keys->span_count * sizeof(rk_span));
    rk_keys_init(keys, keys->words);
}

size_t rk_keys_bytes(const rk_keys *keys)
{
    return keys->sparse.bytes + rk_pool_bytes(&keys->pages) + keys->span_count * sizeof(rk_span);
}

/* ---- Look-up ----------------------------------------------------------------------------- */

static bool find_sparse(const rk_keys *keys, uint32_t player, rk_place *place)
{
    return keys->sparse.count > 0 && rk_hash_first(&keys->sparse, hash_player(player), place);
}

bool rk_keys_get(const rk_keys *keys, uint32_t player, rk_key *key)
{
    const size_t bytes = (size_t)keys->words * 8;
    const rk_span *span = span_of(keys, player);
    if (span != NULL && span->page != NULL) {
        const uint64_t *slot = slot_of(keys, span, player);
        if (!all_ones(slot, keys->words)) {
            memcpy(key->word, slot, bytes);
            return true;
        }
    }
    rk_place place;
    if (!find_sparse(keys, player, &place))
        return false;
    memcpy(key->word, rk_hash_value(&keys->sparse, place), bytes);
    return true;
}

/* Each step needs what the one before fetched: so each goes over the whole group. */
static void warm_sparse(const rk_keys *keys, const uint32_t *hashes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        rk_hash_warm_directory(&keys->sparse, hashes[i]);
    for (uint32_t i = 0; i < count; i++)
        rk_hash_warm_slots(&keys->sparse, hashes[i]);
}

void rk_keys_warm(const rk_keys *keys, const uint32_t *players, uint32_t count)
{
    assert(count <= RK_GROUP);
    uint32_t hashes[RK_GROUP], sparse = 0;
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(span_of(keys, players[i]));
    for (uint32_t i = 0; i < count; i++) {
        const rk_span *span = span_of(keys, players[i]);
        if (span != NULL && span->page != NULL)
            __builtin_prefetch(slot_of(keys, span, players[i]), 1);
        else
            hashes[sparse++] = hash_player(players[i]);
    }
    warm_sparse(keys, hashes, sparse);
}

/* ---- Changing over ----------------------------------------------------------------------- */

typedef struct {
    const rk_keys *keys;
    uint32_t first;
} new_spans;

static void count_into_spans(void *context, uint32_t hash)
{
    const new_spans *added = context;
    rk_span *span = span_of(added->keys, player_of_hash(hash));
    if (span != NULL && span >= added->keys->spans + added->first)
        span->count++;
}

/* More spans, up to the greatest number. That there is no memory for them does no harm. */
static void add_spans(rk_keys *keys)
{
    uint32_t wanted = 16;
    while (wanted <= keys->number_max >> SPAN_BITS)
        wanted *= 2;
    rk_span *spans = rk_allocate(wanted * sizeof(rk_span));
    if (spans == NULL)
        return;
    memset(spans, 0, wanted * sizeof(rk_span));
    const uint32_t known = keys->span_count;
    if (known > 0)
        memcpy(spans, keys->spans, known * sizeof(rk_span));
    rk_release(keys->spans, known * sizeof(rk_span));
    keys->spans = spans;
    keys->span_count = wanted;
    rk_hash_visit(&keys->sparse, count_into_spans, &(new_spans){keys, known});
}

static uint64_t count_to_be(const rk_keys *keys)
{
    return keys->count > keys->expected ? keys->count : keys->expected;
}

static bool wants_spans(const rk_keys *keys)
{
    const uint64_t count = count_to_be(keys);
    return keys->number_max >> SPAN_BITS >= keys->span_count && count >= SPANS_FROM_COUNT
           && count * NUMBERS_PER_PLAYER_MAX >= keys->number_max;
}

static bool wants_page(const rk_keys *keys, const rk_span *span)
{
    return span->page == NULL
           && (span->count + 1 >= SPAN_PLAYERS / 2 || count_to_be(keys) * 2 > keys->number_max);
}

/* A page for a span, and all its players from the hash into it. */
static void add_page(rk_keys *keys, rk_span *span)
{
    if (rk_pool_reserve(&keys->pages, 1) != RK_OK)
        return; /* the hash goes on serving */
    span->page = rk_pool_take(&keys->pages);
    memset(span->page, 0xFF, keys->pages.node_bytes);
    const uint32_t first = (uint32_t)(span - keys->spans) << SPAN_BITS;
    for (uint32_t i = 0; i < SPAN_PLAYERS; i++) {
        rk_place place;
        if (!find_sparse(keys, first + i, &place))
            continue;
        const uint64_t *from = rk_hash_value(&keys->sparse, place);
        rk_key key;
        memcpy(key.word, from, (size_t)keys->words * 8);
        if (all_ones(key.word, keys->words))
            continue;
        memcpy(slot_of(keys, span, first + i), key.word, (size_t)keys->words * 8);
        rk_hash_remove(&keys->sparse, place);
    }
}

void rk_keys_expect(rk_keys *keys, uint64_t count, uint32_t number_max)
{
    keys->expected = count;
    if (number_max > keys->number_max)
        keys->number_max = number_max;
}

/* ---- Change ------------------------------------------------------------------------------ */

static bool goes_to_page(const rk_keys *keys, const rk_span *span, const rk_key *key)
{
    return span != NULL && span->page != NULL && !all_ones(key->word, keys->words);
}

rk_status rk_keys_reserve(rk_keys *keys, uint32_t player, const rk_key *key)
{
    if (player > keys->number_max)
        keys->number_max = player;
    if (wants_spans(keys))
        add_spans(keys);
    rk_span *span = span_of(keys, player);
    if (span != NULL && wants_page(keys, span))
        add_page(keys, span);
    return goes_to_page(keys, span, key) ? RK_OK
                                         : rk_hash_reserve(&keys->sparse, hash_player(player));
}

/* Take the player's key from wherever it is, leaving the counts alone. */
static bool take_out(rk_keys *keys, rk_span *span, uint32_t player)
{
    if (span != NULL && span->page != NULL) {
        uint64_t *slot = slot_of(keys, span, player);
        if (!all_ones(slot, keys->words)) {
            memset(slot, 0xFF, (size_t)keys->words * 8);
            return true;
        }
    }
    rk_place place;
    if (!find_sparse(keys, player, &place))
        return false;
    rk_hash_remove(&keys->sparse, place);
    return true;
}

void rk_keys_set(rk_keys *keys, uint32_t player, const rk_key *key)
{
    const size_t bytes = (size_t)keys->words * 8;
    rk_span *span = span_of(keys, player);
    if (!take_out(keys, span, player)) {
        keys->count++;
        if (span != NULL)
            span->count++;
    }
    memcpy(goes_to_page(keys, span, key) ? (void *)slot_of(keys, span, player)
                                         : rk_hash_add(&keys->sparse, hash_player(player)),
           key->word, bytes);
}

bool rk_keys_remove(rk_keys *keys, uint32_t player)
{
    rk_span *span = span_of(keys, player);
    if (!take_out(keys, span, player))
        return false;
    keys->count--;
    if (span != NULL && --span->count == 0 && span->page != NULL) {
        rk_pool_give(&keys->pages, span->page);
        span->page = NULL;
    }
    return true;
}

/* ---- Check ------------------------------------------------------------------------------- */

typedef struct {
    const rk_keys *keys;
    uint64_t misplaced;
    uint64_t beyond; /* in the hash, with a number past the last span */
    uint32_t *counts;
} survey;

static void survey_sparse(void *context, uint32_t hash)
{
    survey *found = context;
    const uint32_t player = player_of_hash(hash);
    const rk_span *span = span_of(found->keys, player);
    rk_key key;
    rk_place place;
    (void)rk_hash_first(&found->keys->sparse, hash, &place);
    memcpy(key.word, rk_hash_value(&found->keys->sparse, place), (size_t)found->keys->words * 8);
    found->misplaced += goes_to_page(found->keys, span, &key);
    found->misplaced += span != NULL && span->page != NULL
                        && !all_ones(slot_of(found->keys, span, player), found->keys->words);
    if (span == NULL)
        found->beyond++;
    else
        found->counts[span - found->keys->spans]++;
}

static uint32_t count_page(const rk_keys *keys, const rk_span *span)
{
    uint32_t count = 0;
    for (uint32_t i = 0; span->page != NULL && i < SPAN_PLAYERS; i++)
        count += !all_ones(span->page + (size_t)i * keys->words, keys->words);
    return count;
}

static const char *check_spans(const rk_keys *keys, survey *found)
{
    uint64_t total = 0;
    rk_hash_visit(&keys->sparse, survey_sparse, found);
    if (found->misplaced > 0)
        return "(K1)";
    for (uint32_t i = 0; i < keys->span_count; i++) {
        if (found->counts[i] + count_page(keys, &keys->spans[i]) != keys->spans[i].count)
            return "(K2)";
        total += keys->spans[i].count;
    }
    return total + found->beyond == keys->count ? NULL : "(K2)";
}

const char *rk_keys_check(const rk_keys *keys)
{
    static const char *const hash_says[] = {NULL, "hash (H1)", "hash (H2)", "hash (H3)",
                                            "hash (H4)"};
    const char *broken = hash_says[rk_hash_check(&keys->sparse)];
    if (broken != NULL)
        return broken;
    const size_t bytes = (keys->span_count + 1) * sizeof(uint32_t);
    uint32_t *counts = rk_allocate(bytes);
    if (counts == NULL)
        return NULL; /* no memory to look; that is not a finding */
    memset(counts, 0, bytes);
    survey found = {.keys = keys, .counts = counts};
    broken = check_spans(keys, &found);
    rk_release(counts, bytes);
    return broken;
}

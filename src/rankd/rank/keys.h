/* keys.h -- which order key each player has in one ranking.
 *
 * Player numbers are handed out one after another, so a board that most players are on is best
 * kept as an array by number: nothing to search, 16 bytes a player, one cache line a look-up. A
 * board with few of the players would waste most of that array and is best kept as a hash. A
 * ranking may be either, and may become the other; so this is both. Numbers are taken in spans
 * of 256: a span that is half full, or of a ranking that is, has a page of keys; the players of
 * all other spans are in the hash. A span changes over when its own count says so, which moves
 * at most 128 keys: there is never a long pause.
 *
 * An empty slot of a page is all ones. The one key that looks the same is kept in the hash.
 *
 * Invariants, checked by rk_keys_check():
 *   (K1) A player is in its span's page or in the hash, not in both. It is in the hash only if its
 *        span has no page or its key is all ones.
 *   (K2) A span's count is the number of its players; all together, with those in the hash
 *        beyond the last span, are `count`. */

#ifndef RANKD_KEYS_H
#define RANKD_KEYS_H

#include "hash.h"

#define RK_KEY_WORDS_MAX 6u
#define RK_KEY_BYTES_MAX (8u * RK_KEY_WORDS_MAX)

typedef struct {
    uint64_t word[RK_KEY_WORDS_MAX];
} rk_key;

typedef struct {
    uint64_t *page; /* a key for each of the span's numbers; NULL: look in the hash */
    uint32_t count;
} rk_span;

typedef struct {
    rk_hash sparse;
    rk_span *spans;
    uint32_t span_count; /* 0 or a power of two */
    uint32_t words;
    uint32_t number_max; /* the greatest player number ever seen */
    uint64_t count;
    uint64_t expected; /* how many a bulk load is to bring; 0 when there is none */
    rk_pool pages;
} rk_keys;

/* Make an empty map for keys of so many words. Allocates nothing. */
void rk_keys_init(rk_keys *keys, uint32_t words);

/* Release all memory. The map is empty afterwards and can be used again. */
void rk_keys_clear(rk_keys *keys);

/* The player's key; false if it has none. O(1). */
bool rk_keys_get(const rk_keys *keys, uint32_t player, rk_key *key);

/* So many players are about to come, with numbers up to this one: make pages at once for who would
 * end there anyway. 0 when they have come. What was expected need not happen. */
void rk_keys_expect(rk_keys *keys, uint64_t count, uint32_t number_max);

/* See to it that the next rk_keys_set of this player and key succeeds. O(1) amortised. */
rk_status rk_keys_reserve(rk_keys *keys, uint32_t player, const rk_key *key);

/* Give the player a key, in place of the one it had. The caller has reserved it. O(1). */
void rk_keys_set(rk_keys *keys, uint32_t player, const rk_key *key);

/* Forget the player's key; false if it had none. O(1). */
bool rk_keys_remove(rk_keys *keys, uint32_t player);

/* Bring the keys of up to RK_GROUP players nearer. Changes nothing. */
void rk_keys_warm(const rk_keys *keys, const uint32_t *players, uint32_t count);

/* Bytes of everything. */
size_t rk_keys_bytes(const rk_keys *keys);

/* NULL if the invariants hold, else the first that does not: "(K1)", "hash (H2)". O(n). */
const char *rk_keys_check(const rk_keys *keys);

#endif

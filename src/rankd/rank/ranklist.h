/* ranklist.h -- one ranking: its entries in order, and each player's order key.
 *
 * Put together from a tree of entries (tree.h), a map from player number to the key that player
 * has in this ranking (keys.h), and, where dense ranks are shown, a second tree of the distinct
 * scores. Callers speak of players: they say where a player now belongs, and never have to know
 * where it was.
 *
 * A key is one or more words of score and one last word that orders equal scores. What the words
 * mean is the caller's affair.
 *
 * Invariants, checked by rk_list_check(), beside those of the parts:
 *   (L1) The map and the tree hold the same players with the same keys.
 *   (L2) The distinct tree holds each score of the tree once, and no other.
 *   (L3) Every player of the tree is in the player table, if there is one.
 *
 * Ranks are counted from 1; 0 means "not ranked". When memory runs out nothing has changed.
 * Not thread-safe. Never calls into Python. */

#ifndef RANKD_RANKLIST_H
#define RANKD_RANKLIST_H

#include "tree.h"

#define RK_LIST_WORDS_MIN 2u

typedef struct {
    rk_tree tree;
    rk_tree distinct;
    rk_keys keys;
    bool dense;
} rk_list;

/* Make an empty ranking. `words` is 2 to RK_KEY_WORDS_MAX. Allocates nothing. */
void rk_list_init(rk_list *list, uint32_t words, bool dense, const rk_players *players);

/* Release all memory. The ranking is empty afterwards and can be used again. */
void rk_list_clear(rk_list *list);

/* Where a player was and is. */
typedef struct {
    uint64_t previous_rank;
    uint64_t rank;
} rk_move;

/* Put the player where the key belongs, from wherever it was. RK_ABSENT if there is a player
 * table and the player is not in it. O(log n). */
rk_status rk_list_put(rk_list *list, uint32_t player, const rk_key *key, rk_move *move);

/* The same by ways from rk_tree_warm to the key it has and to the one it gets, or unknown ones. */
rk_status rk_list_put_on(rk_list *list, uint32_t player, const rk_key *key, rk_path *from,
                         rk_path *to, rk_move *move);

/* Take the player out. RK_ABSENT if it was not in. O(log n). */
rk_status rk_list_remove(rk_list *list, uint32_t player, uint64_t *previous_rank);

/* The player's key; false if it has none. O(1). */
bool rk_list_key(const rk_list *list, uint32_t player, rk_key *key);

/* The player's rank, or 0. O(log n). */
uint64_t rk_list_rank(const rk_list *list, uint32_t player);

/* The player's rank, and its key with it, or 0. O(log n). */
uint64_t rk_list_find(const rk_list *list, uint32_t player, rk_key *key);

/* How many entries have a key less than this one, which need not be there. O(log n). */
uint64_t rk_list_below(const rk_list *list, const rk_key *key);

/* How many distinct scores are less than this key's. Only where the list is dense. O(log n). */
uint64_t rk_list_scores_below(const rk_list *list, const rk_key *key);

/* ---- Many at once: memory is the bottleneck, and many can wait for it together ------------ */

/* Put players[i] at keys[i] (big-endian, one after another), in order. Where not NULL, `previous`
 * and `ranks` receive each one's rank just before and just after its own move. Returns how many
 * were done; if that is fewer than `count`, `status` tells what stopped the next one. */
uint64_t rk_list_put_many(rk_list *list, uint64_t count, const uint32_t *players,
                          const uint8_t *keys, uint32_t *previous, uint32_t *ranks,
                          rk_status *status);

/* ranks[i] becomes the rank of players[i], or 0. */
void rk_list_rank_many(const rk_list *list, uint64_t count, const uint32_t *players,
                       uint32_t *ranks);

/* The same; where not NULL, `keys` receives the key of each, big-endian, or zeros. */
void rk_list_find_many(const rk_list *list, uint64_t count, const uint32_t *players,
                       uint32_t *ranks, uint8_t *keys);

/* ---- Bulk load --------------------------------------------------------------------------- */

/* A load of so many entries is about to begin: make room in one go. A guess does no harm. */
void rk_list_expect(rk_list *list, uint64_t count);

/* Append `count` entries in order to a load that was begun on the empty list's tree. RK_PRESENT if
 * a player comes twice, RK_ABSENT if one is not in the player table. */
rk_status rk_list_load(rk_list *list, rk_loader *loader, uint64_t count, const uint32_t *players,
                       const uint8_t *keys);

/* Make the loaded entries the list's. */
rk_status rk_list_load_finish(rk_list *list, rk_loader *loader);

/* Bytes of everything, the player table aside. */
size_t rk_list_bytes(const rk_list *list);

/* NULL if the invariants hold, else the first that does not: "tree (3)", "(K2)", "(L1)". */
const char *rk_list_check(const rk_list *list);

#endif

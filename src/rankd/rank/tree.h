/* tree.h -- an ordered set of entries that knows the rank of each.
 *
 * A sorted array answers "who is nth?" at once but moves half of itself on insert; a balanced
 * tree inserts fast but cannot count. This is a B+ tree whose inner nodes also carry, for each
 * child, how many entries lie before it in the node: so both questions cost one walk from root
 * to leaf, with one addition a level.
 *
 * An entry is an order key and a player. Keys are fixed-width byte strings, compared byte by
 * byte; inside they are kept as 64-bit words in the machine's own byte order, so that comparing
 * them is comparing numbers. Entries with equal keys are ordered by the players' ids (or by the
 * bare numbers, if the tree was made without a player table).
 *
 * Invariants, checked by rk_tree_check():
 *   (1) Entries in a leaf increase strictly; the last of a leaf is less than the first of the next.
 *   (2) Every leaf is at the same depth; `next` links the leaves in order.
 *   (3) Every node but the root is at least half full; an inner root has two children or more.
 *   (4) `before` of a child is the number of entries under the children before it, and `total`
 *       the number under the whole node.
 *   (5) The separator of a child is the first entry under it. (So a player in a separator is a
 *       player in the tree, and its id can be asked for.)
 *
 * Offsets are counted from 0: an entry's offset is the number of entries better than it. Ranks,
 * which count from 1, begin in ranklist.h.
 *
 * Not thread-safe. Never calls into Python. */

#ifndef RANKD_TREE_H
#define RANKD_TREE_H

#include "keys.h"
#include "players.h"

/* Four thousand million entries in half-full nodes need six. */
#define RK_HEIGHT_MAX 8u

/* The way from the root to a leaf. A caller who has one from rk_tree_warm hands it to the
 * operation it was made for, which checks it and saves the search; an unknown one is as good as
 * none. */
typedef struct {
    void *node[RK_HEIGHT_MAX + 1];
    uint32_t at[RK_HEIGHT_MAX];
    uint32_t height;
} rk_path;

#define RK_PATH_UNKNOWN UINT32_MAX

typedef struct {
    const rk_players *players; /* orders entries with equal keys; may be NULL */
    void *root;                /* NULL: an empty tree */
    uint32_t words;            /* key width in words */
    uint32_t height;           /* inner levels above the leaves */
    uint64_t count;
    rk_pool leaves;
    rk_pool inners;
} rk_tree;

/* Make an empty tree for keys of `words` words, 1 to RK_KEY_WORDS_MAX. Allocates nothing. */
void rk_tree_init(rk_tree *tree, uint32_t words, const rk_players *players);

/* Release all memory. The tree is empty afterwards and can be used again. O(nodes). */
void rk_tree_clear(rk_tree *tree);

/* Add an entry. On RK_OK and RK_PRESENT `offset` is the entry's. O(log n). */
rk_status rk_tree_insert(rk_tree *tree, const rk_key *key, uint32_t player, rk_path *path,
                         uint64_t *offset);

/* Take an entry out. On RK_OK `offset` is what the entry's was. Never allocates. O(log n). */
rk_status rk_tree_remove(rk_tree *tree, const rk_key *key, uint32_t player, rk_path *path,
                         uint64_t *offset);

/* How many entries are less than (key, player); with RK_NOBODY, how many keys are less. O(log n).
 * `found`, unless NULL, tells whether that very entry is there. */
uint64_t rk_tree_offset(const rk_tree *tree, const rk_key *key, uint32_t player, bool *found);

/* Copy up to `count` entries from `offset` on: keys as big-endian bytes, players as numbers;
 * either may be NULL. Returns how many there were. O(log n + count). */
uint64_t rk_tree_read(const rk_tree *tree, uint64_t offset, uint64_t count, uint8_t *keys,
                      uint32_t *players);

/* Walk searches down the tree side by side, each step asking for the next node of every search
 * before waiting for any: afterwards all they will touch is near, and paths[i] is the way to
 * keys[i]. `to_change` says whether the leaves will be written or only searched. */
void rk_tree_warm(const rk_tree *tree, const rk_key *keys, uint32_t count, bool to_change,
                  rk_path *paths);

/* The offset of a key whose path rk_tree_warm has just found; nothing changed in between. */
uint64_t rk_tree_offset_on(const rk_tree *tree, const rk_key *key, uint32_t player,
                           const rk_path *path);

/* The same where entries may have come and gone since: a way that no longer leads there is found
 * anew. */
uint64_t rk_tree_offset_near(const rk_tree *tree, const rk_key *key, uint32_t player,
                             rk_path *path);

/* ---- Bulk load: from sorted input, in pieces, far faster than one by one ----------------- */

typedef struct {
    rk_tree *tree; /* an empty one; stays empty until rk_loader_finish */
    void *first;
    void *last;
    uint64_t leaves;
    uint64_t count;
    uint32_t fill; /* entries put into each leaf */
} rk_loader;

/* Begin to fill an empty tree. */
void rk_loader_init(rk_loader *loader, rk_tree *tree);

/* Append one entry. RK_UNORDERED if it does not follow the last one. */
rk_status rk_loader_append(rk_loader *loader, const rk_key *key, uint32_t player);

/* Make it the tree's content. On RK_NO_MEMORY the caller gives up the load. */
rk_status rk_loader_finish(rk_loader *loader);

/* Give up: the tree is empty. */
void rk_loader_abandon(rk_loader *loader);

/* Bytes of all nodes. */
size_t rk_tree_bytes(const rk_tree *tree);

/* 0 if the invariants hold, else the number of the first that does not. O(n). */
int rk_tree_check(const rk_tree *tree);

/* ---- Keys -------------------------------------------------------------------------------- */

/* From 8 * words big-endian bytes, and back. */
void rk_key_read(rk_key *key, const uint8_t *bytes, uint32_t words);
void rk_key_write(const rk_key *key, uint8_t *bytes, uint32_t words);

/* Are the first `words` words the same? */
bool rk_key_same(const rk_key *a, const rk_key *b, uint32_t words);

#endif

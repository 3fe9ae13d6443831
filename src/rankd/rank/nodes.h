/* nodes.h -- leaves and inner nodes: how they lie in memory, and how entries move between them.
 *
 * For the files of the tree alone (tree.c, tree_load.c, tree_check.c). All of it is inline: these
 * are the innermost loops, and the compiler should see them whole. */

#ifndef RANKD_NODES_H
#define RANKD_NODES_H

#include <assert.h>
#include <string.h>

#include "tree.h"

/* Node sizes, measured (docs/decisions/0002): larger leaves cost more to shift, smaller ones
 * make the tree taller and its inner nodes too many for the cache. One less than a power of two,
 * so that every search takes the same number of steps and none is mispredicted. */
#ifndef LEAF_STEPS
#define LEAF_STEPS 5
#endif
#ifndef INNER_STEPS
#define INNER_STEPS 5
#endif
#define LEAF_MAX ((1u << LEAF_STEPS) - 1) /* entries; at least half of it, but in the root */
#define LEAF_MIN (LEAF_MAX / 2)
#define INNER_MAX (1u << INNER_STEPS) /* children; the first needs no separator in a search */
#define INNER_MIN (INNER_MAX / 2)
#define CACHE_LINE_BYTES 64u

/* Keys first, then the players, in one block: the search reads keys only. */
typedef struct leaf {
    struct leaf *next;
    uint32_t count;
    uint32_t unused;
    uint64_t words[];
} leaf;

/* Keys, then children, then `before` counts, then the separators' players. */
typedef struct {
    uint32_t count;
    uint32_t total;
    uint64_t unused;
    uint64_t words[];
} inner;

typedef struct {
    const uint64_t *words;
    uint32_t player;
} target;

/* ---- Layout ------------------------------------------------------------------------------ */

static inline uint32_t *leaf_players(const rk_tree *tree, const leaf *node)
{
    return (uint32_t *)(node->words + (size_t)LEAF_MAX * tree->words);
}

static inline void **inner_children(const rk_tree *tree, const inner *node)
{
    return (void **)(node->words + (size_t)INNER_MAX * tree->words);
}

static inline uint32_t *inner_before(const rk_tree *tree, const inner *node)
{
    return (uint32_t *)(inner_children(tree, node) + INNER_MAX);
}

static inline uint32_t *inner_players(const rk_tree *tree, const inner *node)
{
    return inner_before(tree, node) + INNER_MAX;
}

/* ---- Keys -------------------------------------------------------------------------------- */

static inline uint64_t big_endian(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

static inline void write_words(const uint64_t *key, uint8_t *bytes, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++) {
        const uint64_t word = big_endian(key[i]);
        memcpy(bytes + (size_t)i * 8, &word, 8);
    }
}

static inline bool words_same(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* Without branches: in a search the answers are random, and a wrong guess costs more than both
 * comparisons. `words` is a constant wherever this is inlined on the fast path. */
static inline bool words_less(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    bool less = a[words - 1] < b[words - 1];
    for (uint32_t i = words - 1; i-- > 0;)
        less = (a[i] < b[i]) | ((a[i] == b[i]) & less);
    return less;
}

static inline int compare_players(const rk_tree *tree, uint32_t a, uint32_t b)
{
    if (tree->players != NULL)
        return rk_players_compare(tree->players, a, b);
    return (a > b) - (a < b);
}

/* How many of the 2^steps - 1 sorted keys are less than the key. Unused slots hold the greatest
 * key there can be, so the search need not know how many are in use, and its steps are always
 * the same: it runs without a branch. */
static inline __attribute__((always_inline)) uint32_t
search(const uint64_t *keys, const uint64_t *key, const uint32_t steps, const uint32_t words)
{
    uint32_t low = 0;
    for (uint32_t half = (1u << steps) / 2; half > 0; half /= 2)
        low += words_less(keys + (size_t)(low + half - 1) * words, key, words) ? half : 0;
    return low;
}

static inline __attribute__((always_inline)) uint32_t
keys_below(const uint64_t *keys, const uint64_t *key, const uint32_t steps, uint32_t words)
{
    switch (words) { /* let the compiler see the width */
    case 1: return search(keys, key, steps, 1);
    case 2: return search(keys, key, steps, 2);
    case 3: return search(keys, key, steps, 3);
    case 4: return search(keys, key, steps, 4);
    case 5: return search(keys, key, steps, 5);
    default: return search(keys, key, steps, RK_KEY_WORDS_MAX);
    }
}

static inline uint32_t keys_below_in_leaf(const leaf *node, const uint64_t *key, uint32_t words)
{
    return keys_below(node->words, key, LEAF_STEPS, words);
}

static inline uint32_t separators_below(const inner *node, const uint64_t *key, uint32_t words)
{
    return keys_below(node->words + words, key, INNER_STEPS, words);
}

/* Mark the key slots from `first` up to `end` as unused. */
static inline void set_unused(uint64_t *keys, uint32_t words, uint32_t first, uint32_t end)
{
    memset(keys + (size_t)first * words, 0xFF, (size_t)(end - first) * words * 8);
}

/* ---- Entries of a leaf, children of an inner node ----------------------------------------- */

static inline void open_gap(uint64_t *words, uint32_t width, uint32_t at, uint32_t count)
{
    memmove(words + (size_t)(at + 1) * width, words + (size_t)at * width,
            (size_t)(count - at) * width * 8);
}

/* Put a child into an inner node that has room, at place `at` > 0. The counts of the others stay
 * as they are: its entries were under the child before it. */
static inline void add_child(const rk_tree *tree, inner *node, uint32_t at, void *child,
                             const uint64_t *key, uint32_t player, uint32_t before)
{
    const uint32_t tail = node->count - at;
    void **children = inner_children(tree, node);
    uint32_t *befores = inner_before(tree, node), *players = inner_players(tree, node);
    open_gap(node->words, tree->words, at, node->count);
    memmove(children + at + 1, children + at, tail * sizeof *children);
    memmove(befores + at + 1, befores + at, tail * sizeof *befores);
    memmove(players + at + 1, players + at, tail * sizeof *players);
    memcpy(node->words + (size_t)at * tree->words, key, (size_t)tree->words * 8);
    children[at] = child;
    befores[at] = before;
    players[at] = player;
    node->count++;
}

static inline void drop_child(const rk_tree *tree, inner *node, uint32_t at)
{
    const uint32_t tail = node->count - at - 1;
    void **children = inner_children(tree, node);
    uint32_t *befores = inner_before(tree, node), *players = inner_players(tree, node);
    memmove(node->words + (size_t)at * tree->words, node->words + (size_t)(at + 1) * tree->words,
            (size_t)tail * tree->words * 8);
    memmove(children + at, children + at + 1, tail * sizeof *children);
    memmove(befores + at, befores + at + 1, tail * sizeof *befores);
    memmove(players + at, players + at + 1, tail * sizeof *players);
    node->count--;
    set_unused(node->words, tree->words, node->count, node->count + 1);
}

static inline void set_separator(const rk_tree *tree, inner *node, uint32_t at, const uint64_t *key,
                                 uint32_t player)
{
    memcpy(node->words + (size_t)at * tree->words, key, (size_t)tree->words * 8);
    inner_players(tree, node)[at] = player;
}

/* Move the first `count` entries of `right` to the end of `left`. */
static inline void shift_left(const rk_tree *tree, leaf *left, leaf *right, uint32_t count)
{
    const uint32_t words = tree->words, rest = right->count - count;
    uint32_t *players_left = leaf_players(tree, left), *players = leaf_players(tree, right);
    memcpy(left->words + (size_t)left->count * words, right->words, (size_t)count * words * 8);
    memcpy(players_left + left->count, players, count * sizeof *players);
    memmove(right->words, right->words + (size_t)count * words, (size_t)rest * words * 8);
    memmove(players, players + count, rest * sizeof *players);
    set_unused(right->words, words, rest, right->count);
    left->count += count;
    right->count = rest;
}

/* Move the last `count` entries of `left` to the front of `right`. */
static inline void shift_right(const rk_tree *tree, leaf *left, leaf *right, uint32_t count)
{
    const uint32_t words = tree->words, rest = left->count - count;
    uint32_t *players_left = leaf_players(tree, left), *players = leaf_players(tree, right);
    memmove(right->words + (size_t)count * words, right->words, (size_t)right->count * words * 8);
    memmove(players + count, players, right->count * sizeof *players);
    memcpy(right->words, left->words + (size_t)rest * words, (size_t)count * words * 8);
    memcpy(players, players_left + rest, count * sizeof *players);
    set_unused(left->words, words, rest, left->count);
    left->count = rest;
    right->count += count;
}

/* The same for inner nodes: children, their counts and their separators. */
static inline void shift_children_left(const rk_tree *tree, inner *left, inner *right,
                                       uint32_t count)
{
    uint32_t *before = inner_before(tree, right);
    const uint32_t rest = right->count - count;
    const uint32_t moved = rest == 0 ? right->total : before[count];
    for (uint32_t i = 0; i < count; i++)
        inner_before(tree, left)[left->count + i] = left->total + before[i];
    memcpy(left->words + (size_t)left->count * tree->words, right->words,
           (size_t)count * tree->words * 8);
    memcpy(inner_children(tree, left) + left->count, inner_children(tree, right),
           count * sizeof(void *));
    memcpy(inner_players(tree, left) + left->count, inner_players(tree, right), count * 4);
    memmove(right->words, right->words + (size_t)count * tree->words,
            (size_t)rest * tree->words * 8);
    memmove(inner_children(tree, right), inner_children(tree, right) + count,
            rest * sizeof(void *));
    memmove(inner_players(tree, right), inner_players(tree, right) + count, rest * 4);
    for (uint32_t i = 0; i < rest; i++)
        before[i] = before[count + i] - moved;
    set_unused(right->words, tree->words, rest, right->count);
    left->count += count;
    left->total += moved;
    right->count = rest;
    right->total -= moved;
}

static inline void shift_children_right(const rk_tree *tree, inner *left, inner *right,
                                        uint32_t count)
{
    uint32_t *before = inner_before(tree, right);
    const uint32_t rest = left->count - count;
    const uint32_t stay = inner_before(tree, left)[rest], moved = left->total - stay;
    for (uint32_t i = right->count; i-- > 0;)
        before[count + i] = before[i] + moved;
    for (uint32_t i = 0; i < count; i++)
        before[i] = inner_before(tree, left)[rest + i] - stay;
    memmove(right->words + (size_t)count * tree->words, right->words,
            (size_t)right->count * tree->words * 8);
    memmove(inner_children(tree, right) + count, inner_children(tree, right),
            right->count * sizeof(void *));
    memmove(inner_players(tree, right) + count, inner_players(tree, right), right->count * 4);
    memcpy(right->words, left->words + (size_t)rest * tree->words,
           (size_t)count * tree->words * 8);
    memcpy(inner_children(tree, right), inner_children(tree, left) + rest,
           count * sizeof(void *));
    memcpy(inner_players(tree, right), inner_players(tree, left) + rest, count * 4);
    set_unused(left->words, tree->words, rest, left->count);
    left->count = rest;
    left->total = stay;
    right->count += count;
    right->total += moved;
}

/* After entries went from one of two neighbours to the other: what the parent knows of them. */
static inline void leaf_boundary_moved(const rk_tree *tree, inner *parent, uint32_t right)
{
    void **children = inner_children(tree, parent);
    const leaf *to = children[right];
    set_separator(tree, parent, right, to->words, leaf_players(tree, to)[0]);
    uint32_t *before = inner_before(tree, parent);
    before[right] = before[right - 1] + ((const leaf *)children[right - 1])->count;
}

static inline void inner_boundary_moved(const rk_tree *tree, inner *parent, uint32_t right)
{
    void **children = inner_children(tree, parent);
    const inner *to = children[right];
    set_separator(tree, parent, right, to->words, inner_players(tree, to)[0]);
    uint32_t *before = inner_before(tree, parent);
    before[right] = before[right - 1] + ((const inner *)children[right - 1])->total;
}

static inline leaf *new_leaf(rk_tree *tree)
{
    leaf *node = rk_pool_take(&tree->leaves);
    node->count = 0;
    node->next = NULL;
    set_unused(node->words, tree->words, 0, LEAF_MAX);
    return node;
}

static inline inner *new_inner(rk_tree *tree)
{
    inner *node = rk_pool_take(&tree->inners);
    node->count = node->total = 0;
    set_unused(node->words, tree->words, 0, INNER_MAX);
    return node;
}

static inline void put_in(const rk_tree *tree, leaf *node, uint32_t at, target t)
{
    uint32_t *players = leaf_players(tree, node);
    open_gap(node->words, tree->words, at, node->count);
    memmove(players + at + 1, players + at, (node->count - at) * sizeof *players);
    memcpy(node->words + (size_t)at * tree->words, t.words, (size_t)tree->words * 8);
    players[at] = t.player;
    node->count++;
}

static inline void take_from(const rk_tree *tree, leaf *node, uint32_t at)
{
    uint32_t *players = leaf_players(tree, node);
    const uint32_t tail = node->count - at - 1;
    memmove(node->words + (size_t)at * tree->words, node->words + (size_t)(at + 1) * tree->words,
            (size_t)tail * tree->words * 8);
    memmove(players + at, players + at + 1, tail * sizeof *players);
    node->count--;
    set_unused(node->words, tree->words, node->count, node->count + 1);
}

/* Does the target come after the leaf's last entry? */
static inline bool follows(const rk_tree *tree, const leaf *last, target t)
{
    const uint64_t *key = last->words + (size_t)(last->count - 1) * tree->words;
    if (!words_same(key, t.words, tree->words))
        return words_less(key, t.words, tree->words);
    return compare_players(tree, leaf_players(tree, last)[last->count - 1], t.player) < 0;
}

#endif

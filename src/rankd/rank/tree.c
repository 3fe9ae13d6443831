/* tree.c -- see tree.h. */

#include "tree.h"

#include <assert.h>
#include <string.h>

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

/* A full leaf lends to a neighbour with this many free slots or more. Afterwards both must have
 * room, or two full leaves could lend each other the same entry for ever. */
#define LEND_ROOM (LEAF_MAX / 8)
_Static_assert(LEND_ROOM >= 2, "leaves are too small to lend");

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

/* ---- Keys -------------------------------------------------------------------------------- */

static uint64_t big_endian(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

static void write_words(const uint64_t *key, uint8_t *bytes, uint32_t words)
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

void rk_key_read(rk_key *key, const uint8_t *bytes, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++) {
        memcpy(&key->word[i], bytes + (size_t)i * 8, 8);
        key->word[i] = big_endian(key->word[i]);
    }
}

void rk_key_write(const rk_key *key, uint8_t *bytes, uint32_t words)
{
    write_words(key->word, bytes, words);
}

bool rk_key_same(const rk_key *a, const rk_key *b, uint32_t words)
{
    return words_same(a->word, b->word, words);
}

/* ---- Layout ------------------------------------------------------------------------------ */

static uint32_t *leaf_players(const rk_tree *tree, const leaf *node)
{
    return (uint32_t *)(node->words + (size_t)LEAF_MAX * tree->words);
}

static void **inner_children(const rk_tree *tree, const inner *node)
{
    return (void **)(node->words + (size_t)INNER_MAX * tree->words);
}

static uint32_t *inner_before(const rk_tree *tree, const inner *node)
{
    return (uint32_t *)(inner_children(tree, node) + INNER_MAX);
}

static uint32_t *inner_players(const rk_tree *tree, const inner *node)
{
    return inner_before(tree, node) + INNER_MAX;
}

static size_t whole_lines(size_t bytes)
{
    return (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES * CACHE_LINE_BYTES;
}

void rk_tree_init(rk_tree *tree, uint32_t words, const rk_players *players)
{
    assert(1 <= words && words <= RK_KEY_WORDS_MAX);
    *tree = (rk_tree){.players = players, .words = words};
    rk_pool_init(&tree->leaves, whole_lines(sizeof(leaf) + LEAF_MAX * (8 * words + 4)));
    rk_pool_init(&tree->inners, whole_lines(sizeof(inner) + INNER_MAX * (8 * words + 16)));
}

void rk_tree_clear(rk_tree *tree)
{
    rk_pool_clear(&tree->leaves);
    rk_pool_clear(&tree->inners);
    rk_tree_init(tree, tree->words, tree->players);
}

/* ---- Comparison -------------------------------------------------------------------------- */

/* Without branches: in a search the answers are random, and a wrong guess costs more than both
 * comparisons. `words` is a constant wherever this is inlined on the fast path. */
static inline bool words_less(const uint64_t *a, const uint64_t *b, uint32_t words)
{
    bool less = a[words - 1] < b[words - 1];
    for (uint32_t i = words - 1; i-- > 0;)
        less = (a[i] < b[i]) | ((a[i] == b[i]) & less);
    return less;
}

static int compare_players(const rk_tree *tree, uint32_t a, uint32_t b)
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
    default: return search(keys, key, steps, 5);
    }
}

static uint32_t keys_below_in_leaf(const leaf *node, const uint64_t *key, uint32_t words)
{
    return keys_below(node->words, key, LEAF_STEPS, words);
}

static uint32_t separators_below(const inner *node, const uint64_t *key, uint32_t words)
{
    return keys_below(node->words + words, key, INNER_STEPS, words);
}

/* Mark the key slots from `first` up to `end` as unused. */
static void set_unused(uint64_t *keys, uint32_t words, uint32_t first, uint32_t end)
{
    memset(keys + (size_t)first * words, 0xFF, (size_t)(end - first) * words * 8);
}

/* Among entries whose keys equal the target's, from `low` on: the first whose player does not
 * come before the target's (or, with `through`, comes after it). */
static uint32_t past_ties(const rk_tree *tree, const uint64_t *keys, const uint32_t *players,
                          uint32_t low, uint32_t count, target t, bool through)
{
    if (t.player == RK_NOBODY)
        return low;
    uint32_t high = low;
    while (high < count && words_same(keys + (size_t)high * tree->words, t.words, tree->words))
        high++;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = compare_players(tree, players[middle], t.player);
        if (order < 0 || (through && order == 0))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Which child the target belongs under: the last whose separator is not beyond it. */
static uint32_t find_child(const rk_tree *tree, const inner *node, target t)
{
    const uint32_t words = tree->words, count = node->count - 1;
    const uint32_t at = separators_below(node, t.words, words);
    if (at >= count || !words_same(node->words + (size_t)(at + 1) * words, t.words, words))
        return at;
    return past_ties(tree, node->words + words, inner_players(tree, node) + 1, at, count, t, true);
}

static uint32_t find_entry(const rk_tree *tree, const leaf *node, target t)
{
    const uint32_t words = tree->words;
    const uint32_t at = keys_below_in_leaf(node, t.words, words);
    if (at >= node->count || !words_same(node->words + (size_t)at * words, t.words, words))
        return at;
    return past_ties(tree, node->words, leaf_players(tree, node), at, node->count, t, false);
}

static bool is_entry(const rk_tree *tree, const leaf *node, uint32_t at, target t)
{
    return at < node->count && leaf_players(tree, node)[at] == t.player
           && words_same(node->words + (size_t)at * tree->words, t.words, tree->words);
}

/* ---- Walking down ------------------------------------------------------------------------ */

/* Find the target's leaf, noting the steps. */
static leaf *descend(const rk_tree *tree, target t, rk_path *path)
{
    void *node = tree->root;
    for (uint32_t level = 0; level < tree->height; level++) {
        inner *at = node;
        path->node[level] = at;
        path->at[level] = find_child(tree, at, t);
        node = inner_children(tree, at)[path->at[level]];
    }
    path->node[tree->height] = node;
    path->height = tree->height;
    return node;
}

/* How many entries lie before the leaf at the end of the path. */
static uint64_t passed(const rk_tree *tree, const rk_path *path)
{
    uint64_t count = 0;
    for (uint32_t level = 0; level < tree->height; level++)
        count += inner_before(tree, path->node[level])[path->at[level]];
    return count;
}

/* A path found earlier, before other entries came and went: does it still lead from the root to
 * a leaf, and does the target lie between that leaf's first entry and its last? Then it is the
 * target's path, whatever happened in between. */
static bool still_leads_to(const rk_tree *tree, const rk_path *path, target t)
{
    if (path->height != tree->height || path->node[0] != tree->root)
        return false;
    for (uint32_t level = 0; level < tree->height; level++) {
        const inner *at = path->node[level];
        if (path->at[level] >= at->count
            || inner_children(tree, at)[path->at[level]] != path->node[level + 1])
            return false;
    }
    const leaf *end = path->node[tree->height];
    return end->count > 0 && words_less(end->words, t.words, tree->words)
           && words_less(t.words, end->words + (size_t)(end->count - 1) * tree->words, tree->words);
}

static leaf *locate(const rk_tree *tree, target t, rk_path *path)
{
    if (path->height != RK_PATH_UNKNOWN && still_leads_to(tree, path, t))
        return path->node[tree->height];
    return descend(tree, t, path);
}

uint64_t rk_tree_offset(const rk_tree *tree, const rk_key *key, uint32_t player, bool *found)
{
    const target t = {key->word, player};
    if (found != NULL)
        *found = false;
    if (tree->root == NULL)
        return 0;
    rk_path path;
    const leaf *node = descend(tree, t, &path);
    const uint32_t at = find_entry(tree, node, t);
    if (found != NULL)
        *found = is_entry(tree, node, at, t);
    return passed(tree, &path) + at;
}

uint64_t rk_tree_offset_on(const rk_tree *tree, const rk_key *key, uint32_t player,
                           const rk_path *path)
{
    const target t = {key->word, player};
    if (path->height == RK_PATH_UNKNOWN)
        return rk_tree_offset(tree, key, player, NULL);
    const leaf *node = path->node[tree->height];
    const uint32_t at = find_entry(tree, node, t);
    /* Warming compares keys alone. Where equal keys go on in the next leaf, players decide. */
    if (at == node->count && node->next != NULL
        && words_same(node->next->words, t.words, tree->words))
        return rk_tree_offset(tree, key, player, NULL);
    return passed(tree, path) + at;
}

static const leaf *leaf_at(const rk_tree *tree, uint64_t *offset)
{
    void *node = tree->root;
    for (uint32_t level = 0; level < tree->height; level++) {
        const inner *at = node;
        const uint32_t *before = inner_before(tree, at);
        uint32_t child = 0;
        while (child + 1 < at->count && before[child + 1] <= *offset)
            child++;
        *offset -= before[child];
        node = inner_children(tree, at)[child];
    }
    return node;
}

uint64_t rk_tree_read(const rk_tree *tree, uint64_t offset, uint64_t count, uint8_t *keys,
                      uint32_t *players)
{
    if (offset >= tree->count)
        return 0;
    if (count > tree->count - offset)
        count = tree->count - offset;
    const leaf *node = leaf_at(tree, &offset);
    for (uint64_t done = 0; done < count; node = node->next, offset = 0) {
        if (node->next != NULL)
            __builtin_prefetch(node->next);
        for (uint32_t i = (uint32_t)offset; i < node->count && done < count; i++, done++) {
            if (players != NULL)
                players[done] = leaf_players(tree, node)[i];
            if (keys != NULL)
                write_words(node->words + (size_t)i * tree->words,
                            keys + done * tree->words * 8, tree->words);
        }
    }
    return count;
}

/* ---- Warming ----------------------------------------------------------------------------- */

static inline void warm_lines(const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += CACHE_LINE_BYTES)
        __builtin_prefetch((const uint8_t *)from + i);
}

/* Only the lines that a search of the keys will look at first: the middle, the quarters, ... */
static inline void warm_search(const uint64_t *keys, uint32_t steps, uint32_t words)
{
    for (uint32_t at = (1u << (steps - 3)) - 1; at < (1u << steps) - 1; at += 1u << (steps - 3))
        __builtin_prefetch(keys + (size_t)at * words);
}

void rk_tree_warm(const rk_tree *tree, const rk_key *keys, uint32_t count, bool to_change,
                  rk_path *paths)
{
    const uint32_t height = tree->height, words = tree->words;
    for (uint32_t i = 0; i < count; i++) {
        paths[i].node[0] = tree->root;
        paths[i].height = tree->root == NULL ? RK_PATH_UNKNOWN : height;
    }
    for (uint32_t level = 0; level < height; level++) {
        for (uint32_t i = 0; i < count; i++) {
            const inner *node = paths[i].node[level];
            const uint32_t at = separators_below(node, keys[i].word, words);
            void *child = inner_children(tree, node)[at];
            paths[i].at[level] = at;
            paths[i].node[level + 1] = child;
            if (level + 1 < height) {
                warm_search(((const inner *)child)->words + words, INNER_STEPS, words);
                warm_lines(inner_before(tree, child), INNER_MAX * sizeof(uint32_t));
            } else if (to_change)
                warm_lines(child, sizeof(leaf) + LEAF_MAX * (8 * words + 4));
            else
                warm_search(((const leaf *)child)->words, LEAF_STEPS, words);
        }
    }
}

/* ---- Making room ------------------------------------------------------------------------- */

static void open_gap(uint64_t *words, uint32_t width, uint32_t at, uint32_t count)
{
    memmove(words + (size_t)(at + 1) * width, words + (size_t)at * width,
            (size_t)(count - at) * width * 8);
}

/* Put a child into an inner node that has room, at place `at` > 0. The counts of the others stay
 * as they are: its entries were under the child before it. */
static void add_child(const rk_tree *tree, inner *node, uint32_t at, void *child,
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

static void drop_child(const rk_tree *tree, inner *node, uint32_t at)
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

static void set_separator(const rk_tree *tree, inner *node, uint32_t at, const uint64_t *key,
                          uint32_t player)
{
    memcpy(node->words + (size_t)at * tree->words, key, (size_t)tree->words * 8);
    inner_players(tree, node)[at] = player;
}

/* Move the first `count` entries of `right` to the end of `left`. */
static void shift_left(const rk_tree *tree, leaf *left, leaf *right, uint32_t count)
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
static void shift_right(const rk_tree *tree, leaf *left, leaf *right, uint32_t count)
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
static void shift_children_left(const rk_tree *tree, inner *left, inner *right, uint32_t count)
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

static void shift_children_right(const rk_tree *tree, inner *left, inner *right, uint32_t count)
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
static void leaf_boundary_moved(const rk_tree *tree, inner *parent, uint32_t right)
{
    void **children = inner_children(tree, parent);
    const leaf *to = children[right];
    set_separator(tree, parent, right, to->words, leaf_players(tree, to)[0]);
    uint32_t *before = inner_before(tree, parent);
    before[right] = before[right - 1] + ((const leaf *)children[right - 1])->count;
}

static void inner_boundary_moved(const rk_tree *tree, inner *parent, uint32_t right)
{
    void **children = inner_children(tree, parent);
    const inner *to = children[right];
    set_separator(tree, parent, right, to->words, inner_players(tree, to)[0]);
    uint32_t *before = inner_before(tree, parent);
    before[right] = before[right - 1] + ((const inner *)children[right - 1])->total;
}

/* A neighbour with this much room takes some of a full leaf's entries and saves a split: leaves
 * stay fuller, and memory is what a hundred million players are short of. */
static bool has_room(const leaf *node)
{
    return node->count <= LEAF_MAX - LEND_ROOM;
}

static bool lend_to_neighbour(const rk_tree *tree, inner *parent, uint32_t at)
{
    void **children = inner_children(tree, parent);
    leaf *full = children[at];
    if (at > 0 && has_room(children[at - 1])) {
        leaf *left = children[at - 1];
        shift_left(tree, left, full, (full->count - left->count + 1) / 2);
        leaf_boundary_moved(tree, parent, at);
        return true;
    }
    if (at + 1 < parent->count && has_room(children[at + 1])) {
        leaf *right = children[at + 1];
        shift_right(tree, full, right, (full->count - right->count + 1) / 2);
        leaf_boundary_moved(tree, parent, at + 1);
        return true;
    }
    return false;
}

static leaf *new_leaf(rk_tree *tree)
{
    leaf *node = rk_pool_take(&tree->leaves);
    node->count = 0;
    node->next = NULL;
    set_unused(node->words, tree->words, 0, LEAF_MAX);
    return node;
}

static inner *new_inner(rk_tree *tree)
{
    inner *node = rk_pool_take(&tree->inners);
    node->count = node->total = 0;
    set_unused(node->words, tree->words, 0, INNER_MAX);
    return node;
}

static void split_leaf(rk_tree *tree, inner *parent, uint32_t at)
{
    leaf *full = inner_children(tree, parent)[at];
    leaf *right = new_leaf(tree);
    right->next = full->next;
    shift_right(tree, full, right, full->count / 2);
    full->next = right;
    add_child(tree, parent, at + 1, right, right->words, leaf_players(tree, right)[0],
              inner_before(tree, parent)[at] + full->count);
}

static void split_inner(rk_tree *tree, inner *parent, uint32_t at)
{
    inner *full = inner_children(tree, parent)[at];
    inner *right = new_inner(tree);
    shift_children_right(tree, full, right, full->count / 2);
    add_child(tree, parent, at + 1, right, right->words, inner_players(tree, right)[0],
              inner_before(tree, parent)[at] + full->total);
}

/* A new root above the old one, which is full and is split at once. */
static void grow(rk_tree *tree)
{
    inner *root = new_inner(tree);
    const bool was_leaf = tree->height == 0;
    const leaf *as_leaf = tree->root;
    const inner *as_inner = tree->root;
    root->count = 1;
    root->total = (uint32_t)tree->count;
    inner_children(tree, root)[0] = tree->root;
    inner_before(tree, root)[0] = 0;
    set_separator(tree, root, 0, was_leaf ? as_leaf->words : as_inner->words,
                  was_leaf ? leaf_players(tree, as_leaf)[0] : inner_players(tree, as_inner)[0]);
    tree->root = root;
    tree->height++;
    if (was_leaf)
        split_leaf(tree, root, 0);
    else
        split_inner(tree, root, 0);
}

/* The leaf at the end of the path is full. One change towards room in it, each whole in itself;
 * the caller walks down again. Memory is reserved before anything moves. */
static rk_status make_room(rk_tree *tree, const rk_path *path)
{
    uint32_t level = tree->height; /* of the topmost node that must be split */
    while (level > 0 && ((const inner *)path->node[level - 1])->count == INNER_MAX)
        level--;
    inner *parent = level == 0 ? NULL : path->node[level - 1];
    const bool leaf_only = level == tree->height;
    if (parent != NULL && leaf_only && lend_to_neighbour(tree, parent, path->at[level - 1]))
        return RK_OK;
    if (rk_pool_reserve(&tree->leaves, 1) != RK_OK || rk_pool_reserve(&tree->inners, 2) != RK_OK)
        return RK_NO_MEMORY;
    if (parent == NULL)
        grow(tree);
    else if (leaf_only)
        split_leaf(tree, parent, path->at[level - 1]);
    else
        split_inner(tree, parent, path->at[level - 1]);
    return RK_OK;
}

/* ---- Insert ------------------------------------------------------------------------------ */

static void count_on_path(const rk_tree *tree, const rk_path *path, uint32_t change)
{
    for (uint32_t level = 0; level < tree->height; level++) {
        inner *node = path->node[level];
        uint32_t *before = inner_before(tree, node);
        node->total += change;
        /* Over all slots, used or not, and with signed numbers: so it is a few vector operations
         * without a branch. */
        const int32_t at = (int32_t)path->at[level];
        for (int32_t i = 0; i < (int32_t)INNER_MAX; i++)
            before[i] += i > at ? change : 0;
    }
}

/* The first entry of a leaf changed: tell every node whose separator it is. */
static void first_changed(const rk_tree *tree, const rk_path *path, const leaf *node)
{
    for (uint32_t level = tree->height; level-- > 0;) {
        set_separator(tree, path->node[level], path->at[level], node->words,
                      leaf_players(tree, node)[0]);
        if (path->at[level] > 0)
            return;
    }
}

static rk_status plant(rk_tree *tree)
{
    if (rk_pool_reserve(&tree->leaves, 1) != RK_OK)
        return RK_NO_MEMORY;
    tree->root = new_leaf(tree);
    return RK_OK;
}

static void put_in(const rk_tree *tree, leaf *node, uint32_t at, target t)
{
    uint32_t *players = leaf_players(tree, node);
    open_gap(node->words, tree->words, at, node->count);
    memmove(players + at + 1, players + at, (node->count - at) * sizeof *players);
    memcpy(node->words + (size_t)at * tree->words, t.words, (size_t)tree->words * 8);
    players[at] = t.player;
    node->count++;
}

rk_status rk_tree_insert(rk_tree *tree, const rk_key *key, uint32_t player, rk_path *path,
                         uint64_t *offset)
{
    assert(player != RK_NOBODY);
    if (tree->root == NULL && plant(tree) != RK_OK)
        return RK_NO_MEMORY;
    const target t = {key->word, player};
    for (;;) {
        leaf *node = locate(tree, t, path);
        const uint32_t at = find_entry(tree, node, t);
        *offset = passed(tree, path) + at;
        if (is_entry(tree, node, at, t))
            return RK_PRESENT;
        if (node->count == LEAF_MAX) {
            if (make_room(tree, path) != RK_OK)
                return RK_NO_MEMORY;
            path->height = RK_PATH_UNKNOWN;
            continue;
        }
        put_in(tree, node, at, t);
        count_on_path(tree, path, 1);
        if (at == 0)
            first_changed(tree, path, node);
        tree->count++;
        return RK_OK;
    }
}

/* ---- Remove ------------------------------------------------------------------------------ */

/* Two neighbouring leaves, one of them less than half full: make them one, or share evenly. */
static void mend_leaves(rk_tree *tree, inner *parent, uint32_t right_at)
{
    leaf *left = inner_children(tree, parent)[right_at - 1];
    leaf *right = inner_children(tree, parent)[right_at];
    const uint32_t both = left->count + right->count;
    if (both <= LEAF_MAX) {
        shift_left(tree, left, right, right->count);
        left->next = right->next;
        drop_child(tree, parent, right_at);
        rk_pool_give(&tree->leaves, right);
        return;
    }
    if (left->count < right->count)
        shift_left(tree, left, right, both / 2 - left->count);
    else
        shift_right(tree, left, right, both / 2 - right->count);
    leaf_boundary_moved(tree, parent, right_at);
}

static void mend_inners(rk_tree *tree, inner *parent, uint32_t right_at)
{
    inner *left = inner_children(tree, parent)[right_at - 1];
    inner *right = inner_children(tree, parent)[right_at];
    const uint32_t both = left->count + right->count;
    if (both <= INNER_MAX) {
        shift_children_left(tree, left, right, right->count);
        drop_child(tree, parent, right_at);
        rk_pool_give(&tree->inners, right);
        return;
    }
    if (left->count < right->count)
        shift_children_left(tree, left, right, both / 2 - left->count);
    else
        shift_children_right(tree, left, right, both / 2 - right->count);
    inner_boundary_moved(tree, parent, right_at);
}

static void shrink(rk_tree *tree)
{
    while (tree->height > 0 && ((inner *)tree->root)->count == 1) {
        inner *root = tree->root;
        tree->root = inner_children(tree, root)[0];
        tree->height--;
        rk_pool_give(&tree->inners, root);
    }
}

/* A leaf lost an entry: from there up, mend every node that is less than half full. */
static void mend(rk_tree *tree, const rk_path *path, const leaf *node)
{
    bool short_of = node->count < LEAF_MIN;
    for (uint32_t level = tree->height; level-- > 0 && short_of;) {
        inner *parent = path->node[level];
        const uint32_t right_at = path->at[level] > 0 ? path->at[level] : 1;
        if (level + 1 == tree->height)
            mend_leaves(tree, parent, right_at);
        else
            mend_inners(tree, parent, right_at);
        short_of = parent->count < INNER_MIN;
    }
    shrink(tree);
}

static void take_from(const rk_tree *tree, leaf *node, uint32_t at)
{
    uint32_t *players = leaf_players(tree, node);
    const uint32_t tail = node->count - at - 1;
    memmove(node->words + (size_t)at * tree->words, node->words + (size_t)(at + 1) * tree->words,
            (size_t)tail * tree->words * 8);
    memmove(players + at, players + at + 1, tail * sizeof *players);
    node->count--;
    set_unused(node->words, tree->words, node->count, node->count + 1);
}

rk_status rk_tree_remove(rk_tree *tree, const rk_key *key, uint32_t player, rk_path *path,
                         uint64_t *offset)
{
    *offset = 0;
    if (tree->root == NULL)
        return RK_ABSENT;
    const target t = {key->word, player};
    leaf *node = locate(tree, t, path);
    const uint32_t at = find_entry(tree, node, t);
    *offset = passed(tree, path) + at;
    if (!is_entry(tree, node, at, t))
        return RK_ABSENT;
    take_from(tree, node, at);
    count_on_path(tree, path, UINT32_MAX); /* minus one */
    if (at == 0 && node->count > 0)
        first_changed(tree, path, node);
    tree->count--;
    mend(tree, path, node);
    return RK_OK;
}

/* ---- Bulk load --------------------------------------------------------------------------- */

/* A little room in every node, or the first updates would split them all. */
static uint32_t bulk_fill(uint32_t max)
{
    return max - max / 10;
}

void rk_loader_init(rk_loader *loader, rk_tree *tree)
{
    assert(tree->count == 0);
    rk_tree_clear(tree);
    *loader = (rk_loader){.tree = tree, .fill = bulk_fill(LEAF_MAX)};
}

static bool follows(const rk_tree *tree, const leaf *last, target t)
{
    const uint64_t *key = last->words + (size_t)(last->count - 1) * tree->words;
    if (!words_same(key, t.words, tree->words))
        return words_less(key, t.words, tree->words);
    return compare_players(tree, leaf_players(tree, last)[last->count - 1], t.player) < 0;
}

rk_status rk_loader_append(rk_loader *loader, const rk_key *key, uint32_t player)
{
    rk_tree *tree = loader->tree;
    leaf *last = loader->last;
    const target t = {key->word, player};
    if (last != NULL && !follows(tree, last, t))
        return RK_UNORDERED;
    if (last == NULL || last->count == loader->fill) {
        if (rk_pool_reserve(&tree->leaves, 1) != RK_OK)
            return RK_NO_MEMORY;
        leaf *fresh = new_leaf(tree);
        if (last == NULL)
            loader->first = fresh;
        else
            last->next = fresh;
        loader->last = last = fresh;
        loader->leaves++;
    }
    put_in(tree, last, last->count, t);
    loader->count++;
    return RK_OK;
}

/* How many of `left` nodes the next parent takes: a full load, but never so many that the rest
 * would be less than half a parent. */
static uint32_t next_share(uint64_t left, uint32_t fill, uint32_t max)
{
    if (left <= max)
        return (uint32_t)left;
    return left - fill >= max / 2 ? fill : (uint32_t)(left / 2);
}

/* The last leaf may be nearly empty: share with the one before it, or join it. Returns how many
 * leaves there are then. */
static uint64_t even_out(rk_tree *tree, void **leaves, uint64_t count)
{
    leaf *last = leaves[count - 1];
    if (count == 1 || last->count >= LEAF_MIN)
        return count;
    leaf *left = leaves[count - 2];
    const uint32_t both = left->count + last->count;
    if (both > LEAF_MAX) {
        shift_right(tree, left, last, both / 2 - last->count);
        return count;
    }
    shift_left(tree, left, last, last->count);
    left->next = NULL;
    rk_pool_give(&tree->leaves, last);
    return count - 1;
}

static void adopt(const rk_tree *tree, inner *parent, void *child, bool is_leaf)
{
    const leaf *as_leaf = child;
    const inner *as_inner = child;
    const uint32_t at = parent->count++;
    inner_children(tree, parent)[at] = child;
    inner_before(tree, parent)[at] = parent->total;
    parent->total += is_leaf ? as_leaf->count : as_inner->total;
    set_separator(tree, parent, at, is_leaf ? as_leaf->words : as_inner->words,
                  is_leaf ? leaf_players(tree, as_leaf)[0] : inner_players(tree, as_inner)[0]);
}

/* One level of parents over the `count` nodes, in place: nodes[i] becomes the i-th parent. */
static uint64_t build_level(rk_tree *tree, void **nodes, uint64_t count, bool leaves)
{
    uint64_t parents = 0;
    const uint32_t fill = bulk_fill(INNER_MAX);
    for (uint64_t done = 0; done < count; parents++) {
        inner *parent = new_inner(tree);
        uint32_t share = next_share(count - done, fill, INNER_MAX);
        for (; share > 0; share--)
            adopt(tree, parent, nodes[done++], leaves);
        nodes[parents] = parent;
    }
    return parents;
}

rk_status rk_loader_finish(rk_loader *loader)
{
    rk_tree *tree = loader->tree;
    if (loader->leaves == 0)
        return RK_OK;
    const size_t bytes = (size_t)loader->leaves * sizeof(void *);
    void **nodes = rk_allocate(bytes);
    if (nodes == NULL)
        return RK_NO_MEMORY;
    /* Every parent has two children or more, so all levels together are fewer than the leaves;
     * with the fan-out there is, far fewer. */
    const uint64_t inners = loader->leaves / (INNER_MIN) * 2 + RK_HEIGHT_MAX;
    if (rk_pool_reserve(&tree->inners, inners) != RK_OK) {
        rk_release(nodes, bytes);
        return RK_NO_MEMORY;
    }
    uint64_t count = 0;
    for (leaf *node = loader->first; node != NULL; node = node->next)
        nodes[count++] = node;
    count = even_out(tree, nodes, count);
    for (bool leaves = true; count > 1; leaves = false, tree->height++)
        count = build_level(tree, nodes, count, leaves);
    tree->root = nodes[0];
    tree->count = loader->count;
    rk_release(nodes, bytes);
    return RK_OK;
}

void rk_loader_abandon(rk_loader *loader)
{
    rk_tree_clear(loader->tree);
    loader->first = loader->last = NULL;
    loader->leaves = loader->count = 0;
}

size_t rk_tree_bytes(const rk_tree *tree)
{
    return rk_pool_bytes(&tree->leaves) + rk_pool_bytes(&tree->inners);
}

/* ---- Check ------------------------------------------------------------------------------- */

typedef struct {
    const leaf *previous; /* the leaf met before, in order */
} walk;

static int check_leaf(const rk_tree *tree, const leaf *node, bool is_root, walk *w)
{
    if (node->count > LEAF_MAX || (!is_root && node->count < LEAF_MIN))
        return 3;
    for (uint32_t i = 0; i + 1 < node->count; i++) {
        const uint64_t *a = node->words + (size_t)i * tree->words;
        const uint64_t *b = a + tree->words;
        const uint32_t *players = leaf_players(tree, node);
        if (!(words_less(a, b, tree->words)
              || (words_same(a, b, tree->words)
                  && compare_players(tree, players[i], players[i + 1]) < 0)))
            return 1;
    }
    if (w->previous != NULL) {
        if (w->previous->next != node)
            return 2;
        if (node->count > 0
            && !follows(tree, w->previous, (target){node->words, leaf_players(tree, node)[0]}))
            return 1;
    }
    w->previous = node;
    return 0;
}

static int check_node(const rk_tree *tree, const void *node, uint32_t level, walk *w,
                      uint64_t *count)
{
    const bool is_root = level == 0;
    if (level == tree->height) {
        *count = ((const leaf *)node)->count;
        return check_leaf(tree, node, is_root, w);
    }
    const inner *at = node;
    if (at->count > INNER_MAX || at->count < (is_root ? 2 : INNER_MIN))
        return 3;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < at->count; i++) {
        if (inner_before(tree, at)[i] != sum)
            return 4;
        const void *child = inner_children(tree, at)[i];
        const bool leaves = level + 1 == tree->height;
        const uint64_t *first = leaves ? ((const leaf *)child)->words
                                       : ((const inner *)child)->words;
        const uint32_t player = leaves ? leaf_players(tree, child)[0]
                                       : inner_players(tree, child)[0];
        if (!words_same(first, at->words + (size_t)i * tree->words, tree->words)
            || player != inner_players(tree, at)[i])
            return 5;
        uint64_t under;
        const int broken = check_node(tree, child, level + 1, w, &under);
        if (broken != 0)
            return broken;
        sum += under;
    }
    *count = sum;
    return sum == at->total ? 0 : 4;
}

int rk_tree_check(const rk_tree *tree)
{
    if (tree->root == NULL)
        return tree->count == 0 ? 0 : 4;
    walk w = {0};
    uint64_t count;
    const int broken = check_node(tree, tree->root, 0, &w, &count);
    if (broken != 0)
        return broken;
    if (w.previous->next != NULL)
        return 2;
    return count == tree->count ? 0 : 4;
}

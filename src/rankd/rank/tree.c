/* tree.c -- see tree.h: walking down, making room, and mending what became too empty. */

#include "nodes.h"

/* A full leaf lends to a neighbour with this many free slots or more. Afterwards both must have
 * room, or two full leaves could lend each other the same entry for ever. */
#define LEND_ROOM (LEAF_MAX / 8)
_Static_assert(LEND_ROOM >= 2, "leaves are too small to lend");

/* ---- Keys -------------------------------------------------------------------------------- */

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

/* ---- Life -------------------------------------------------------------------------------- */

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

/* ---- Search in a node -------------------------------------------------------------------- */

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

size_t rk_tree_bytes(const rk_tree *tree)
{
    return rk_pool_bytes(&tree->leaves) + rk_pool_bytes(&tree->inners);
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

uint64_t rk_tree_offset_near(const rk_tree *tree, const rk_key *key, uint32_t player,
                             rk_path *path)
{
    if (tree->root == NULL)
        return 0;
    const target t = {key->word, player};
    const leaf *node = locate(tree, t, path);
    return passed(tree, path) + find_entry(tree, node, t);
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

/* tree_check.c -- see tree.h: whether the numbered invariants hold. */

#include "nodes.h"

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

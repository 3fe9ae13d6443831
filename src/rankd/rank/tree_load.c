/* tree_load.c -- see tree.h: filling an empty tree from sorted entries, bottom up.
 *
 * Leaves are filled one after another and chained; when the last entry is in, levels of inner
 * nodes are laid over them until one node is left. Nothing is searched and nothing is moved. */

#include "nodes.h"

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

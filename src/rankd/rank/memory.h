/* memory.h -- where the native structures get their memory, and how it is counted.
 *
 * Everything in this folder allocates through these functions, for three reasons: the bytes in
 * use can be told exactly; big blocks are asked to lie on huge pages, because a random walk over
 * gigabytes otherwise pays for a page-table walk at every step; and a test can make the k-th
 * allocation fail, for every k, and look whether anything broke.
 *
 * Not thread-safe. Never calls into Python. */

#ifndef RANKD_MEMORY_H
#define RANKD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an operation that can run out of memory or room answers. */
typedef enum {
    RK_OK = 0,
    RK_NO_MEMORY,   /* nothing was changed */
    RK_PRESENT,     /* it was there already; nothing was changed */
    RK_ABSENT,      /* it was not there; nothing was changed */
    RK_FULL,        /* a named limit is reached; nothing was changed */
    RK_UNORDERED    /* a bulk load met an entry that does not follow the one before */
} rk_status;

/* How many searches wait for memory side by side: enough that one hides behind the others, few
 * enough that what they fetched is still near when its turn comes. */
#define RK_GROUP 32u

static inline uint32_t rk_group(uint64_t left)
{
    return left < RK_GROUP ? (uint32_t)left : RK_GROUP;
}

/* Allocate; NULL when there is no memory. The bytes are not cleared. */
void *rk_allocate(size_t bytes);

/* Give back what rk_allocate returned, with the size it was asked for. NULL is fine. */
void rk_release(void *block, size_t bytes);

/* Bytes allocated by this process through this file and not yet released. */
size_t rk_bytes_in_use(void);

/* How many allocations there have been: what a test needs to number them. */
uint64_t rk_allocations(void);

/* Let the k-th allocation from now fail, and no other; 0 lets none fail. */
void rk_fail_allocation(uint64_t k);

/* ---- Pool: nodes of one size, handed out and taken back ---------------------------------- */

typedef struct rk_chunk rk_chunk;

/* Nodes are cut from chunks that grow with the pool, so a ranking of one player costs one node
 * and a ranking of a hundred million lies on huge pages. A chunk is given back only with the
 * whole pool: a tree that shrank keeps its nodes for the next time it grows. */
typedef struct {
    size_t node_bytes;    /* a multiple of 64, so that nodes begin on a cache line */
    rk_chunk *chunks;     /* newest first; nodes are cut from the newest */
    void *free_nodes;     /* a list through the first word of each */
    uint64_t free_count;
    uint64_t cut_count;   /* nodes ever cut from chunks */
} rk_pool;

/* Make an empty pool. Allocates nothing. */
void rk_pool_init(rk_pool *pool, size_t node_bytes);

/* See to it that the next `nodes` calls of rk_pool_take succeed. */
rk_status rk_pool_reserve(rk_pool *pool, uint64_t nodes);

/* A node, not cleared. The caller has reserved it. O(1). */
void *rk_pool_take(rk_pool *pool);

/* Give a node back. O(1). */
void rk_pool_give(rk_pool *pool, void *node);

/* Bytes of all nodes ever cut: what the pool really occupies. */
size_t rk_pool_bytes(const rk_pool *pool);

/* Release every chunk. The pool is empty afterwards and can be used again. */
void rk_pool_clear(rk_pool *pool);

#endif

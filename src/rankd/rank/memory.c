/* memory.c -- see memory.h. */

#include "memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define CACHE_LINE_BYTES ((size_t)64)
#define CHUNK_BYTES_MAX ((size_t)64 << 20)

static size_t bytes_in_use;
static uint64_t allocations;
static uint64_t fail_at;

/* ---- Blocks ------------------------------------------------------------------------------ */

static void *aligned(size_t alignment, size_t bytes)
{
    void *block = NULL;
    return posix_memalign(&block, alignment, bytes) == 0 ? block : NULL;
}

void *rk_allocate(size_t bytes)
{
    allocations++;
    if (fail_at != 0 && --fail_at == 0)
        return NULL;
    void *block;
    if (bytes < HUGE_PAGE_BYTES) {
        block = bytes % CACHE_LINE_BYTES == 0 ? aligned(CACHE_LINE_BYTES, bytes) : malloc(bytes);
    } else {
        block = aligned(HUGE_PAGE_BYTES, bytes);
#if defined(MADV_HUGEPAGE)
        if (block != NULL)
            (void)madvise(block, bytes, MADV_HUGEPAGE); /* a wish; a refusal costs only time */
#endif
    }
    if (block != NULL)
        bytes_in_use += bytes;
    return block;
}

void rk_release(void *block, size_t bytes)
{
    if (block == NULL)
        return;
    assert(bytes_in_use >= bytes);
    bytes_in_use -= bytes;
    free(block);
}

size_t rk_bytes_in_use(void)
{
    return bytes_in_use;
}

uint64_t rk_allocations(void)
{
    return allocations;
}

void rk_fail_allocation(uint64_t k)
{
    fail_at = k;
}

/* ---- Pool -------------------------------------------------------------------------------- */

struct rk_chunk {
    rk_chunk *older;
    uint8_t *nodes;
    size_t bytes;
    size_t cut_bytes;
};

void rk_pool_init(rk_pool *pool, size_t node_bytes)
{
    assert(node_bytes % CACHE_LINE_BYTES == 0);
    *pool = (rk_pool){.node_bytes = node_bytes};
}

static uint64_t uncut(const rk_pool *pool)
{
    const rk_chunk *chunk = pool->chunks;
    return chunk == NULL ? 0 : (chunk->bytes - chunk->cut_bytes) / pool->node_bytes;
}

static void *cut(rk_pool *pool)
{
    rk_chunk *chunk = pool->chunks;
    void *node = chunk->nodes + chunk->cut_bytes;
    chunk->cut_bytes += pool->node_bytes;
    pool->cut_count++;
    return node;
}

/* A quarter of what there is, so that at most a fifth lies idle; never less than is needed. */
static size_t next_chunk_bytes(const rk_pool *pool, uint64_t nodes)
{
    size_t bytes = (size_t)pool->cut_count * pool->node_bytes / 4;
    if (bytes > CHUNK_BYTES_MAX)
        bytes = CHUNK_BYTES_MAX;
    if (bytes < nodes * pool->node_bytes)
        bytes = (size_t)nodes * pool->node_bytes;
    if (bytes >= HUGE_PAGE_BYTES)
        bytes = (bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    return bytes / pool->node_bytes * pool->node_bytes;
}

rk_status rk_pool_reserve(rk_pool *pool, uint64_t nodes)
{
    if (pool->free_count + uncut(pool) >= nodes)
        return RK_OK;
    const uint64_t missing = nodes - pool->free_count - uncut(pool);
    rk_chunk *chunk = rk_allocate(sizeof *chunk);
    if (chunk == NULL)
        return RK_NO_MEMORY;
    chunk->bytes = next_chunk_bytes(pool, missing);
    chunk->nodes = rk_allocate(chunk->bytes);
    if (chunk->nodes == NULL) {
        rk_release(chunk, sizeof *chunk);
        return RK_NO_MEMORY;
    }
    while (uncut(pool) > 0) /* the rest of the old chunk, or it would never be used */
        rk_pool_give(pool, cut(pool));
    chunk->cut_bytes = 0;
    chunk->older = pool->chunks;
    pool->chunks = chunk;
    return RK_OK;
}

void *rk_pool_take(rk_pool *pool)
{
    if (pool->free_count == 0) {
        assert(uncut(pool) > 0);
        return cut(pool);
    }
    void *node = pool->free_nodes;
    memcpy(&pool->free_nodes, node, sizeof(void *));
    pool->free_count--;
    return node;
}

void rk_pool_give(rk_pool *pool, void *node)
{
    memcpy(node, &pool->free_nodes, sizeof(void *));
    pool->free_nodes = node;
    pool->free_count++;
}

size_t rk_pool_bytes(const rk_pool *pool)
{
    return (size_t)pool->cut_count * pool->node_bytes;
}

void rk_pool_clear(rk_pool *pool)
{
    for (rk_chunk *chunk = pool->chunks, *older; chunk != NULL; chunk = older) {
        older = chunk->older;
        rk_release(chunk->nodes, chunk->bytes);
        rk_release(chunk, sizeof *chunk);
    }
    rk_pool_init(pool, pool->node_bytes);
}

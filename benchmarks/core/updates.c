/* updates.c -- the native list without Python: what a node size or a layout costs.
 *
 * Question: µs for one random update and one random rank in batches of 4096, and bytes a player,
 * for the sizes the core was compiled with. `sh benchmarks/core/run.sh` compiles and runs it for
 * several; docs/decisions/0002 has the answers that decided. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ranklist.h"

#define BATCH 4096
#define BATCHES 100
#define SCORES 1000000u

static uint64_t state = UINT64_C(88172645463325252);

static uint64_t random64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint32_t players[BATCH], previous[BATCH], ranks[BATCH];
static uint8_t keys[BATCH * 16];
static uint64_t position;

static void fill(rk_list *list, uint64_t count)
{
    rk_loader loader;
    rk_loader_init(&loader, &list->tree);
    for (uint64_t i = 0; i < count; i++) {
        const rk_key key = {{i * SCORES / count, ++position}};
        const uint32_t player = (uint32_t)i;
        rk_key_write(&key, keys, 2);
        if (rk_list_load(list, &loader, 1, &player, keys) != RK_OK)
            abort();
    }
    if (rk_list_load_finish(list, &loader) != RK_OK)
        abort();
}

static double updates(rk_list *list, uint64_t count)
{
    double spent = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        for (int i = 0; i < BATCH; i++) {
            const rk_key key = {{random64() % SCORES, ++position}};
            players[i] = (uint32_t)(random64() % count);
            rk_key_write(&key, keys + 16 * i, 2);
        }
        rk_status status;
        const double start = now();
        rk_list_put_many(list, BATCH, players, keys, previous, ranks, &status);
        spent += now() - start;
    }
    return spent / (BATCHES * BATCH) * 1e6;
}

static double rank_queries(const rk_list *list, uint64_t count)
{
    double spent = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        for (int i = 0; i < BATCH; i++)
            players[i] = (uint32_t)(random64() % count);
        const double start = now();
        rk_list_rank_many(list, BATCH, players, ranks);
        spent += now() - start;
    }
    return spent / (BATCHES * BATCH) * 1e6;
}

int main(int argc, char **argv)
{
    const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 4000000;
    rk_list list;
    rk_list_init(&list, 2, false, NULL);
    fill(&list, count);
    double update = 1e9, rank = 1e9;
    for (int i = 0; i < 8; i++) {
        const double u = updates(&list, count), r = rank_queries(&list, count);
        update = u < update ? u : update;
        rank = r < rank ? r : rank;
    }
    printf("%8.3f  %8.3f  %8.1f\n", update, rank, (double)rk_list_bytes(&list) / (double)count);
    rk_list_clear(&list);
    return 0;
}

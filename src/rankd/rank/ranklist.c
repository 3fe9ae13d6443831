/* ranklist.c -- see ranklist.h. */

#include "ranklist.h"

#include <assert.h>
#include <string.h>

#define READ_BLOCK 256u

static const rk_path UNKNOWN = {.height = RK_PATH_UNKNOWN};

void rk_list_init(rk_list *list, uint32_t words, bool dense, const rk_players *players)
{
    assert(RK_LIST_WORDS_MIN <= words && words <= RK_KEY_WORDS_MAX);
    list->dense = dense;
    rk_tree_init(&list->tree, words, players);
    rk_tree_init(&list->distinct, words - 1, NULL);
    rk_keys_init(&list->keys, words);
}

void rk_list_clear(rk_list *list)
{
    rk_tree_clear(&list->tree);
    rk_tree_clear(&list->distinct);
    rk_keys_clear(&list->keys);
}

/* ---- Keys of players --------------------------------------------------------------------- */

bool rk_list_key(const rk_list *list, uint32_t player, rk_key *key)
{
    return rk_keys_get(&list->keys, player, key);
}

/* ---- Distinct scores --------------------------------------------------------------------- */

static bool score_in_use(const rk_list *list, const rk_key *key)
{
    rk_key lowest = *key, found;
    lowest.word[list->tree.words - 1] = 0;
    uint8_t bytes[RK_KEY_BYTES_MAX];
    const uint64_t offset = rk_tree_offset(&list->tree, &lowest, RK_NOBODY, NULL);
    if (rk_tree_read(&list->tree, offset, 1, bytes, NULL) == 0)
        return false;
    rk_key_read(&found, bytes, list->tree.words);
    return rk_key_same(&found, key, list->distinct.words);
}

static rk_status add_score(rk_list *list, const rk_key *key)
{
    uint64_t offset;
    rk_path path = UNKNOWN;
    const rk_status status = rk_tree_insert(&list->distinct, key, 0, &path, &offset);
    return status == RK_PRESENT ? RK_OK : status;
}

static void drop_score(rk_list *list, const rk_key *key)
{
    uint64_t offset;
    rk_path path = UNKNOWN;
    if (!score_in_use(list, key))
        (void)rk_tree_remove(&list->distinct, key, 0, &path, &offset);
}

/* ---- One at a time ----------------------------------------------------------------------- */

static bool may_enter(const rk_list *list, uint32_t player)
{
    return list->tree.players == NULL ? player != RK_NOBODY
                                      : rk_players_has(list->tree.players, player);
}

/* The new entry goes in first, since only that can fail; the old one then goes out. */
static rk_status add_entry(rk_list *list, uint32_t player, const rk_key *key, rk_path *path,
                           uint64_t *offset)
{
    rk_status status = rk_tree_insert(&list->tree, key, player, path, offset);
    if (status == RK_OK && list->dense) {
        status = add_score(list, key);
        uint64_t ignored;
        if (status != RK_OK)
            (void)rk_tree_remove(&list->tree, key, player, path, &ignored);
    }
    return status;
}

static void drop_entry(rk_list *list, uint32_t player, const rk_key *key, rk_path *path,
                       uint64_t *offset)
{
    const rk_status status = rk_tree_remove(&list->tree, key, player, path, offset);
    assert(status == RK_OK);
    (void)status;
    if (list->dense)
        drop_score(list, key);
}

static rk_status put_first(rk_list *list, uint32_t player, const rk_key *key, rk_path *path,
                           rk_move *move)
{
    if (!may_enter(list, player))
        return RK_ABSENT;
    rk_status status = rk_keys_reserve(&list->keys, player, key);
    uint64_t offset;
    if (status == RK_OK)
        status = add_entry(list, player, key, path, &offset);
    if (status != RK_OK)
        return status;
    rk_keys_set(&list->keys, player, key);
    *move = (rk_move){0, offset + 1};
    return RK_OK;
}

rk_status rk_list_put_on(rk_list *list, uint32_t player, const rk_key *key, rk_path *from_path,
                         rk_path *to_path, rk_move *move)
{
    rk_key old;
    if (!rk_keys_get(&list->keys, player, &old))
        return put_first(list, player, key, to_path, move);
    uint64_t from, to;
    if (rk_key_same(&old, key, list->tree.words)) {
        to = rk_tree_offset(&list->tree, key, player, NULL);
        *move = (rk_move){to + 1, to + 1};
        return RK_OK;
    }
    rk_status status = rk_keys_reserve(&list->keys, player, key);
    if (status == RK_OK)
        status = add_entry(list, player, key, to_path, &to);
    if (status != RK_OK)
        return status;
    drop_entry(list, player, &old, from_path, &from);
    rk_keys_set(&list->keys, player, key);
    /* `from` was counted with the new entry in, `to` with the old one in. */
    *move = to <= from ? (rk_move){from, to + 1} : (rk_move){from + 1, to};
    return RK_OK;
}

rk_status rk_list_put(rk_list *list, uint32_t player, const rk_key *key, rk_move *move)
{
    rk_path from = UNKNOWN, to = UNKNOWN;
    return rk_list_put_on(list, player, key, &from, &to, move);
}

rk_status rk_list_remove(rk_list *list, uint32_t player, uint64_t *previous_rank)
{
    rk_key key;
    if (!rk_keys_get(&list->keys, player, &key))
        return RK_ABSENT;
    uint64_t offset;
    rk_path path = UNKNOWN;
    drop_entry(list, player, &key, &path, &offset);
    (void)rk_keys_remove(&list->keys, player);
    *previous_rank = offset + 1;
    return RK_OK;
}

uint64_t rk_list_find(const rk_list *list, uint32_t player, rk_key *key)
{
    if (!rk_list_key(list, player, key))
        return 0;
    return rk_tree_offset(&list->tree, key, player, NULL) + 1;
}

uint64_t rk_list_rank(const rk_list *list, uint32_t player)
{
    rk_key key;
    return rk_list_find(list, player, &key);
}

uint64_t rk_list_below(const rk_list *list, const rk_key *key)
{
    return rk_tree_offset(&list->tree, key, RK_NOBODY, NULL);
}

uint64_t rk_list_scores_below(const rk_list *list, const rk_key *key)
{
    assert(list->dense);
    return rk_tree_offset(&list->distinct, key, RK_NOBODY, NULL);
}

/* ---- Many at once ------------------------------------------------------------------------ */

/* The keys these players have now. One who has none gets the greatest key there can be. */
static void gather_keys(const rk_list *list, const uint32_t *players, uint32_t count, rk_key *keys,
                        bool *found)
{
    rk_keys_warm(&list->keys, players, count);
    for (uint32_t i = 0; i < count; i++) {
        found[i] = rk_list_key(list, players[i], &keys[i]);
        if (!found[i])
            memset(&keys[i], 0xFF, sizeof keys[i]);
    }
}

uint64_t rk_list_put_many(rk_list *list, uint64_t count, const uint32_t *players,
                          const uint8_t *keys, uint32_t *previous, uint32_t *ranks,
                          rk_status *status)
{
    const uint32_t words = list->tree.words;
    *status = RK_OK;
    rk_key from[RK_GROUP], to[RK_GROUP];
    bool found[RK_GROUP];
    rk_path from_paths[RK_GROUP], to_paths[RK_GROUP];
    for (uint64_t done = 0; done < count;) {
        const uint32_t group = rk_group(count - done);
        gather_keys(list, players + done, group, from, found);
        for (uint32_t i = 0; i < group; i++)
            rk_key_read(&to[i], keys + (done + i) * words * 8, words);
        rk_tree_warm(&list->tree, from, group, true, from_paths);
        rk_tree_warm(&list->tree, to, group, true, to_paths);
        for (uint32_t i = 0; i < group; i++, done++) {
            rk_move move;
            *status = rk_list_put_on(list, players[done], &to[i], &from_paths[i], &to_paths[i],
                                     &move);
            if (*status != RK_OK)
                return done;
            if (previous != NULL)
                previous[done] = (uint32_t)move.previous_rank;
            if (ranks != NULL)
                ranks[done] = (uint32_t)move.rank;
        }
    }
    return count;
}

static void write_key(const rk_list *list, const rk_key *key, bool found, uint8_t *bytes)
{
    if (found)
        rk_key_write(key, bytes, list->tree.words);
    else
        memset(bytes, 0, (size_t)list->tree.words * 8);
}

void rk_list_find_many(const rk_list *list, uint64_t count, const uint32_t *players,
                       uint32_t *ranks, uint8_t *keys)
{
    rk_key group_keys[RK_GROUP];
    bool found[RK_GROUP];
    rk_path paths[RK_GROUP];
    for (uint64_t done = 0; done < count;) {
        const uint32_t group = rk_group(count - done);
        gather_keys(list, players + done, group, group_keys, found);
        rk_tree_warm(&list->tree, group_keys, group, false, paths);
        for (uint32_t i = 0; i < group; i++, done++) {
            ranks[done] = found[i] ? (uint32_t)rk_tree_offset_on(&list->tree, &group_keys[i],
                                                                 players[done], &paths[i]) + 1
                                   : 0;
            if (keys != NULL)
                write_key(list, &group_keys[i], found[i], keys + done * list->tree.words * 8);
        }
    }
}

void rk_list_rank_many(const rk_list *list, uint64_t count, const uint32_t *players,
                       uint32_t *ranks)
{
    rk_list_find_many(list, count, players, ranks, NULL);
}

/* ---- Bulk load --------------------------------------------------------------------------- */

static rk_status load_one(rk_list *list, rk_loader *loader, uint32_t player, const rk_key *key)
{
    rk_key known;
    if (!may_enter(list, player))
        return RK_ABSENT;
    if (rk_keys_get(&list->keys, player, &known))
        return RK_PRESENT;
    rk_status status = rk_keys_reserve(&list->keys, player, key);
    if (status == RK_OK)
        status = rk_loader_append(loader, key, player);
    if (status == RK_OK && list->dense)
        status = add_score(list, key);
    if (status == RK_OK)
        rk_keys_set(&list->keys, player, key);
    return status;
}

void rk_list_expect(rk_list *list, uint64_t count)
{
    const rk_players *players = list->tree.players;
    if (players != NULL && players->issued > 0)
        rk_keys_expect(&list->keys, count, players->issued - 1);
}

rk_status rk_list_load(rk_list *list, rk_loader *loader, uint64_t count, const uint32_t *players,
                       const uint8_t *keys)
{
    const uint32_t words = list->tree.words;
    for (uint64_t done = 0; done < count;) {
        const uint32_t group = rk_group(count - done);
        rk_keys_warm(&list->keys, players + done, group);
        for (uint32_t i = 0; i < group; i++, done++) {
            rk_key key;
            rk_key_read(&key, keys + done * words * 8, words);
            const rk_status status = load_one(list, loader, players[done], &key);
            if (status != RK_OK)
                return status;
        }
    }
    return RK_OK;
}

rk_status rk_list_load_finish(rk_list *list, rk_loader *loader)
{
    assert(loader->tree == &list->tree);
    rk_keys_expect(&list->keys, 0, 0);
    return rk_loader_finish(loader);
}

size_t rk_list_bytes(const rk_list *list)
{
    return rk_tree_bytes(&list->tree) + rk_tree_bytes(&list->distinct)
           + rk_keys_bytes(&list->keys);
}

/* ---- Check ------------------------------------------------------------------------------- */

typedef struct {
    uint64_t scores;
    rk_key last;
    bool any;
} tally;

static const char *check_entry(const rk_list *list, uint32_t player, const rk_key *key, tally *t)
{
    rk_key kept;
    if (!rk_list_key(list, player, &kept) || !rk_key_same(&kept, key, list->tree.words))
        return "(L1)";
    if (list->tree.players != NULL && !rk_players_has(list->tree.players, player))
        return "(L3)";
    if (!t->any || !rk_key_same(&t->last, key, list->distinct.words)) {
        bool found = false;
        if (list->dense)
            (void)rk_tree_offset(&list->distinct, key, 0, &found);
        if (list->dense && !found)
            return "(L2)";
        t->scores++;
    }
    t->last = *key;
    t->any = true;
    return NULL;
}

static const char *check_entries(const rk_list *list)
{
    const uint32_t words = list->tree.words;
    uint8_t keys[READ_BLOCK * RK_KEY_BYTES_MAX];
    uint32_t players[READ_BLOCK];
    tally t = {0};
    for (uint64_t offset = 0, got; offset < list->tree.count; offset += got) {
        got = rk_tree_read(&list->tree, offset, READ_BLOCK, keys, players);
        for (uint64_t i = 0; i < got; i++) {
            rk_key key;
            rk_key_read(&key, keys + i * words * 8, words);
            const char *broken = check_entry(list, players[i], &key, &t);
            if (broken != NULL)
                return broken;
        }
    }
    if (list->keys.count != list->tree.count)
        return "(L1)";
    return list->distinct.count == (list->dense ? t.scores : 0) ? NULL : "(L2)";
}

const char *rk_list_check(const rk_list *list)
{
    static const char *const tree_says[] = {NULL,       "tree (1)", "tree (2)",
                                            "tree (3)", "tree (4)", "tree (5)"};
    static const char *const distinct_says[] = {NULL,           "distinct (1)", "distinct (2)",
                                                "distinct (3)", "distinct (4)", "distinct (5)"};
    const char *broken = tree_says[rk_tree_check(&list->tree)];
    if (broken == NULL)
        broken = distinct_says[rk_tree_check(&list->distinct)];
    if (broken == NULL)
        broken = rk_keys_check(&list->keys);
    return broken == NULL ? check_entries(list) : broken;
}

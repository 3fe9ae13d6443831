/* judge.c -- see judge.h. */

#include "judge.h"

#include <assert.h>
#include <string.h>

#define COLUMNS_MAX 4

/* What one submission comes to, as things stand. */
typedef struct {
    rk_verdict verdict;
    bool present; /* the player has an entry, with the key `from` */
    bool moves;   /* it gets the key `to` */
    rk_key from;
    rk_key to;
} judgement;

/* ---- Judging ----------------------------------------------------------------------------- */

static uint32_t columns_of(const rk_list *list)
{
    return list->tree.words - 1;
}

static int64_t score_of(uint64_t word, uint64_t mask)
{
    return (int64_t)(word ^ mask);
}

static void read_scores(const rk_rules *rules, const rk_key *key, uint32_t columns, int64_t *scores)
{
    for (uint32_t i = 0; i < columns; i++)
        scores[i] = score_of(key->word[i], rules->mask[i]);
}

static void make_key(const rk_rules *rules, const int64_t *scores, uint64_t position,
                     uint32_t columns, rk_key *key)
{
    for (uint32_t i = 0; i < columns; i++)
        key->word[i] = (uint64_t)scores[i] ^ rules->mask[i];
    key->word[columns] = (position * rules->tie_factor) ^ rules->mask[columns];
}

/* Whether the first key's scores are better. */
static bool is_better(const rk_key *key, const rk_key *than, uint32_t columns)
{
    for (uint32_t i = 0; i < columns; i++)
        if (key->word[i] != than->word[i])
            return key->word[i] < than->word[i];
    return false;
}

/* Add what the player has; false if a sum does not fit. */
static bool add_scores(const rk_rules *rules, const rk_key *key, uint32_t columns, int64_t *scores)
{
    bool fits = true;
    for (uint32_t i = 0; i < columns; i++)
        fits &= !__builtin_add_overflow(scores[i], score_of(key->word[i], rules->mask[i]),
                                        &scores[i]);
    return fits;
}

static rk_verdict decide(const rk_rules *rules, uint32_t columns, bool adds, uint64_t position,
                         int64_t *scores, judgement *judged)
{
    if (adds && judged->present && !add_scores(rules, &judged->from, columns, scores))
        return RK_OVERFLOW;
    if (scores[0] < rules->low || scores[0] > rules->high)
        return RK_OUT_OF_BOUNDS;
    make_key(rules, scores, position, columns, &judged->to);
    if (!judged->present || adds || rules->rule == RK_LATEST)
        return RK_COUNTED;
    return rules->rule == RK_BEST && is_better(&judged->to, &judged->from, columns)
               ? RK_COUNTED
               : RK_NOT_BETTER;
}

static void judge(const rk_list *list, const rk_rules *rules, const rk_run *run, uint64_t at,
                  judgement *judged)
{
    const uint32_t columns = columns_of(list);
    const bool delta = run->deltas != NULL && run->deltas[at] != 0;
    assert(!(delta && rules->rule == RK_FIRST));
    int64_t scores[COLUMNS_MAX];
    memcpy(scores, run->scores + at * columns, columns * sizeof *scores);
    judged->present = rk_list_key(list, run->players[at], &judged->from);
    judged->moves = false;
    if (run->barred != NULL && run->barred[at] != 0) {
        judged->verdict = (rk_verdict)run->barred[at];
        return;
    }
    judged->verdict = decide(rules, columns, delta || rules->rule == RK_SUM, run->positions[at],
                             scores, judged);
    judged->moves = judged->verdict == RK_COUNTED
                    && !(judged->present && rk_key_same(&judged->from, &judged->to, columns));
}

/* ---- Warming ----------------------------------------------------------------------------- */

/* Searches that walk down the tree together. */
typedef struct {
    uint32_t count;
    rk_key keys[2 * RK_GROUP];
    rk_path paths[2 * RK_GROUP];
} walk;

/* The ways of one submission, NULL where none was looked for. */
typedef struct {
    rk_path *from;
    rk_path *to;
} ways;

static rk_path *join(walk *together, const rk_key *key)
{
    together->keys[together->count] = *key;
    return &together->paths[together->count++];
}

/* Judge the group as if nothing in it happened before: that is true of nearly all, and tells which
 * nodes will be needed. A way that turns out to be the wrong one only costs a search. */
static void warm(const rk_list *list, const rk_rules *rules, const rk_run *run, uint64_t first,
                 uint32_t group, walk *moving, walk *staying, ways *found)
{
    moving->count = staying->count = 0;
    rk_keys_warm(&list->keys, run->players + first, group);
    for (uint32_t i = 0; i < group; i++) {
        judgement judged;
        judge(list, rules, run, first + i, &judged);
        walk *const beside = judged.moves ? moving : staying;
        found[i].from = judged.present ? join(beside, &judged.from) : NULL;
        found[i].to = judged.moves ? join(beside, &judged.to) : NULL;
    }
    rk_tree_warm(&list->tree, moving->keys, moving->count, true, moving->paths);
    rk_tree_warm(&list->tree, staying->keys, staying->count, false, staying->paths);
}

/* ---- Moving ------------------------------------------------------------------------------ */

/* The rank of an entry with this key, where equal scores share one. */
static uint64_t shared_rank(const rk_list *list, rk_ties ties, const rk_key *key)
{
    if (ties == RK_DENSE)
        return rk_list_scores_below(list, key) + 1;
    rk_key first = *key;
    first.word[columns_of(list)] = 0;
    return rk_list_below(list, &first) + 1;
}

static rk_status move_entry(rk_list *list, uint32_t player, const judgement *judged,
                            const ways *found, rk_move *move)
{
    rk_path no_from = {.height = RK_PATH_UNKNOWN}, no_to = no_from;
    rk_path *from = found->from != NULL ? found->from : &no_from;
    rk_path *to = found->to != NULL ? found->to : &no_to;
    *move = (rk_move){0, 0};
    if (judged->moves)
        return rk_list_put_on(list, player, &judged->to, from, to, move);
    if (judged->present)
        move->rank = rk_tree_offset_near(&list->tree, &judged->from, player, from) + 1;
    move->previous_rank = move->rank;
    return RK_OK;
}

static rk_status settle(rk_list *list, rk_ties ties, uint32_t player, const judgement *judged,
                        const ways *found, rk_move *move)
{
    if (ties == RK_ORDINAL)
        return move_entry(list, player, judged, found, move);
    *move = (rk_move){0, 0};
    if (judged->present)
        move->previous_rank = move->rank = shared_rank(list, ties, &judged->from);
    if (!judged->moves)
        return RK_OK;
    rk_move ordinal;
    const rk_status status = move_entry(list, player, judged, found, &ordinal);
    if (status == RK_OK)
        move->rank = shared_rank(list, ties, &judged->to);
    return status;
}

static void tell(const rk_list *list, const rk_rules *rules, const judgement *judged,
                 const rk_move *move, uint64_t at, const rk_outcomes *outcomes)
{
    const uint32_t columns = columns_of(list);
    int64_t *scores = outcomes->scores + at * columns;
    int64_t *previous = outcomes->previous_scores + at * columns;
    outcomes->verdicts[at] = (uint8_t)judged->verdict;
    outcomes->ranks[at] = (uint32_t)move->rank;
    outcomes->previous_ranks[at] = (uint32_t)move->previous_rank;
    outcomes->totals[at] = (uint32_t)list->tree.count;
    memset(scores, 0, columns * sizeof *scores);
    memset(previous, 0, columns * sizeof *previous);
    if (judged->present)
        read_scores(rules, &judged->from, columns, previous);
    if (judged->moves)
        read_scores(rules, &judged->to, columns, scores);
    else if (judged->present)
        memcpy(scores, previous, columns * sizeof *scores);
}

uint64_t rk_judge_many(rk_list *list, const rk_rules *rules, uint64_t count, const rk_run *run,
                       const rk_outcomes *outcomes, rk_status *status)
{
    *status = RK_OK;
    walk moving, staying;
    ways found[RK_GROUP];
    for (uint64_t done = 0; done < count;) {
        const uint32_t group = rk_group(count - done);
        warm(list, rules, run, done, group, &moving, &staying, found);
        for (uint32_t i = 0; i < group; i++, done++) {
            judgement judged;
            rk_move move;
            judge(list, rules, run, done, &judged);
            *status = settle(list, rules->ties, run->players[done], &judged, &found[i], &move);
            if (*status != RK_OK)
                return done;
            tell(list, rules, &judged, &move, done, outcomes);
        }
    }
    return count;
}

/* judge.h -- submissions judged where the entries are: look up, decide, move, many at once.
 *
 * A submission asks that scores be counted. What it does depends on the scores its player has, so
 * whoever judges elsewhere has to fetch the player's key first and bring the new one back. Here
 * all of it happens in one place, and the searches of a whole group wait for memory together.
 *
 * Nothing is known of boards. A rule is a number; scores are signed 64-bit numbers, turned into
 * words of a key, and back, by an exclusive or. Less is better, of keys and so of their words:
 * which direction a column has need not be known either.
 *
 * The definition is rankd.model (judge and Order), which says the same of one submission at a
 * time; the tests hold this file to it. */

#ifndef RANKD_JUDGE_H
#define RANKD_JUDGE_H

#include "ranklist.h"

/* How new scores combine with those a player has. */
typedef enum {
    RK_BEST = 0, /* the better stays, all columns compared as one */
    RK_LATEST,   /* the new ones replace the old */
    RK_SUM,      /* they are added, column by column */
    RK_FIRST     /* the old ones stay */
} rk_rule;

/* How equal scores share ranks. */
typedef enum {
    RK_ORDINAL = 0, /* they do not: 1 2 3 4 */
    RK_STANDARD,    /* 1 2 2 4 */
    RK_DENSE        /* 1 2 2 3; only where the list is dense */
} rk_ties;

/* What became of a submission. */
typedef enum {
    RK_COUNTED = 0,
    RK_NOT_BETTER,
    RK_OUT_OF_BOUNDS, /* the first column would lie outside its bounds */
    RK_OVERFLOW,      /* a column would not fit 64 bits; told before bounds are */
    RK_HELD,          /* barred: it waits for a decision */
    RK_REFUSED        /* barred: it never counts */
} rk_verdict;

typedef struct {
    rk_rule rule;
    int64_t low, high;               /* bounds of the first column, both included */
    uint64_t mask[RK_KEY_WORDS_MAX]; /* for each column and, last, the position */
    uint64_t tie_factor;             /* 1: positions order equal scores; 0: players do */
    rk_ties ties;
} rk_rules;

/* Submissions in their order, a column for each question. */
typedef struct {
    const uint32_t *players;
    const int64_t *scores;     /* as many for each as a key has words, less one */
    const uint8_t *deltas;     /* where not 0, scores are added whatever the rule; may be NULL */
    const uint64_t *positions;
    const uint8_t *barred;     /* where not 0, the verdict: RK_HELD or RK_REFUSED; may be NULL */
} rk_run;

/* What a run did, in the same order. Scores are 0 where there is no entry. */
typedef struct {
    uint8_t *verdicts;
    int64_t *scores;
    int64_t *previous_scores;
    uint32_t *ranks; /* just after its own move; 0: no entry */
    uint32_t *previous_ranks;
    uint32_t *totals;
} rk_outcomes;

/* Judge one after another, and move what counts; each sees what those before it did. Scores that
 * stay the same leave the key as it is, and a barred submission leaves the entry as it is. Deltas
 * under RK_FIRST are a mistake of the caller. Returns how many were done; if that is fewer than
 * `count`, `status` tells what stopped the next one, as rk_list_put_many does. O(log n) each. */
uint64_t rk_judge_many(rk_list *list, const rk_rules *rules, uint64_t count, const rk_run *run,
                       const rk_outcomes *outcomes, rk_status *status);

#endif

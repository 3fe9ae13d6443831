/* rules.h -- a board's rules against cheating, judged over runs of submissions.
 *
 * A rule compares a number observed of a submission with a limit: the gain of a minute, the time
 * since the submission before, a score beside those of the field. For that a board keeps a row of
 * a few bytes for each player, with the fields that its rules need and no others, and one
 * histogram of scores. Rows lie in chunks, by the player's number; the numbers are those of
 * ../rank/players.h, so ids are exact.
 *
 * Everything is a function of the submissions in their order. There is no clock, no floating-point
 * number and no randomness: sums stop at the largest 64-bit number, logarithms are counts of
 * 1/256. The twin in Python is oracle.py; the tests compare the two.
 *
 * A minute is the slot of ten seconds that a time lies in and the five slots before it. It so
 * covers 50 to 60 seconds, and its sums are never more than those of the true 60 seconds.
 *
 * The usual gain is a streaming median of logarithms. It moves towards each gain, never past it,
 * by 1/8 of a doubling; by twice the last step where that went the same way. So one gain beyond
 * all measure moves it little, and a lasting change is followed after a few. Among the first eight
 * gains steps begin at half a doubling: seven reach any gain from any other.
 *
 * A savepoint is undone by a journal of rows as they were, last change first. Every call of
 * rl_judge writes it too, so that a call without memory changes nothing.
 *
 * Invariants, checked by rl_check():
 *   (R1) A player number is in use exactly where its row has a flag.
 *   (R2) `known` is the number of rows with the flag RL_SEEN.
 *   (R3) Every field of a row is within its bounds.
 *   (R4) The flag RL_FORGOTTEN is there only while a savepoint is.
 *   (R5) The histogram's sums agree with `scores`.
 *
 * Not thread-safe. Never calls into Python. */

#ifndef RANKD_RULES_H
#define RANKD_RULES_H

#include "../rank/players.h"

#define RL_RULES_MAX 24u
#define RL_SLOTS 6

/* Fields of a row, in the order of their bytes, and the histogram. See conditions.py. */
#define RL_FLAGS 1u
#define RL_TIME 2u
#define RL_VALUE 4u
#define RL_GAINS 8u
#define RL_COUNTS 16u
#define RL_USUAL 32u
#define RL_HISTOGRAM 64u

/* Flags. A row that was forgotten since the savepoint has the last one alone: its number must not
 * be given to another player, for the journal speaks of it. */
#define RL_SEEN 1u
#define RL_COUNTED 2u
#define RL_VALUED 4u
#define RL_FORGOTTEN 8u

/* Histogram: one bucket for scores that are 0 or less, then sixteen for every doubling. */
#define RL_BUCKETS 1009u
#define RL_BUCKET_PLACES 1024u

typedef enum {
    RL_GAIN_PER_MINUTE = 0,
    RL_SUBMISSIONS_PER_MINUTE,
    RL_SECONDS_BETWEEN,
    RL_FIRST_SCORE,
    RL_OUTLIER_SELF,
    RL_OUTLIER_FIELD,
    RL_PER_SECOND_OF_RUN
} rl_name;

/* How a new score combines with the one that counts. */
typedef enum { RL_BEST = 0, RL_LATEST, RL_SUM, RL_FIRST } rl_score_rule;

typedef enum { RL_FINE = 0, RL_FLAG, RL_HOLD, RL_REFUSE } rl_verdict;

/* A submission that counts without being judged. */
typedef enum {
    RL_SCORE = 0, /* by the board's rule */
    RL_DELTA,     /* added */
    RL_REPLACES   /* whatever was before */
} rl_kind;

typedef struct {
    rl_name name;
    rl_verdict then;
    int64_t limit;     /* units, submissions or microseconds; factors in thousandths */
    uint32_t quantile; /* in ten-thousandths */
    uint32_t after;    /* gains or scores to be seen before the first is judged */
} rl_rule;

typedef struct {
    uint32_t fields;
    uint32_t gain_bytes, count_bytes; /* of a slot: 0, 2, 4 or 8 */
    uint32_t row_bytes;
} rl_layout;

/* A rule that a submission of the last run broke. */
typedef struct {
    uint64_t place; /* of the submission in its run */
    uint32_t rule;
    int64_t observed, limit;
} rl_breach;

typedef struct {
    rl_rule rules[RL_RULES_MAX];
    uint32_t rule_count;
    rl_score_rule score_rule;
    bool higher_wins;
    int64_t low, high; /* bounds of a score: beyond them it counts nowhere */
    rl_layout layout;
    rk_players players;
    uint8_t **chunks; /* of rows; see rules.c for their sizes */
    uint32_t chunk_count, chunk_room;
    uint64_t known;
    uint64_t *histogram; /* a Fenwick tree; NULL without RL_HISTOGRAM */
    uint64_t scores;     /* in the histogram */
    uint8_t *journal;
    uint64_t journal_count, journal_room; /* in entries */
    bool saving;
    rl_breach *breaches;
    uint64_t breach_count, breach_room;
} rl_state;

/* Submissions in their order. */
typedef struct {
    const char *const *ids;
    const uint32_t *lengths;
    const int64_t *scores;  /* of the first column; or a delta */
    const uint8_t *deltas;  /* 1: a delta; NULL: none is */
    const int64_t *times;   /* microseconds */
    const int64_t *elapsed; /* of the run, microseconds; 0: no run; NULL: none */
} rl_run;

/* Make the state of a board without submissions. The rules are copied; scores have no bounds. */
rk_status rl_init(rl_state *state, const rl_rule *rules, uint32_t count, rl_score_rule score_rule,
                  bool higher_wins, const rl_layout *layout, uint64_t seed);

/* Release all memory. Nothing but rl_init may follow. */
void rl_clear(rl_state *state);

/* Judge a run and count it: an rl_verdict for each submission. What was broken, ordered by place,
 * is in `breaches` until the next call. If it fails, nothing has changed. O(rules) each. */
rk_status rl_judge(rl_state *state, uint64_t count, const rl_run *run, uint8_t *verdicts);

/* Count a submission that is not judged: an approved one, or an operator's. It is none of any
 * minute, and no pause ends with it; only by RL_SCORE and RL_DELTA it is a gain and in the
 * histogram. If it fails, nothing has changed. O(1). */
rk_status rl_count(rl_state *state, const char *id, size_t length, int64_t number, rl_kind kind);

/* Start a player anew. RK_ABSENT if it is not known, RK_NO_MEMORY only with a savepoint. O(1). */
rk_status rl_forget(rl_state *state, const char *id, size_t length);

/* Begin to remember what changes; a savepoint before this one is released. */
void rl_savepoint(rl_state *state);

/* Undo all changes since the savepoint, and end it. Needs no memory. O(changes). */
void rl_rollback(rl_state *state);

/* Keep the changes since the savepoint, and end it. O(changes). */
void rl_release(rl_state *state);

/* Make a copy with a seed of its own, without savepoint and breaches. */
rk_status rl_copy(const rl_state *from, rl_state *to, uint64_t seed);

/* Add to `to` the players of `from` whose submissions count, for other rules of the same board:
 * that they count and, where both keep it, their score times `scale`. The histogram too, where
 * both have one and the scale is 1. */
rk_status rl_redefine(const rl_state *from, rl_state *to, int64_t scale);

/* Is this number that of a known player? */
bool rl_knows(const rl_state *state, uint32_t number);

/* The row of a known player's number: row_bytes of it. */
const uint8_t *rl_row(const rl_state *state, uint32_t number);

/* Add a player with a row. RK_PRESENT if it is known, RK_UNORDERED if a field is out of bounds. */
rk_status rl_put(rl_state *state, const char *id, size_t length, const uint8_t *row);

/* Scores in one bucket; add so many to it. */
uint64_t rl_bucket(const rl_state *state, uint32_t bucket);
void rl_add_to_bucket(rl_state *state, uint32_t bucket, uint64_t count);

/* Bytes of all that this state holds. */
size_t rl_bytes(const rl_state *state);

/* 0 if the invariants hold, else the number of the first that does not. O(players). */
int rl_check(const rl_state *state);

#endif

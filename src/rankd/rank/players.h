/* players.h -- every player id once, as a 32-bit number.
 *
 * A player is in many rankings: boards times windows times segments. An id of 16 or 36 bytes in
 * each of them would be most of the memory, so an id is kept here once and the rankings hold
 * numbers. A number stays with its id until the id is removed; then it may be given to another.
 *
 * The caller removes an id only when no ranking holds its number any more.
 *
 * Invariants, checked by rk_players_check():
 *   (P1) Every number below `issued` is either in use, and found by its id, or on the free list.
 *   (P2) The free list visits each free number once.
 *   (P3) The hash holds exactly the numbers in use. */

#ifndef RANKD_PLAYERS_H
#define RANKD_PLAYERS_H

#include "hash.h"

/* Longer ids are refused: an id is a name, not a document. */
#define RK_ID_BYTES_MAX 256u

/* One number is kept back to mean "nobody". */
#define RK_NOBODY UINT32_MAX

#define RK_RECORD_CHUNKS 29

typedef struct rk_record rk_record;

typedef struct {
    rk_hash numbers;                      /* hash of id -> number */
    rk_record *records[RK_RECORD_CHUNKS]; /* by number; each chunk doubles what there is */
    uint32_t issued;                      /* numbers ever given out */
    uint32_t free_head;                   /* RK_NOBODY: none */
    uint64_t seed;                        /* so that nobody can choose ids that collide */
    size_t long_id_bytes;
} rk_players;

/* Make an empty table. Allocates nothing. */
void rk_players_init(rk_players *players, uint64_t seed);

/* Release all memory. The table is empty afterwards and can be used again. */
void rk_players_clear(rk_players *players);

/* How many ids there are. */
uint64_t rk_players_count(const rk_players *players);

/* The number of an id, or RK_NOBODY. O(1). */
uint32_t rk_players_find(const rk_players *players, const char *id, size_t length);

/* So many ids are about to come: make room to find them by, in one go. A guess does no harm. */
void rk_players_expect(rk_players *players, uint64_t count);

/* The number of an id, given now if it has none. RK_FULL when all numbers are taken.
 * The length is 1 to RK_ID_BYTES_MAX. The id is copied. O(1). */
rk_status rk_players_intern(rk_players *players, const char *id, size_t length, uint32_t *number);

/* Is this number in use? */
bool rk_players_has(const rk_players *players, uint32_t number);

/* The id of a number in use. The pointer is good until the id is removed. O(1). */
const char *rk_players_id(const rk_players *players, uint32_t number, size_t *length);

/* Before reading the ids of many numbers in use: bring their records nearer. */
void rk_players_warm(const rk_players *players, uint64_t count, const uint32_t *numbers);

/* Forget an id; its number may be given out again. RK_ABSENT if the number is not in use. O(1). */
rk_status rk_players_remove(rk_players *players, uint32_t number);

/* Which id sorts first, byte by byte: below 0, 0 or above 0. */
int rk_players_compare(const rk_players *players, uint32_t a, uint32_t b);

/* The same for many: memory is the bottleneck, and many can wait for it together. Unknown ids
 * are RK_NOBODY. */
void rk_players_find_many(const rk_players *players, uint64_t count, const char *const *ids,
                          const uint32_t *lengths, uint32_t *numbers);

/* As rk_players_intern for each in turn. If it fails, those before are interned all the same. */
rk_status rk_players_intern_many(rk_players *players, uint64_t count, const char *const *ids,
                                 const uint32_t *lengths, uint32_t *numbers);

/* Bytes the table occupies, ids included. */
size_t rk_players_bytes(const rk_players *players);

/* 0 if the invariants hold, else the number of the first that does not. O(n). */
int rk_players_check(const rk_players *players);

#endif

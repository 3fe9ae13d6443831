/* hash.h -- a map from 32-bit hashes to small values that never stops to grow.
 *
 * A plain hash table doubles: at a hundred million players that is a pause of a second and, for
 * as long, half as much memory again. This one is cut into segments of a few hundred slots. The
 * first bits of the hash choose the segment through a directory; a segment that fills grows a
 * little, and past SEGMENT_SLOTS_MAX it becomes two. So the work of growing comes in pieces of
 * microseconds, and the slots stay four fifths full or better at every size.
 *
 * Two maps are made of it: player id -> player number (players.h), where several ids may share a
 * hash and the caller compares them; and player number -> order key (ranklist.h), where the hash
 * is a scrambled number and tells everything.
 *
 * Within a segment the slots are probed one after another from a slot's home, and a removal
 * moves later ones back, so there are no tombstones.
 *
 * Invariants, checked by rk_hash_check():
 *   (H1) A segment of depth d is in 2^(D-d) neighbouring places of the directory of depth D.
 *   (H2) Every hash in a segment agrees with the segment's place in its first d bits.
 *   (H3) From a slot's home to the slot there is no empty one.
 *   (H4) A segment has an empty slot; the counts are right. */

#ifndef RANKD_HASH_H
#define RANKD_HASH_H

#include "memory.h"

/* A hash is never 0: that marks an empty slot. */
#define RK_HASH_NONE ((uint32_t)0)

typedef struct rk_segment rk_segment;

/* Beside the segment the number of its slots, so that a slot's home is known before the segment
 * itself has been fetched. */
typedef struct {
    rk_segment *segment;
    uint32_t slots;
} rk_directory;

typedef struct {
    rk_directory *directory; /* 2^depth places; NULL while the map is empty */
    uint32_t depth;
    uint32_t value_bytes;
    uint64_t count;
    size_t bytes;
} rk_hash;

/* A place in a map. Good until the map changes. */
typedef struct {
    rk_directory in;
    uint32_t slot;
} rk_place;

/* Make an empty map for values of this size. Allocates nothing. */
void rk_hash_init(rk_hash *map, uint32_t value_bytes);

/* Release all memory. The map is empty afterwards and can be used again. */
void rk_hash_clear(rk_hash *map);

/* Find the first slot with this hash; false if there is none. O(1). */
bool rk_hash_first(const rk_hash *map, uint32_t hash, rk_place *place);

/* Find the next slot with the same hash; false if there is none. O(1). */
bool rk_hash_next(const rk_hash *map, uint32_t hash, rk_place *place);

/* The value in a slot: value_bytes of it, aligned to 4. */
void *rk_hash_value(const rk_hash *map, rk_place place);

/* So many are about to come: make room for them in one go, if the map is empty. That there is no
 * memory for it does no harm, nor does a wrong guess. */
void rk_hash_expect(rk_hash *map, uint64_t count);

/* See to it that the next rk_hash_add of this hash succeeds. O(1) amortised. */
rk_status rk_hash_reserve(rk_hash *map, uint32_t hash);

/* Add a slot with this hash and return its value, to be written by the caller, who has reserved
 * it. The same hash may be added more than once. */
void *rk_hash_add(rk_hash *map, uint32_t hash);

/* Take a slot out. A segment that is three quarters empty gives memory back, if it can. */
void rk_hash_remove(rk_hash *map, rk_place place);

/* Before many searches: bring nearer what each will touch, in steps that must all be taken for all
 * searches before the next, since each needs what the last one fetched. They change nothing. */
void rk_hash_warm_directory(const rk_hash *map, uint32_t hash);
void rk_hash_warm_slots(const rk_hash *map, uint32_t hash);

/* Call with every hash there is, in no order. The map must not change meanwhile. */
void rk_hash_visit(const rk_hash *map, void (*visit)(void *context, uint32_t hash), void *context);

/* 0 if the invariants hold, else the number of the first that does not. O(n). */
int rk_hash_check(const rk_hash *map);

#endif

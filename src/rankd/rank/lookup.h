/* lookup.h -- a table from player ids to rows, in 32-bit slots that can be written to a file.
 *
 * A slot holds the row of an id in its low `row_bits` bits, and the low bits of the id's hash above
 * them, so that most ids of others are known without reading their rows. An id's home is its hash,
 * scaled to the number of slots; from there slots are probed one after another, and past the last
 * comes the first. An empty slot has all bits set, which is no row: rows are fewer than
 * 2^row_bits - 1.
 *
 * Never calls into Python. */

#ifndef RANKD_LOOKUP_H
#define RANKD_LOOKUP_H

#include "memory.h"

#define RK_SLOT_EMPTY UINT32_MAX

/* The hash of an id, keyed by a seed; the same on every machine. */
uint64_t rk_lookup_hash(uint64_t seed, const uint8_t *id, size_t length);

/* Put `count` ids, end to end in `text`, into the slots, from row `first_row` on. There is an empty
 * slot for each, and one more. O(count). */
void rk_lookup_fill(uint32_t *slots, uint64_t slot_count, uint32_t row_bits, uint64_t seed,
                    uint32_t first_row, uint64_t count, const uint8_t *text,
                    const uint16_t *lengths);

#endif

/* lookup.c -- see lookup.h. */

#include "lookup.h"

static uint64_t mix(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t little_endian(const uint8_t *bytes, size_t length)
{
    uint64_t word = 0;
    for (size_t i = 0; i < length; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

/* Eight bytes at a time through a 128-bit product, as players.c does. */
uint64_t rk_lookup_hash(uint64_t seed, const uint8_t *id, size_t length)
{
    uint64_t state = seed ^ (length * UINT64_C(0x9E3779B97F4A7C15));
    size_t i = 0;
    for (; i + 8 <= length; i += 8)
        state = mix(state ^ little_endian(id + i, 8), UINT64_C(0xE7037ED1A0B428DB) ^ seed);
    return mix(state ^ little_endian(id + i, length - i), UINT64_C(0x8EBC6AF09C88C6E3));
}

void rk_lookup_fill(uint32_t *slots, uint64_t slot_count, uint32_t row_bits, uint64_t seed,
                    uint32_t first_row, uint64_t count, const uint8_t *text,
                    const uint16_t *lengths)
{
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t hash = rk_lookup_hash(seed, text, lengths[i]);
        uint64_t slot = ((hash >> 32) * slot_count) >> 32;
        while (slots[slot] != RK_SLOT_EMPTY)
            slot = slot + 1 < slot_count ? slot + 1 : 0;
        const uint64_t tag = row_bits < 32 ? hash << row_bits : 0;
        slots[slot] = (uint32_t)tag | (first_row + (uint32_t)i);
        text += lengths[i];
    }
}

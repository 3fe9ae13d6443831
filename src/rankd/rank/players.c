/* players.c -- see players.h. */

#include "players.h"

#include <assert.h>
#include <string.h>

/* Most ids are short and lie in the record itself, so that finding one costs no further step.
 * A free record has length 0 and holds the next free number. */
#define SHORT_ID_BYTES_MAX 22u

struct rk_record {
    uint16_t length;
    char text[SHORT_ID_BYTES_MAX];
};

#define FIRST_CHUNK_BITS 4u
#define POINTER_OFFSET 6 /* in `text`: aligned to 8 in the record */

/* ---- Records ----------------------------------------------------------------------------- */

/* Chunk 0 holds numbers 0 to 15, chunk c the next 2^(c+3): a record never moves. */
static uint32_t chunk_of(uint32_t number)
{
    return 63u - (uint32_t)__builtin_clzll(((uint64_t)(number >> FIRST_CHUNK_BITS) << 1) | 1);
}

static uint32_t chunk_start(uint32_t chunk)
{
    return chunk == 0 ? 0 : UINT32_C(1) << (FIRST_CHUNK_BITS + chunk - 1);
}

static size_t chunk_bytes(uint32_t chunk)
{
    const size_t records = (size_t)1 << (FIRST_CHUNK_BITS + (chunk == 0 ? 0 : chunk - 1));
    return records * sizeof(rk_record);
}

static rk_record *record(const rk_players *players, uint32_t number)
{
    const uint32_t chunk = chunk_of(number);
    return players->records[chunk] + (number - chunk_start(chunk));
}

static const char *text_of(const rk_record *record)
{
    if (record->length <= SHORT_ID_BYTES_MAX)
        return record->text;
    const char *text;
    memcpy(&text, record->text + POINTER_OFFSET, sizeof text);
    return text;
}

static rk_status write_id(rk_players *players, uint32_t number, const char *id, size_t length)
{
    rk_record *into = record(players, number);
    if (length <= SHORT_ID_BYTES_MAX) {
        memcpy(into->text, id, length);
    } else {
        char *copy = rk_allocate(length);
        if (copy == NULL)
            return RK_NO_MEMORY;
        memcpy(copy, id, length);
        memcpy(into->text + POINTER_OFFSET, &copy, sizeof copy);
        players->long_id_bytes += length;
    }
    into->length = (uint16_t)length;
    return RK_OK;
}

static void erase_id(rk_players *players, rk_record *from)
{
    if (from->length > SHORT_ID_BYTES_MAX) {
        rk_release((char *)text_of(from), from->length);
        players->long_id_bytes -= from->length;
    }
    from->length = 0;
}

static uint32_t next_free(const rk_record *free_record)
{
    uint32_t next;
    memcpy(&next, free_record->text + POINTER_OFFSET, sizeof next);
    return next;
}

static void set_free(rk_players *players, uint32_t number)
{
    rk_record *free_record = record(players, number);
    free_record->length = 0;
    memcpy(free_record->text + POINTER_OFFSET, &players->free_head, sizeof(uint32_t));
    players->free_head = number;
}

/* ---- Hash -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Eight bytes at a time through a 128-bit product, keyed by the seed. */
static uint32_t hash_id(const rk_players *players, const char *id, size_t length)
{
    uint64_t state = players->seed ^ (length * UINT64_C(0x9E3779B97F4A7C15));
    uint64_t word;
    size_t i = 0;
    for (; i + 8 <= length; i += 8) {
        memcpy(&word, id + i, 8);
        state = mix(state ^ word, UINT64_C(0xE7037ED1A0B428DB) ^ players->seed);
    }
    word = 0;
    memcpy(&word, id + i, length - i);
    state = mix(state ^ word, UINT64_C(0x8EBC6AF09C88C6E3));
    const uint32_t hash = (uint32_t)(state ^ (state >> 32));
    return hash == RK_HASH_NONE ? 1 : hash;
}

static bool find_place(const rk_players *players, uint32_t hash, const char *id, size_t length,
                       rk_place *place, uint32_t *number)
{
    for (bool more = rk_hash_first(&players->numbers, hash, place); more;
         more = rk_hash_next(&players->numbers, hash, place)) {
        memcpy(number, rk_hash_value(&players->numbers, *place), sizeof *number);
        const rk_record *found = record(players, *number);
        if (found->length == length && memcmp(text_of(found), id, length) == 0)
            return true;
    }
    return false;
}

static uint32_t find_hashed(const rk_players *players, uint32_t hash, const char *id,
                            size_t length)
{
    rk_place place;
    uint32_t number;
    return find_place(players, hash, id, length, &place, &number) ? number : RK_NOBODY;
}

/* ---- The table --------------------------------------------------------------------------- */

void rk_players_init(rk_players *players, uint64_t seed)
{
    *players = (rk_players){.free_head = RK_NOBODY, .seed = seed};
    rk_hash_init(&players->numbers, sizeof(uint32_t));
}

void rk_players_clear(rk_players *players)
{
    for (uint32_t number = 0; number < players->issued && players->long_id_bytes > 0; number++)
        erase_id(players, record(players, number));
    for (uint32_t chunk = 0; chunk < RK_RECORD_CHUNKS; chunk++)
        rk_release(players->records[chunk], chunk_bytes(chunk));
    rk_hash_clear(&players->numbers);
    rk_players_init(players, players->seed);
}

uint64_t rk_players_count(const rk_players *players)
{
    return players->numbers.count;
}

uint32_t rk_players_find(const rk_players *players, const char *id, size_t length)
{
    return find_hashed(players, hash_id(players, id, length), id, length);
}

static rk_status reserve_record(rk_players *players, uint32_t number)
{
    const uint32_t chunk = chunk_of(number);
    if (players->records[chunk] == NULL)
        players->records[chunk] = rk_allocate(chunk_bytes(chunk));
    return players->records[chunk] == NULL ? RK_NO_MEMORY : RK_OK;
}

static rk_status add(rk_players *players, uint32_t number, uint32_t hash, const char *id,
                     size_t length)
{
    rk_status status = rk_hash_reserve(&players->numbers, hash);
    if (status == RK_OK)
        status = reserve_record(players, number);
    if (status == RK_OK)
        status = write_id(players, number, id, length);
    if (status == RK_OK)
        memcpy(rk_hash_add(&players->numbers, hash), &number, sizeof number);
    return status;
}

static rk_status intern_hashed(rk_players *players, uint32_t hash, const char *id, size_t length,
                               uint32_t *number)
{
    assert(0 < length && length <= RK_ID_BYTES_MAX);
    *number = find_hashed(players, hash, id, length);
    if (*number != RK_NOBODY)
        return RK_OK;
    if (players->free_head == RK_NOBODY) {
        if (players->issued == RK_NOBODY)
            return RK_FULL;
        const rk_status status = add(players, players->issued, hash, id, length);
        if (status == RK_OK)
            *number = players->issued++;
        return status;
    }
    const uint32_t reused = players->free_head;
    const uint32_t next = next_free(record(players, reused));
    const rk_status status = add(players, reused, hash, id, length);
    if (status == RK_OK) {
        players->free_head = next;
        *number = reused;
    }
    return status;
}

rk_status rk_players_intern(rk_players *players, const char *id, size_t length, uint32_t *number)
{
    return intern_hashed(players, hash_id(players, id, length), id, length, number);
}

/* ---- Many at once ------------------------------------------------------------------------ */

/* Each step needs what the one before fetched: so each goes over the whole group. */
static void warm(const rk_players *players, uint32_t count, const char *const *ids,
                 const uint32_t *lengths, uint32_t *hashes)
{
    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = hash_id(players, ids[i], lengths[i]);
        rk_hash_warm_directory(&players->numbers, hashes[i]);
    }
    for (uint32_t i = 0; i < count; i++)
        rk_hash_warm_slots(&players->numbers, hashes[i]);
    for (uint32_t i = 0; i < count; i++) {
        rk_place place;
        uint32_t number;
        if (!rk_hash_first(&players->numbers, hashes[i], &place))
            continue;
        memcpy(&number, rk_hash_value(&players->numbers, place), sizeof number);
        __builtin_prefetch(record(players, number));
    }
}

void rk_players_find_many(const rk_players *players, uint64_t count, const char *const *ids,
                          const uint32_t *lengths, uint32_t *numbers)
{
    uint32_t hashes[RK_GROUP];
    for (uint64_t done = 0; done < count;) {
        const uint32_t group = rk_group(count - done);
        warm(players, group, ids + done, lengths + done, hashes);
        for (uint32_t i = 0; i < group; i++, done++)
            numbers[done] = find_hashed(players, hashes[i], ids[done], lengths[done]);
    }
}

void rk_players_expect(rk_players *players, uint64_t count)
{
    rk_hash_expect(&players->numbers, count);
}

rk_status rk_players_intern_many(rk_players *players, uint64_t count, const char *const *ids,
                                 const uint32_t *lengths, uint32_t *numbers)
{
    uint32_t hashes[RK_GROUP];
    for (uint64_t done = 0; done < count;) {
        const uint32_t group = rk_group(count - done);
        warm(players, group, ids + done, lengths + done, hashes);
        for (uint32_t i = 0; i < group; i++, done++) {
            const rk_status status = intern_hashed(players, hashes[i], ids[done], lengths[done],
                                                   &numbers[done]);
            if (status != RK_OK)
                return status;
        }
    }
    return RK_OK;
}

/* ---- By number --------------------------------------------------------------------------- */

bool rk_players_has(const rk_players *players, uint32_t number)
{
    return number < players->issued && record(players, number)->length != 0;
}

const char *rk_players_id(const rk_players *players, uint32_t number, size_t *length)
{
    const rk_record *found = record(players, number);
    *length = found->length;
    return text_of(found);
}

void rk_players_warm(const rk_players *players, uint64_t count, const uint32_t *numbers)
{
    for (uint64_t i = 0; i < count; i++)
        if (numbers[i] < players->issued)
            __builtin_prefetch(record(players, numbers[i]));
}

rk_status rk_players_remove(rk_players *players, uint32_t number)
{
    if (!rk_players_has(players, number))
        return RK_ABSENT;
    size_t length;
    const char *id = rk_players_id(players, number, &length);
    const uint32_t hash = hash_id(players, id, length);
    rk_place place;
    uint32_t found;
    const bool there = find_place(players, hash, id, length, &place, &found);
    assert(there && found == number);
    (void)there;
    rk_hash_remove(&players->numbers, place);
    erase_id(players, record(players, number));
    set_free(players, number);
    return RK_OK;
}

int rk_players_compare(const rk_players *players, uint32_t a, uint32_t b)
{
    if (a == b)
        return 0;
    size_t length_a, length_b;
    const char *id_a = rk_players_id(players, a, &length_a);
    const char *id_b = rk_players_id(players, b, &length_b);
    const int order = memcmp(id_a, id_b, length_a < length_b ? length_a : length_b);
    if (order != 0)
        return order;
    return (length_a > length_b) - (length_a < length_b);
}

size_t rk_players_bytes(const rk_players *players)
{
    return players->numbers.bytes + players->issued * sizeof(rk_record) + players->long_id_bytes;
}

int rk_players_check(const rk_players *players)
{
    uint64_t in_use = 0, free_count = 0;
    for (uint32_t number = 0; number < players->issued; number++) {
        if (!rk_players_has(players, number))
            continue;
        size_t length;
        const char *id = rk_players_id(players, number, &length);
        if (rk_players_find(players, id, length) != number)
            return 1;
        in_use++;
    }
    for (uint32_t number = players->free_head; number != RK_NOBODY;
         number = next_free(record(players, number)))
        if (rk_players_has(players, number) || ++free_count > players->issued)
            return 2;
    if (in_use + free_count != players->issued)
        return 1;
    return rk_hash_check(&players->numbers) == 0 && in_use == rk_players_count(players) ? 0 : 3;
}

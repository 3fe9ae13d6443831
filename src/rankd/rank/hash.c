/* hash.c -- see hash.h. */

#include "hash.h"

#include <assert.h>
#include <string.h>

#define SEGMENT_SLOTS_MIN 8u
#define SEGMENT_SLOTS_MAX 512u
#define DEPTH_MAX 23u

/* Slots of a hash and its value, side by side: finding one mostly costs one cache line. */
struct rk_segment {
    uint32_t depth;
    uint32_t count;
    uint32_t slots;
    uint32_t unused;
    uint32_t words[];
};

static uint32_t stride(const rk_hash *map)
{
    return 1 + map->value_bytes / 4;
}

static size_t segment_bytes(const rk_hash *map, uint32_t slots)
{
    return sizeof(rk_segment) + (size_t)slots * stride(map) * sizeof(uint32_t);
}

static uint32_t *slot_at(const rk_hash *map, rk_segment *segment, uint32_t slot)
{
    return segment->words + (size_t)slot * stride(map);
}

static uint32_t hash_at(const rk_hash *map, const rk_segment *segment, uint32_t slot)
{
    return segment->words[(size_t)slot * stride(map)];
}

/* The first bits of a hash chose the segment, so all hashes here share them: multiply to let the
 * other bits decide. */
static uint32_t home(uint32_t slots, uint32_t hash)
{
    return (uint32_t)(((uint64_t)(hash * UINT32_C(0x9E3779B1)) * slots) >> 32);
}

static uint32_t directory_place(const rk_hash *map, uint32_t hash)
{
    return map->depth == 0 ? 0 : hash >> (32 - map->depth);
}

static rk_segment *segment_of(const rk_hash *map, uint32_t hash)
{
    return map->directory == NULL ? NULL : map->directory[directory_place(map, hash)].segment;
}

static uint32_t after(uint32_t slots, uint32_t slot)
{
    return slot + 1 == slots ? 0 : slot + 1;
}

/* Seven eighths full: searches stay short, and one slot is always empty to end them. */
static uint32_t count_max(uint32_t slots)
{
    return slots - slots / 8;
}

/* ---- Life -------------------------------------------------------------------------------- */

void rk_hash_init(rk_hash *map, uint32_t value_bytes)
{
    assert(value_bytes % 4 == 0);
    *map = (rk_hash){.value_bytes = value_bytes};
}

static rk_segment *new_segment(rk_hash *map, uint32_t depth, uint32_t slots)
{
    rk_segment *segment = rk_allocate(segment_bytes(map, slots));
    if (segment == NULL)
        return NULL;
    *segment = (rk_segment){.depth = depth, .slots = slots};
    for (uint32_t slot = 0; slot < slots; slot++)
        *slot_at(map, segment, slot) = RK_HASH_NONE;
    map->bytes += segment_bytes(map, slots);
    return segment;
}

static void free_segment(rk_hash *map, rk_segment *segment)
{
    if (segment == NULL)
        return;
    map->bytes -= segment_bytes(map, segment->slots);
    rk_release(segment, segment_bytes(map, segment->slots));
}

static size_t directory_bytes(uint32_t depth)
{
    return sizeof(rk_directory) << depth;
}

void rk_hash_clear(rk_hash *map)
{
    if (map->directory != NULL) {
        const uint32_t places = UINT32_C(1) << map->depth;
        for (uint32_t i = 0; i < places;) {
            rk_segment *segment = map->directory[i].segment;
            i += UINT32_C(1) << (map->depth - segment->depth);
            free_segment(map, segment);
        }
        rk_release(map->directory, directory_bytes(map->depth));
    }
    rk_hash_init(map, map->value_bytes);
}

/* ---- Search ------------------------------------------------------------------------------ */

static bool probe(const rk_hash *map, rk_directory at, uint32_t hash, uint32_t slot,
                  rk_place *place)
{
    for (uint32_t found; (found = hash_at(map, at.segment, slot)) != RK_HASH_NONE;
         slot = after(at.slots, slot)) {
        if (found == hash) {
            *place = (rk_place){at, slot};
            return true;
        }
    }
    return false;
}

bool rk_hash_first(const rk_hash *map, uint32_t hash, rk_place *place)
{
    if (map->directory == NULL)
        return false;
    const rk_directory at = map->directory[directory_place(map, hash)];
    return probe(map, at, hash, home(at.slots, hash), place);
}

bool rk_hash_next(const rk_hash *map, uint32_t hash, rk_place *place)
{
    return probe(map, place->in, hash, after(place->in.slots, place->slot), place);
}

void *rk_hash_value(const rk_hash *map, rk_place place)
{
    return slot_at(map, place.in.segment, place.slot) + 1;
}

void rk_hash_warm_directory(const rk_hash *map, uint32_t hash)
{
    if (map->directory != NULL)
        __builtin_prefetch(&map->directory[directory_place(map, hash)]);
}

void rk_hash_warm_slots(const rk_hash *map, uint32_t hash)
{
    if (map->directory == NULL)
        return;
    const rk_directory at = map->directory[directory_place(map, hash)];
    const uint32_t *slot = slot_at(map, at.segment, home(at.slots, hash));
    __builtin_prefetch(slot);
    __builtin_prefetch(slot + 8); /* a search goes on for a few slots */
}

/* ---- Growth ------------------------------------------------------------------------------ */

/* The next free slot for the hash, taken. */
static uint32_t *take_slot(const rk_hash *map, rk_segment *segment, uint32_t hash)
{
    uint32_t slot = home(segment->slots, hash);
    while (hash_at(map, segment, slot) != RK_HASH_NONE)
        slot = after(segment->slots, slot);
    segment->count++;
    uint32_t *taken = slot_at(map, segment, slot);
    *taken = hash;
    return taken;
}

static void copy_slot(const rk_hash *map, uint32_t *to, const uint32_t *from)
{
    memcpy(to, from, stride(map) * sizeof(uint32_t));
}

static void point_at(rk_hash *map, uint32_t hash, rk_segment *segment)
{
    const uint32_t span = map->depth - segment->depth;
    const uint32_t first = directory_place(map, hash) >> span << span;
    for (uint32_t i = 0; i < UINT32_C(1) << span; i++)
        map->directory[first + i] = (rk_directory){segment, segment->slots};
}

/* The same segment with another number of slots. `hash` is any that belongs in it. */
static rk_status resize(rk_hash *map, rk_segment *segment, uint32_t hash, uint32_t slots)
{
    rk_segment *resized = new_segment(map, segment->depth, slots);
    if (resized == NULL)
        return RK_NO_MEMORY;
    for (uint32_t slot = 0; slot < segment->slots; slot++)
        if (hash_at(map, segment, slot) != RK_HASH_NONE)
            copy_slot(map, take_slot(map, resized, hash_at(map, segment, slot)),
                      slot_at(map, segment, slot));
    point_at(map, hash, resized);
    free_segment(map, segment);
    return RK_OK;
}

/* An eighth more, so that memory follows need closely. */
static uint32_t more_slots(uint32_t slots)
{
    const uint32_t more = (slots + slots / 8 + 8) / 8 * 8;
    return more < SEGMENT_SLOTS_MAX ? more : SEGMENT_SLOTS_MAX;
}

static rk_status double_directory(rk_hash *map)
{
    if (map->depth == DEPTH_MAX)
        return RK_FULL;
    rk_directory *wider = rk_allocate(directory_bytes(map->depth + 1));
    if (wider == NULL)
        return RK_NO_MEMORY;
    for (uint32_t i = 0; i < UINT32_C(1) << map->depth; i++)
        wider[2 * i] = wider[2 * i + 1] = map->directory[i];
    rk_release(map->directory, directory_bytes(map->depth));
    map->bytes += directory_bytes(map->depth);
    map->directory = wider;
    map->depth++;
    return RK_OK;
}

static uint32_t slots_for(uint32_t count)
{
    uint32_t slots = SEGMENT_SLOTS_MIN;
    while (count_max(slots) < count + count / 16 + 1)
        slots += 8;
    return slots < SEGMENT_SLOTS_MAX ? slots : SEGMENT_SLOTS_MAX;
}

/* As many to a segment as leave room for the uneven share that chance gives some of them. */
#define EXPECTED_PER_SEGMENT 360u
#define EXPECTED_SPARE 48u

void rk_hash_expect(rk_hash *map, uint64_t count)
{
    if (map->directory != NULL || count <= EXPECTED_PER_SEGMENT)
        return;
    uint32_t depth = 0;
    while (depth < DEPTH_MAX && count >> depth > EXPECTED_PER_SEGMENT)
        depth++;
    const uint32_t places = UINT32_C(1) << depth;
    map->directory = rk_allocate(directory_bytes(depth));
    if (map->directory == NULL)
        return;
    const uint32_t slots = slots_for((uint32_t)(count >> depth) + EXPECTED_SPARE);
    uint32_t made = 0;
    for (; made < places; made++) {
        rk_segment *segment = new_segment(map, depth, slots);
        if (segment == NULL)
            break;
        map->directory[made] = (rk_directory){segment, slots};
    }
    if (made == places) {
        map->depth = depth;
        map->bytes += directory_bytes(depth);
        return;
    }
    while (made > 0)
        free_segment(map, map->directory[--made].segment);
    rk_release(map->directory, directory_bytes(depth));
    map->directory = NULL;
}

static rk_status split(rk_hash *map, rk_segment *segment, uint32_t hash)
{
    if (segment->depth == map->depth) {
        const rk_status status = double_directory(map);
        if (status != RK_OK)
            return status;
    }
    const uint32_t bit = UINT32_C(1) << (31 - segment->depth);
    uint32_t ones = 0;
    for (uint32_t slot = 0; slot < segment->slots; slot++)
        ones += (hash_at(map, segment, slot) & bit) != 0;
    rk_segment *low = new_segment(map, segment->depth + 1, slots_for(segment->count - ones));
    rk_segment *high = new_segment(map, segment->depth + 1, slots_for(ones));
    if (low == NULL || high == NULL) {
        free_segment(map, low);
        free_segment(map, high);
        return RK_NO_MEMORY;
    }
    for (uint32_t slot = 0; slot < segment->slots; slot++) {
        const uint32_t moved = hash_at(map, segment, slot);
        if (moved != RK_HASH_NONE)
            copy_slot(map, take_slot(map, (moved & bit) != 0 ? high : low, moved),
                      slot_at(map, segment, slot));
    }
    point_at(map, hash & ~bit, low);
    point_at(map, hash | bit, high);
    free_segment(map, segment);
    return RK_OK;
}

static rk_status begin(rk_hash *map)
{
    map->directory = rk_allocate(directory_bytes(0));
    if (map->directory == NULL)
        return RK_NO_MEMORY;
    rk_segment *segment = new_segment(map, 0, SEGMENT_SLOTS_MIN);
    if (segment == NULL) {
        rk_release(map->directory, directory_bytes(0));
        map->directory = NULL;
        return RK_NO_MEMORY;
    }
    map->directory[0] = (rk_directory){segment, SEGMENT_SLOTS_MIN};
    map->bytes += directory_bytes(0);
    return RK_OK;
}

rk_status rk_hash_reserve(rk_hash *map, uint32_t hash)
{
    rk_status status = map->directory == NULL ? begin(map) : RK_OK;
    while (status == RK_OK) {
        rk_segment *segment = segment_of(map, hash);
        if (segment->count < count_max(segment->slots))
            break;
        status = segment->slots < SEGMENT_SLOTS_MAX
                     ? resize(map, segment, hash, more_slots(segment->slots))
                     : split(map, segment, hash);
    }
    return status;
}

void *rk_hash_add(rk_hash *map, uint32_t hash)
{
    assert(hash != RK_HASH_NONE);
    rk_segment *segment = segment_of(map, hash);
    assert(segment->count < count_max(segment->slots));
    map->count++;
    return take_slot(map, segment, hash) + 1;
}

/* ---- Removal ----------------------------------------------------------------------------- */

/* May the slot's content move back to `gap`? Only if its home is not in (gap, slot]. */
static bool belongs_before(const rk_hash *map, const rk_segment *segment, uint32_t gap,
                           uint32_t slot)
{
    const uint32_t at = home(segment->slots, hash_at(map, segment, slot));
    return gap <= slot ? at <= gap || at > slot : at <= gap && at > slot;
}

void rk_hash_remove(rk_hash *map, rk_place place)
{
    rk_segment *segment = place.in.segment;
    const uint32_t hash = hash_at(map, segment, place.slot);
    uint32_t gap = place.slot;
    for (uint32_t slot = after(segment->slots, gap); hash_at(map, segment, slot) != RK_HASH_NONE;
         slot = after(segment->slots, slot)) {
        if (!belongs_before(map, segment, gap, slot))
            continue;
        copy_slot(map, slot_at(map, segment, gap), slot_at(map, segment, slot));
        gap = slot;
    }
    *slot_at(map, segment, gap) = RK_HASH_NONE;
    segment->count--;
    map->count--;
    if (segment->slots > SEGMENT_SLOTS_MIN && segment->count < segment->slots / 4)
        (void)resize(map, segment, hash, slots_for(segment->count)); /* or stay as it is */
}

void rk_hash_visit(const rk_hash *map, void (*visit)(void *context, uint32_t hash), void *context)
{
    const uint32_t places = map->directory == NULL ? 0 : UINT32_C(1) << map->depth;
    for (uint32_t i = 0; i < places;) {
        const rk_segment *segment = map->directory[i].segment;
        for (uint32_t slot = 0; slot < segment->slots; slot++)
            if (hash_at(map, segment, slot) != RK_HASH_NONE)
                visit(context, hash_at(map, segment, slot));
        i += UINT32_C(1) << (map->depth - segment->depth);
    }
}

/* ---- Check ------------------------------------------------------------------------------- */

static int check_segment(const rk_hash *map, const rk_segment *segment, uint32_t place)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < segment->slots; slot++) {
        const uint32_t hash = hash_at(map, segment, slot);
        if (hash == RK_HASH_NONE)
            continue;
        count++;
        const uint32_t prefix = map->depth == 0 ? 0 : place >> (map->depth - segment->depth);
        if (segment->depth > 0 && hash >> (32 - segment->depth) != prefix)
            return 2;
        for (uint32_t s = home(segment->slots, hash); s != slot; s = after(segment->slots, s))
            if (hash_at(map, segment, s) == RK_HASH_NONE)
                return 3;
    }
    return count == segment->count && count < segment->slots ? 0 : 4;
}

int rk_hash_check(const rk_hash *map)
{
    uint64_t count = 0;
    const uint32_t places = map->directory == NULL ? 0 : UINT32_C(1) << map->depth;
    for (uint32_t i = 0; i < places;) {
        const rk_segment *segment = map->directory[i].segment;
        if (segment->depth > map->depth)
            return 1;
        const uint32_t span = UINT32_C(1) << (map->depth - segment->depth);
        if (i % span != 0)
            return 1;
        for (uint32_t j = 0; j < span; j++)
            if (map->directory[i + j].segment != segment
                || map->directory[i + j].slots != segment->slots)
                return 1;
        const int broken = check_segment(map, segment, i);
        if (broken != 0)
            return broken;
        count += segment->count;
        i += span;
    }
    return count == map->count ? 0 : 4;
}

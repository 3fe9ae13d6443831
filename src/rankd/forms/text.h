/* text.h -- numbers and texts as JSON writes them.
 *
 * A text grows at its end. Every function that writes makes room first; where there is no memory it
 * says so and has written nothing. The bytes are those that Python's encoder writes for the same
 * values: plain.py says which, and the tests compare.
 *
 * Not thread-safe. Never calls into Python. */

#ifndef RANKD_TEXT_H
#define RANKD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *bytes;
    size_t size;
    size_t room;
} fm_text;

/* Begin with nothing, and end by giving everything back. */
void fm_text_init(fm_text *text);
void fm_text_clear(fm_text *text);

/* Begin anew, and let go of what an unusually long text took. */
void fm_text_empty(fm_text *text);

/* Bytes as they are, and a number in decimal digits. */
bool fm_put(fm_text *text, const char *bytes, size_t size);
bool fm_put_number(fm_text *text, int64_t number);

/* In quotes, with what JSON does not allow inside them escaped. */
bool fm_put_quoted(fm_text *text, const char *bytes, size_t size);

/* Of total entries, the share at or below a rank in per cent, with one or two decimals:
 * what round((total - rank + 1) / total * 100, 2) is in Python. 1 <= rank <= total. */
bool fm_put_share(fm_text *text, uint64_t rank, uint64_t total);

/* The number that eight bytes hold, most significant first, under a mask. */
int64_t fm_masked(const uint8_t *bytes, uint64_t mask);

#endif

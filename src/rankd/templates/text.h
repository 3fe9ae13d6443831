/* text.h -- a growing buffer of JSON.
 *
 * A text grows at its end. Every function that writes makes room first; without memory it returns
 * false and has written nothing. The bytes are those of Python's encoder for the same values; the
 * tests compare them with the version in pure Python.
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

/* Make an empty text; free its memory. */
void fm_text_init(fm_text *text);
void fm_text_clear(fm_text *text);

/* Empty the text, and free the memory of an unusually long one. */
void fm_text_empty(fm_text *text);

/* Append bytes unchanged; append a number in decimal digits. */
bool fm_put(fm_text *text, const char *bytes, size_t size);
bool fm_put_number(fm_text *text, int64_t number);

/* Append a JSON string: quoted and escaped. */
bool fm_put_quoted(fm_text *text, const char *bytes, size_t size);

/* Append the percentage of entries at or below a rank, with one or two decimals, equal to
 * round((total - rank + 1) / total * 100, 2) in Python. 1 <= rank <= total. */
bool fm_put_share(fm_text *text, uint64_t rank, uint64_t total);

/* Return the number in eight bytes, big-endian, XORed with a mask. */
int64_t fm_masked(const uint8_t *bytes, uint64_t mask);

#endif

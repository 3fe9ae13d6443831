/* text.c -- a growing buffer of JSON. See text.h. */

#include "text.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory kept from one text to the next: the largest page fits. */
#define KEPT_BYTES_MAX ((size_t)1 << 20)
#define ROOM_MIN ((size_t)4096)
#define NUMBER_BYTES_MAX 20u  /* -9223372036854775808 */
#define ESCAPE_BYTES_MAX 6u   /* \u001f */

void fm_text_init(fm_text *text)
{
    *text = (fm_text){NULL, 0, 0};
}

void fm_text_clear(fm_text *text)
{
    free(text->bytes);
    fm_text_init(text);
}

void fm_text_empty(fm_text *text)
{
    if (text->room > KEPT_BYTES_MAX)
        fm_text_clear(text);
    text->size = 0;
}

static bool grow(fm_text *text, size_t more)
{
    size_t room = text->room < ROOM_MIN ? ROOM_MIN : text->room;
    while (room - text->size < more)
        room *= 2;
    char *bytes = realloc(text->bytes, room);
    if (bytes == NULL)
        return false;
    text->bytes = bytes;
    text->room = room;
    return true;
}

static inline bool make_room(fm_text *text, size_t more)
{
    return text->room - text->size >= more || grow(text, more);
}

bool fm_put(fm_text *text, const char *bytes, size_t size)
{
    if (!make_room(text, size))
        return false;
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    return true;
}

static const char PAIRS[] =
    "00010203040506070809101112131415161718192021222324"
    "25262728293031323334353637383940414243444546474849"
    "50515253545556575859606162636465666768697071727374"
    "75767778798081828384858687888990919293949596979899";

bool fm_put_number(fm_text *text, int64_t number)
{
    char digits[NUMBER_BYTES_MAX];
    char *first = digits + sizeof digits;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    while (rest >= 100) {
        first -= 2;
        memcpy(first, PAIRS + 2 * (rest % 100), 2);
        rest /= 100;
    }
    if (rest >= 10) {
        first -= 2;
        memcpy(first, PAIRS + 2 * rest, 2);
    } else {
        *--first = (char)('0' + rest);
    }
    if (number < 0)
        *--first = '-';
    return fm_put(text, first, (size_t)(digits + sizeof digits - first));
}

static inline bool must_be_escaped(uint8_t byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\';
}

static size_t write_escaped(char *into, uint8_t byte)
{
    static const char HEX[] = "0123456789abcdef";
    static const char SHORT[0x20] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    into[0] = '\\';
    if (byte >= 0x20 || SHORT[byte]) {
        into[1] = byte >= 0x20 ? (char)byte : SHORT[byte];
        return 2;
    }
    memcpy(into + 1, "u00", 3);
    into[4] = HEX[byte >> 4];
    into[5] = HEX[byte & 15];
    return ESCAPE_BYTES_MAX;
}

bool fm_put_quoted(fm_text *text, const char *bytes, size_t size)
{
    if (!make_room(text, size * ESCAPE_BYTES_MAX + 2))
        return false;
    char *at = text->bytes + text->size;
    *at++ = '"';
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        if (must_be_escaped(byte))
            at += write_escaped(at, byte);
        else
            *at++ = (char)byte;
    }
    *at++ = '"';
    text->size = (size_t)(at - text->bytes);
    return true;
}

/* Return hundredths of a per cent, rounded as Python rounds: to the nearest. Values close to a half
 * are rare, and are rounded by the C library from their exact decimal digits. */
static uint32_t hundredths_of(double share)
{
    const double near = 1e-6;  /* Far more than the error of the product below. */
    double scaled = share * 100, whole = floor(scaled), rest = scaled - whole;
    if (fabs(rest - 0.5) > near)
        return (uint32_t)whole + (rest > 0.5);
    char digits[32];
    snprintf(digits, sizeof digits, "%.2f", share);
    /* Two digits after the locale's decimal point: a comma, or several bytes. */
    const char *last = digits + strlen(digits) - 2;
    return (uint32_t)(strtoul(digits, NULL, 10) * 100 + strtoul(last, NULL, 10));
}

bool fm_put_share(fm_text *text, uint64_t rank, uint64_t total)
{
    assert(1 <= rank && rank <= total);
    uint32_t hundredths = hundredths_of((double)(total - rank + 1) / (double)total * 100);
    char digits[8];
    size_t size = 0;
    uint32_t whole = hundredths / 100, rest = hundredths % 100;
    if (whole == 100) {
        memcpy(digits, "100", size = 3);
    } else {
        if (whole >= 10)
            digits[size++] = (char)('0' + whole / 10);
        digits[size++] = (char)('0' + whole % 10);
    }
    digits[size++] = '.';
    digits[size++] = (char)('0' + rest / 10);
    if (rest % 10)
        digits[size++] = (char)('0' + rest % 10);
    return fm_put(text, digits, size);
}

int64_t fm_masked(const uint8_t *bytes, uint64_t mask)
{
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word = word << 8 | bytes[i];
    return (int64_t)(word ^ mask);
}

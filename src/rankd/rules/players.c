/* players.c -- the table of player ids of the rank list, compiled into this part as well.
 *
 * Ids are exact and take few bytes there. A copy of the object code, and not of the source, keeps
 * the two extensions independent of each other. */

#include "../rank/memory.c"

#include "../rank/hash.c"

#include "../rank/players.c"

"""The core of one node among several: an index that they share, and the facts of the others."""

"""One folder per vendor; each keeps the promises of a port and translates its vendor's errors."""

"""Other libraries' interfaces over rankd, for programs that were written for them."""

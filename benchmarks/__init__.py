"""What rankd costs, measured beside what it is compared with, in the same run.

    make bench                          every question, at the usual sizes
    python -m benchmarks 1000000        one size
    python -m benchmarks --help         the rest

One file per question; each says what it measures, why, and how. Machines differ and are shared, so
a figure means little alone: every benchmark runs its reference too and prints the ratio. Nothing
in the test suite asserts a time.

    rank_list.py    how fast and how small is the native list, against Redis, up to 100 M players?
        rank_list_native.py, rank_list_redis.py    the two sides of it
        rank_list_tables.py, rank_list_plot.py     what is shown
    embedded.py     how many durable submissions, and how many ranks, does one thread get?
    start.py        how long until an engine answers, from a snapshot and from its ledger?
    archives.py     what do sealed windows cost, in time and in memory?
    closing.py      does anybody wait when a large window closes, or is dropped?
    integrity.py    what does it cost to take cheats out: a player, a build, a ban?
    attributes.py   what do attributes cost, and does a large batch keep readers waiting?
    http.py         what does the service reach over HTTP, beside Python's ceiling and Redis?
        http_ceiling.py                            the fast lane alone, beside that ceiling
    questions.py, questions_plot.py                what these have in common
    entries.py      players, scores and keys made up for a benchmark
    figures.py      the arithmetic: samples, ratios, goals, columns (and test_figures.py)
    progress.py     what a long run tells while it runs
    machine.py      where it was measured; how much memory a process has
"""

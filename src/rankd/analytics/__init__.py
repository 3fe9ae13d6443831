"""Analytics: an archive of the ledger in Parquet, and reports on it."""

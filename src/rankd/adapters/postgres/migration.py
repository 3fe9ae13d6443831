"""Schema upgrade from the database's version to this program's, one version at a time.

Several processes may start at once: the first one takes a lock that ends with its transaction, and
the others find the work done. All steps are one transaction, so that an interrupted upgrade leaves
no trace.
"""

from rankd.adapters.postgres.database import DriverConnection, PostgresAddress
from rankd.adapters.postgres.queries import MIGRATIONS, QUERIES, SCHEMA_VERSION
from rankd.errors import LedgerCorrupt, LedgerTooNew


async def migrate(connection: DriverConnection, address: PostgresAddress) -> None:
    """Upgrade the schema to the newest version.

    Raises LedgerCorrupt for a schema of another program, LedgerTooNew for a newer version.
    """
    async with connection.transaction():
        await connection.execute(address.sql(QUERIES["lock_migrations"]))
        for version in range(await _version(connection, address) + 1, SCHEMA_VERSION + 1):
            await connection.execute(address.sql(MIGRATIONS[version]))
            await connection.execute(address.sql(QUERIES["add_version"]), version)
        await connection.execute(address.sql(QUERIES["cover"]))


async def _version(connection: DriverConnection, address: PostgresAddress) -> int:
    found = await connection.fetchrow(address.sql(QUERIES["schema_exists"]))
    if not found["named"]:
        await connection.execute(f'CREATE SCHEMA "{address.schema}"')
    if not found["begun"]:
        if found["strange"]:
            raise LedgerCorrupt(f"the schema {address.schema} is of another program")
        return 0
    version: int = await connection.fetchval(address.sql(QUERIES["schema_version"]))
    if version > SCHEMA_VERSION:
        place = f"the ledger in {address.schema}"
        raise LedgerTooNew(place, schema=version, known=SCHEMA_VERSION)
    return version

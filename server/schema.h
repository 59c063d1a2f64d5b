/* schema.h — the files of schema/, compiled in by embed.sh. */
#pragma once

/* SQL texts; number i + 1 takes a database from version i to i + 1. */
extern const char *const schema_migrations[];
extern const int schema_migration_count;

extern const char schema_openapi[];

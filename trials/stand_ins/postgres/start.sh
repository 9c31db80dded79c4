#!/bin/sh
# Start PostgreSQL as its image does: POSTGRES_USER owns a database of that name, with POSTGRES_PASSWORD.
set -eu

bin=$(echo /usr/lib/postgresql/*/bin) data=/var/lib/postgresql/data
if [ ! -f "$data/PG_VERSION" ]; then
    printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
    "$bin/initdb" -D "$data" -U "$POSTGRES_USER" --pwfile /tmp/password -A scram-sha-256 -E UTF8
    rm /tmp/password
    printf 'host all all all scram-sha-256\n' >> "$data/pg_hba.conf"
    printf 'create database "%s"\n' "$POSTGRES_USER" | "$bin/postgres" --single -D "$data" postgres
fi
exec "$bin/postgres" -D "$data" -c 'listen_addresses=*' -k /tmp

#!/bin/sh
# Run once by the image of PostgreSQL, when its volume is empty: a role and databases for each of the two that use it.
set -eu
for name in temporal ledger; do
  psql --username "$POSTGRES_USER" --set ON_ERROR_STOP=1 --set "role=$name" \
    --set "password=$(cat "/run/secrets/${name}_password")" <<'SQL'
CREATE ROLE :"role" LOGIN PASSWORD :'password';
CREATE DATABASE :"role" OWNER :"role";
SQL
done
psql --username "$POSTGRES_USER" --set ON_ERROR_STOP=1 --command 'CREATE DATABASE temporal_visibility OWNER temporal'

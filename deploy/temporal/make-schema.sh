#!/bin/sh
# Temporal's tables, made or brought up to this version; SQL_PASSWORD is in the environment.
set -eu
schema=/etc/temporal/schema/postgresql/v12
for pair in temporal:temporal temporal_visibility:visibility; do
  tool="temporal-sql-tool --plugin postgres12 --ep postgresql -p 5432 -u temporal --db ${pair%%:*}"
  versions="$schema/${pair##*:}/versioned"
  $tool update-schema -d "$versions" || { $tool setup-schema -v 0.0 && $tool update-schema -d "$versions"; }
done

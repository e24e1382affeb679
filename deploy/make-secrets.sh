#!/bin/sh
# Makes the secrets that compose.yaml reads, in deploy/secrets; what is there stays.
set -eu
umask 077
cd "$(dirname "$0")"
mkdir -p secrets
cd secrets
word() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
for name in postgresql temporal ledger; do
  test -e "${name}_password" || word > "${name}_password"
done
test -e ledger_url || printf 'postgresql+psycopg://ledger:%s@postgresql/ledger' "$(cat ledger_password)" > ledger_url
# Temporal's images read variables alone; a file of them keeps them out of compose.yaml.
test -e temporal.env || printf 'POSTGRES_PWD=%s\nSQL_PASSWORD=%s\n' "$(cat temporal_password)" "$(cat temporal_password)" > temporal.env
test -e models.env || : > models.env # OPENAI_API_KEY=… or ANTHROPIC_API_KEY=…, for the agent llm
# A file that is mounted keeps its rights, and users in containers are others; the folder itself is closed.
chmod 444 ./*_password ledger_url

#!/usr/bin/env bash
# Makes a PostgreSQL server available to the tests: Debian's package, without a cluster of its own.
# The tests start a server themselves, in a temporary folder. Does nothing where one is installed.
set -euo pipefail
if compgen -G '/usr/lib/postgresql/*/bin/pg_ctl' >/dev/null || command -v pg_ctl >/dev/null; then
  exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "PostgreSQL is not installed; its tests are skipped (apt-get install postgresql)"
  exit 0
fi
echo "installing PostgreSQL for the tests"
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
export DEBIAN_FRONTEND=noninteractive
apt-get install -y -q --no-install-recommends postgresql >/dev/null 2>&1 ||
  { apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends postgresql >/dev/null; }

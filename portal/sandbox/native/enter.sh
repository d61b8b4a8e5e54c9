#!/bin/sh
# enter.sh CGROUP_PROCS_FILE... -- COMMAND...   joins the cgroups, then becomes the command.
while [ "$1" != -- ]; do
  echo $$ > "$1"
  shift
done
shift
exec "$@"

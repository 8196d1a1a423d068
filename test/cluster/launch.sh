#!/bin/sh
# launch.sh NAME PROGRAM ARGS... becomes PROGRAM, after recording its own PID and start time in ./live/pids next to
# this file. The watchdog takes ./live away before it kills what is recorded, so that a program which is launched too
# late to be seen does not start at all.
live=$(dirname "$0")/live
name=$1
shift

if [ -r "/proc/$$/stat" ]; then
	read -r stat <"/proc/$$/stat"
	start=$(set -- ${stat##*) } && echo "${20}")
else
	start=$(ps -o lstart= -p $$ | tr -s ' ' '_')
fi
echo "$$ $start $name" >>"$live/pids" || exit 1
exec "$@"

#!/bin/sh
# watchdog.sh FOLDER KEEP holds the read end of a pipe whose write end only the cluster's owner holds. A line in it
# names a program to kill. When the owner closes the pipe or dies, it ends; then every recorded process is killed,
# volumes are removed, and so is the folder unless KEEP is "keep".
#
# Signals meant for the owner (Ctrl-C, a closed terminal) must not end the watchdog before the owner.
trap '' INT TERM HUP QUIT
folder=$1
keep=$2

# alive PID START: the process that was recorded still runs. A zombie does not: it only waits to be reaped.
alive() {
	if [ -d /proc/self ]; then
		{ read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
		wanted=$2
		set -- ${stat##*) }
		[ "$1" != Z ] && [ "${20}" = "$wanted" ]
	else
		[ "$(ps -o lstart= -p "$1" | tr -s ' ' '_')" = "$2" ]
	fi
}

# kill_recorded FILE [NAME] kills what is recorded, or what is recorded under a name, and fails if nothing was alive.
kill_recorded() {
	killed=1
	while read -r pid start name; do
		if [ "${2:-$name}" = "$name" ] && alive "$pid" "$start"; then
			kill -KILL "$pid"
			killed=0
		fi
	done <"$1"
	return $killed
}

while read -r name; do
	kill_recorded "$folder/live/pids" "$name"
done

# From here on nothing can be launched: the launcher finds no folder to record its PID in.
mv "$folder/live" "$folder/ended" || exit 0

# A launcher that opened the record just before the move may still be writing into it: hence one more look after
# nothing was found alive.
quiet=0
tries=0
while [ $quiet -lt 2 ] && [ $tries -lt 50 ]; do
	tries=$((tries + 1))
	if kill_recorded "$folder/ended/pids"; then quiet=0; else quiet=$((quiet + 1)); fi
	[ $quiet -ge 2 ] || sleep 0.1
done

# Only folders that the host-path provisioner can have made: one name below its root.
while read -r path; do
	case $path in
	/tmp/hostpath_pv/*/* | *..*) ;;
	/tmp/hostpath_pv/?*) rm -rf "$path" ;;
	esac
done <"$folder/ended/volumes"

[ "$keep" = keep ] || rm -rf "$folder"

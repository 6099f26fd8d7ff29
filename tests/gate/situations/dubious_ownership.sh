#!/bin/bash
# What: the repository belongs to another user (container with a mounted work tree); --range; then safe.directory by GIT_CONFIG_COUNT as CI systems set it.
# Want: never 0; the message names the ownership; with safe.directory from the environment it works.
. "${BASH_SOURCE%/*}/prelude.bash"
[ "$(id -u)" = 0 ] || { echo 'ok (skipped: not root)'; exit 0; }
new r; cd r; echo "$LEAK" >l; git add l; git commit -q -m l; chown -R 12345 .; gate --range HEAD~1..HEAD; r=$?; [ $r != 0 ] || bad "passes without a scan"; [ $r = 4 ] && { echo 'ok (skipped: git does not object here)'; exit 0; }
m=$(said); export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'; gate --range HEAD~1..HEAD; r=$?
case $m in *owner*|*safe.directory*) ;; *) bad "message for another owner's repository: $m (with GIT_CONFIG_COUNT safe.directory: exit $r)" ;; esac; [ $r = 4 ] || bad "safe.directory from the environment is dropped: exit $r $(said)"; good

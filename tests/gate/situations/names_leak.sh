#!/bin/bash
# What: leaks in files with odd names, in unicode normal-form twins, and in the file NAME itself.
# Want: refused with --staged and --range, no traceback.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; for n in 'a b' $'new\nline' $'bad\xff\xfe' $'caf\xc3\xa9' $'cafe\xcc\x81' $'ls\xe2\x80\xa8x' $'cr\rx'; do echo "$LEAK" >"$n"; git add -A; gate --staged; [ $? = 4 ] || bad "--staged $(printf %q "$n"): $(said)"; git commit -q --no-verify -m x; gate --range HEAD~1..HEAD; r=$?; [ $r = 4 ] || bad "--range exit $r for a leak in $(printf %q "$n"): $(said)"; done
echo ok >"$(echo "$LEAK" | tr -d '?')"; git add -A; gate --staged; [ $? = 4 ] || bad "leak as a file name: $(said)"
d="$(echo "$LEAK" | tr ' ' '/' | tr -d '?,')"; git reset -q --hard; mkdir -p "$d"; echo ok >"$d/f"; git add -A; gate --staged; [ $? = 4 ] || bad "leak as nested folder names: $(said)"; good

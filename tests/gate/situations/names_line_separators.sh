#!/bin/bash
# What: harmless files named with U+2028, U+0085, form feed, carriage return in a folder ("Icon\r" of macOS), tab, newline, spaces, quotes, non-UTF-8 bytes.
# Want: --staged, --all, --range and push pass (0) for harmless content.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; origin r; cd r; plain_hooks .; i=0
for n in 'a b' $'tab\tx' $'new\nline' '"q"' $'bad\xff\xfe' $'Icon\r' $'dir\r/x' $'ff\fx' $'vt\vx' $'nel\xc2\x85x' $'ls\xe2\x80\xa8x' $'fs\x1cx' '-dash' ':colon' 'ünï'; do i=$((i+1)); b=$(git rev-parse HEAD)
case $n in */*) mkdir -p "${n%/*}" ;; esac; echo "fine $i" >"./$n"; git add -A; gate --staged || bad "--staged with the name $(printf %q "$n"): $(said)"; git commit -q -m "n$i" >/dev/null 2>"$W/err" || bad "commit with the name $(printf %q "$n")"
gate --all || bad "--all with the name $(printf %q "$n"): $(said)"; gate --range $b..HEAD || bad "--range exit $? with the name $(printf %q "$n"): $(said)"; done
git push -q origin main >"$W/out" 2>"$W/err" || bad "push: $(said)"; good

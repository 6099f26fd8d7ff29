#!/bin/bash
# What: leak staged, then removed from the work tree; leak in the work tree only; leak deleted from disk but staged; intent-to-add.
# Want: refused when the index has it, passed when only the work tree has it.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; plain_hooks .
echo "$LEAK" >n; git add n; echo clean >n; git commit -q -m m >/dev/null 2>&1 && bad "staged leak passed (work tree clean)"
git reset -q; rm n; echo "$LEAK" >n; git add n; rm n; git commit -q -m m >/dev/null 2>&1 && bad "staged leak passed (file deleted)"
git reset -q; echo ok >n; git add n; echo "$LEAK" >>n; git commit -q -m m >"$W/out" 2>"$W/err" || bad "index clean but refused: $(said)"
git checkout -q -f .; echo "$LEAK" >ita; git add -N ita; echo more >>README.md; git add README.md; git commit -q -m m2 >"$W/out" 2>"$W/err" || bad "intent-to-add refused a commit without it: $(said)"
git commit -q -am m3 >/dev/null 2>&1 && bad "intent-to-add file committed with -a"; good

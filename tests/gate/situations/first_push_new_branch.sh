#!/bin/bash
# What: first push to an empty remote; first push of a new branch; push of a new branch whose only new thing is below an old tag; delete of a branch.
# Want: leaks refused, clean pushes and deletions pass.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; plain_hooks .; git init -q --bare "$W/origin.git"; git remote add origin "$W/origin.git"
git push -q origin main >"$W/out" 2>"$W/err" || bad "clean first push refused: $(said)"
git checkout -q -b f; echo x >x; git add x; git commit -q -m x >/dev/null 2>&1; git push -q origin f >"$W/out" 2>"$W/err" || bad "clean new branch refused: $(said)"
git checkout -q -b g; echo "$LEAK" >l; git add l; git commit -q --no-verify -m l; git rm -q l; git commit -q --no-verify -m gone
git push -q origin g >/dev/null 2>&1 && bad "new branch with a leak in its history pushed"
git push -q origin HEAD:refs/heads/other >/dev/null 2>&1 && bad "pushed under another name"
git push -q origin :f >"$W/out" 2>"$W/err" || bad "deletion refused: $(said)"
git init -q --bare "$W/o2.git"; git push -q "$W/o2.git" main >"$W/out" 2>"$W/err" || bad "clean push to a URL refused: $(said)"
git push -q "$W/o2.git" g >/dev/null 2>&1 && bad "push to a URL leaked"; good

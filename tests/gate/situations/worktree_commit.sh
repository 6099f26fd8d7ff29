#!/bin/bash
# What: commit, commit -a, and push from a linked worktree (also from its subfolder), plain and framework hooks; the main work tree has other staged content.
# Want: leaks refused; harmless passes although the main work tree has a staged leak.
. "${BASH_SOURCE%/*}/prelude.bash"
for kind in plain framework; do rm -rf r wt origin.git; new r; cd r; ${kind}_hooks .; git add -A; git commit -q --no-verify --allow-empty -m cfg; origin .
echo "$LEAK" >staged; git add staged; git worktree add -q ../wt -b wt; cd ../wt; mkdir d; echo ok >d/f; git add d/f
git commit -q -m fine >"$W/out" 2>"$W/err" || bad "$kind: harmless commit in a worktree refused: $(said)"
cd d; echo "$LEAK" >>f; git commit -q -am leak >/dev/null 2>&1 && bad "$kind: commit -a in a worktree let through"
echo "$LEAK" >g; git add g; git commit -q -m leak >/dev/null 2>&1 && bad "$kind: commit in a worktree let through"; git commit -q --no-verify -m leak; git push -q origin wt >/dev/null 2>&1 && bad "$kind: push from a worktree let through"
gate --all; [ $? = 4 ] || bad "--all in a worktree: $(said)"; cd "$W"; done; good

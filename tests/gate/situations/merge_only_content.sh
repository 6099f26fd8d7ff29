#!/bin/bash
# What: text that exists only in the merge commit (evil merge), in neither parent.
# Want: --range refuses (4), and so does the push.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; origin r; cd r
git checkout -q -b side; echo a >a; git add a; git commit -q --no-verify -m a; git checkout -q main; echo b >b; git add b; git commit -q --no-verify -m b
git merge -q --no-commit --no-ff side >/dev/null; echo "$LEAK" >notes.md; git add notes.md; git commit -q --no-verify -m merged
git rm -q notes.md; git commit -q --no-verify -m removed
gate --range origin/main..HEAD; [ $? = 4 ] || bad "range let an evil merge through: $(said)"
plain_hooks .; git push -q origin main 2>/dev/null && bad "push let an evil merge through"; has "$W/origin.git" && bad leaked; good

#!/bin/bash
# What: a pull request adds a quiz and its entry: in one commit; in two commits; entry first; entry in a merge commit; entry on a file renamed later; policy as symlink; removed later.
# Want: --range base refuses all (the policy of the base counts).
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; b=$(git rev-parse HEAD); quiz >q.md; gate allow q.md --reason x --by x || bad "setup: $(said)"
git add -A; git commit -q --no-verify -m both; gate --range $b..HEAD; [ $? = 4 ] || bad "one commit: $(said)"; gate --range $b..HEAD --policy-from apart; [ $? = 4 ] || bad "apart, one commit: $(said)"
git reset -q --soft $b; git reset -q; git add .robustify-gate.json; git commit -q --no-verify -m entry; git add q.md; git commit -q --no-verify -m quiz; gate --range $b..HEAD; [ $? = 4 ] || bad "two commits: $(said)"
gate --range $b..HEAD --policy-from apart; r=$?; grep -q 'person must review' "$W/err" || bad "apart does not say that entries are new: exit $r $(said)"
mv .robustify-gate.json "$W/pol"; git rm -q --cached .robustify-gate.json; ln -s "$W/pol" .robustify-gate.json; git add -A; git commit -q --no-verify -m link; gate --range $b..HEAD; [ $? = 4 ] || bad "symlink policy (range): $(said)"; gate --all; r=$?; [ $r = 4 ] || [ $r = 3 ] || bad "symlink policy (--all): exit $r $(said)"; good

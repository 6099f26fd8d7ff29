#!/bin/bash
# What: framework with the pre-push hook of step 3: several branches in one push, a tag, a new branch with known commits and a leaking NAME.
# Want: refused.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; framework_hooks r legacy; cd r; git add -A; git commit -q --no-verify -m cfg; origin .
git checkout -q -b a; echo a >a; git add a; git commit -q --no-verify -m a; git checkout -q -b b; echo "$LEAK" >b; git add b; git commit -q --no-verify -m b
git push -q origin main a b >/dev/null 2>&1 && bad "several branches: leaked"
git tag -a -m "$LEAK" v1 main; git push -q origin v1 >/dev/null 2>&1 && bad "tag message leaked"
git checkout -q main; n=$(echo "$LEAK" | tr ' ' '-' | tr -d '?,'); git push -q origin main:refs/heads/$n >/dev/null 2>&1 && bad "branch name leaked"
good

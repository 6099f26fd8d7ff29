#!/bin/bash
# What: documented set-up (framework and the hook of step 3): a clean branch is pushed while an unpushed local branch has registered text.
# Want: the push of the clean branch passes; pushing the other one is refused.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; framework_hooks r legacy; cd r; git add -A; git commit -q --no-verify -m cfg; origin .
git checkout -q -b private; echo "$LEAK" >b; git add b; git commit -q --no-verify -m b; git checkout -q main; git checkout -q -b clean; echo c >c; git add c; git commit -q -m c >/dev/null 2>&1
git push -q origin private >/dev/null 2>&1 && bad "private pushed"
git push -q origin clean >"$W/out" 2>"$W/err" || bad "a clean branch is refused because of another branch that is not pushed: $(said 500)"; good

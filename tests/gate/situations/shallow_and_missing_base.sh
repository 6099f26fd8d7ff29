#!/bin/bash
# What: CI in a shallow clone; a base that a force push removed; a partial clone; push from a shallow clone.
# Want: never 0 for what was not scanned; exit 2 or 6 with a message; the clean push from a shallow clone passes; the leaking one is refused.
. "${BASH_SOURCE%/*}/prelude.bash"
new s; cd s; for i in 1 2 3; do echo $i >f$i; git add .; git commit -q -m $i; done; echo "$LEAK" >l; git add l; git commit -q -m l; git rm -q l; git commit -q -m rm; cd ..
git clone -q --depth 1 "file://$W/s" c; cd c; gate --range HEAD~1..HEAD; [ $? = 2 ] || bad "shallow HEAD~1: exit $? $(said)"; gate --range 0000000000000000000000000000000000000000..HEAD; [ $? = 2 ] || bad "shallow zeros: $(said)"
gate --range deadbeefdeadbeefdeadbeefdeadbeefdeadbeef..HEAD; [ $? = 2 ] || bad "force push base: $(said)"; cd ..
git clone -q --depth 2 "file://$W/s" d; cd d; gate --range HEAD~1..HEAD; r=$?; [ $r = 0 ] || [ $r = 4 ] || bad "depth 2: $r $(said)"; plain_hooks .; git init -q --bare "$W/o.git"; echo n >n; git add n; git commit -q -m n; git push -q origin HEAD:refs/heads/new >"$W/out" 2>"$W/err" || bad "clean push from a shallow clone: $(said)"
echo "$LEAK" >z; git add z; git commit -q --no-verify -m z; git push -q origin HEAD:refs/heads/new2 >/dev/null 2>&1 && bad "leak pushed from a shallow clone"; cd ..
git -C s config uploadpack.allowFilter true; git clone -q --filter=blob:none --no-checkout "file://$W/s" p; cd p; gate --range HEAD~2..HEAD; r=$?; [ $r = 6 ] || [ $r = 4 ] || bad "partial clone: exit $r $(said)"; good

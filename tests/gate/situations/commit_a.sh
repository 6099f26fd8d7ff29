#!/bin/bash
# What: commit -am, commit PATH, commit --only, commit --include, commit -p, from the top and from a subfolder, plain and framework hooks.
# Want: none of them creates a commit with the leak.
. "${BASH_SOURCE%/*}/prelude.bash"
try() { before=$(git rev-parse HEAD); "$@" >"$W/out" 2>"$W/err" </dev/null; [ "$(git rev-parse HEAD)" = "$before" ] || bad "let through: $*"; git reset -q; }
for kind in plain framework; do
rm -rf r; new r; ${kind}_hooks r; cd r; git add -A; git commit -q --no-verify -m cfg; mkdir -p sub; echo x >sub/f; echo y >top; git add -A; git commit -q --no-verify -m f
echo "$LEAK" >>sub/f; echo "$LEAK" >>top
try git commit -am m; try git commit -m m sub/f; try git commit -m m --only top; echo z >z; git add z; try git commit -m m --include top
cd sub; try git commit -am m; try git commit -m m f; try git -C .. commit -m m -- sub/f; cd ..
printf 'y\ny\ny\ny\n' | git commit -p -m m >"$W/out" 2>&1 && bad "commit -p let through ($kind)"
git checkout -q -f HEAD; git reset -q --hard; echo fine >>top; git commit -qam fine >"$W/out" 2>"$W/err" || bad "harmless commit -am refused ($kind): $(said)"; cd ..
done; good

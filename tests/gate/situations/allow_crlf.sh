#!/bin/bash
# What: a refused but harmless file; work tree has CRLF (autocrlf=true as on Windows); `gate allow FILE`, git add, commit.
# Want: after `allow` the staged file passes.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; git config core.autocrlf true; quiz | sed 's/$/\r/' >quiz.md; git add quiz.md 2>/dev/null
gate --staged; [ $? = 4 ] || { echo 'ok (not refused at all)'; exit 0; }
gate allow quiz.md --reason "made-up quiz" --by Me || bad "allow: $(said)"; git add .robustify-gate.json 2>/dev/null; gate --staged || bad "allowed, but still refused when the work tree has CRLF: $(said)"; good

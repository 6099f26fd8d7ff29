#!/bin/bash
# What: .gitattributes in the same change: -diff, binary, diff=driver with textconv, filter, export-ignore, working-tree-encoding; diff.relative; diff.noprefix; core.quotePath.
# Want: refused with --staged (also from a subfolder) and --range.
. "${BASH_SOURCE%/*}/prelude.bash"
new r; cd r; printf '* -diff\n*.t diff=x\n*.e export-ignore\n*.u working-tree-encoding=UTF-16LE\n*.b binary\n' >.gitattributes; git config diff.x.textconv true; git config diff.x.command true; git config diff.relative true; git config diff.noprefix true
mkdir sub; for f in a.md a.t a.e a.b; do echo "$LEAK" >$f; git add .gitattributes $f; (cd sub; gate --staged); [ $? = 4 ] || bad "$f staged (from a subfolder): $(said)"; git commit -q --no-verify -m $f; gate --range HEAD~1..HEAD; [ $? = 4 ] || bad "$f range"; done
echo "$LEAK" | iconv -t UTF-16LE >a.u; git add a.u; gate --staged; [ $? = 4 ] || bad "working-tree-encoding: $(said)"; good
